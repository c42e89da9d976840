"""A session's models: costs, fallback in a chain, and inline tags in responses."""

from __future__ import annotations

import pytest

from agentrail import SessionHandle, SessionSpec
from agentrail.errors import (
    AccessDenied,
    BadModelOptions,
    BadResponse,
    BadSpec,
    CertificateRefused,
    ConnectionFailed,
    ContextTooLong,
    CredentialsMissing,
    EncodingRefused,
    KeyMissing,
    KeyRefused,
    KeyWanted,
    LimitReached,
    ModelError,
    ModelMissing,
    NoFirstByte,
    NoNextByte,
    Overloaded,
    PermanentModelError,
    PluginRefused,
    ProviderFailed,
    ProviderNotReached,
    ProxyRefused,
    QuotaSpent,
    RateLimited,
    RequestRefused,
    ResponseTooLong,
    ServerMissing,
    StreamEndedEarly,
    StreamGarbled,
    TransientModelError,
    TurnAborted,
    UnknownModel,
    WrongEndpoint,
    WrongType,
)
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    MessageDelta,
    ModelEffective,
    ModelSwitched,
    ResponseComplete,
    Retry,
    StatusUpdate,
    TitleGenerated,
)
from agentrail.models import PING, CallChunk, Chunk, Price, ThinkingChunk, Usage, UsageChunk
from agentrail.plugins import BudgetGuard
from agentrail.ports.model import ChainLink
from agentrail.testing import ScriptedModel, call, fail, say, stall, transient
from tests.kit import NOTHING_USED
from tests.runtime.tools import quick
from tests.runtime.world import Heard, World, listen, settle, until

PRICE = Price(1.0, 10.0)
PRICES = {"scripted": PRICE}
MILLION = Usage(1_000_000, 100_000)


async def chained(world: World, *models: ChainLink) -> SessionHandle:
    """Spawn a session with a chain of models."""
    handle = await world.supervisor.spawn(SessionSpec(model=models))
    heard = Heard()
    world.spawned.append((handle, heard))
    await world.nursery.start(listen, handle, heard)
    return handle


async def test_a_model_is_known_by_its_name(world: World) -> None:
    session = await world.supervisor.spawn(SessionSpec(model="demo"))
    assert (await session.ask("hello")).text
    await session.switch_model(ScriptedModel(["well"], name="own"))
    assert (await session.ask("hello")).text == "well"


# Usage and cost


async def test_a_response_a_turn_and_a_session_have_their_costs(world: World) -> None:
    script = [say(calls=[call("quick")], usage=MILLION), say("done", usage=MILLION), say("done", usage=MILLION)]
    session = await world.spawn(script, tools=[quick()], prices=PRICES)
    replies = [await session.ask("hello"), await session.ask("hello")]
    await settle()
    heard = world.heard(session)
    assert [event.message.usage.cost_usd for event in heard.of(ResponseComplete)] == [2.0, 2.0, 2.0]
    assert [event.usage for event in heard.of(AgentEnd)] == [reply.usage for reply in replies]
    assert [reply.usage.cost_usd for reply in replies] == [4.0, 2.0]
    assert session.status().usage.cost_usd == 6.0


async def test_what_costs_nobody_knows_costs_nothing_that_anybody_says(world: World) -> None:
    session = await world.spawn([say("well", usage=MILLION)])
    assert (await session.ask("hello")).usage.cost_usd is None
    assert session.status().usage == MILLION


async def test_a_sum_with_an_unknown_part_is_unknown(world: World) -> None:
    spare = ScriptedModel([say("well", usage=MILLION)], name="spare")
    session = await world.spawn([say("well", usage=MILLION)], prices=PRICES)
    assert (await session.ask("hello")).usage.cost_usd == 2.0
    await session.switch_model(spare)
    assert (await session.ask("hello")).usage == MILLION
    assert session.status().usage == Usage(2_000_000, 200_000)


@pytest.mark.parametrize(
    ("chunks", "usage"),
    [
        ((), NOTHING_USED),
        ((PING,), Usage(15, estimated=True)),
        ((ThinkingChunk("hm" * 10), "so far" * 2, CallChunk('{"a":3}')), Usage(15, 10, estimated=True)),
        ((UsageChunk(Usage(100, 1, 40)), "so far" * 2), Usage(100, 4, 40, estimated=True)),
        (("so far", UsageChunk(Usage(100, 5, 40))), Usage(100, 5, 40)),
        (("so far" * 2, UsageChunk(Usage(100))), Usage(100, 3, estimated=True)),
        ((UsageChunk(Usage(0, 1)), "so far" * 2), Usage(15, 4, estimated=True)),
        ((UsageChunk(Usage()),), Usage(15, estimated=True)),
    ],
)
async def test_an_aborted_turn_keeps_what_was_counted_and_estimates_the_rest(
    world: World, chunks: tuple[object, ...], usage: Usage
) -> None:
    model = ScriptedModel([stall().but(chunks=say(chunks=chunks).chunks)])  # type: ignore[arg-type]  # any chunks
    session = await world.spawn(model, prices=PRICES, system="s" * 40)
    await session.prompt("hello" * 4)
    await until(lambda: bool(model.requests))
    await settle()
    await session.abort()
    cost = None if usage.is_nothing else PRICE.cost(usage)
    await until(lambda: not session.status().turn_open)
    assert session.status().usage == usage.but(cost_usd=cost)


async def test_a_request_that_fails_before_its_first_word_has_cost_nothing_that_anybody_knows_of(
    world: World,
) -> None:
    silent = fail(TransientModelError("busy")).but(chunks=(PING,))
    session = await world.spawn([silent, say("well", usage=MILLION)], prices=PRICES)
    assert (await session.ask("hello")).usage == MILLION.but(cost_usd=2.0)


@pytest.mark.parametrize(("chunks", "text"), [((PING,), ""), (("so far" * 2,), "so far" * 2)])
async def test_a_turn_that_takes_too_long_keeps_what_had_come_of_it(
    world: World, chunks: tuple[Chunk | str, ...], text: str
) -> None:
    model = ScriptedModel([stall().but(chunks=say(chunks=chunks).chunks)])
    session = await world.spawn(model, prices=PRICES, max_turn_seconds=5.0)
    with pytest.raises(TurnAborted, match="longer than 5 s"):
        await session.ask("hello" * 4)
    assert "".join(message.text for message in session.messages()[1:]) == text
    used = Usage(5, len(text) // 4, estimated=True)
    assert session.status().usage == used.but(cost_usd=PRICE.cost(used))


async def test_a_budget_of_money_is_kept(world: World) -> None:
    budget = BudgetGuard(max_usd=3.0)
    session = await world.spawn([say("well", usage=MILLION)] * 3, prices=PRICES, plugins=[budget])
    await session.ask("one")
    await session.ask("two")
    with pytest.raises(TurnAborted, match=r"max_usd=3.0 is used up: \$4.0000 were spent"):
        await session.ask("three")


async def test_a_budget_of_money_wants_the_price_of_every_model_of_the_chain(world: World) -> None:
    chain = [ScriptedModel(name="scripted"), ScriptedModel(name="spare")]
    with pytest.raises(PluginRefused, match="or of a model that it may fall back to, is not known"):
        await world.supervisor.spawn(SessionSpec(model=chain, prices=PRICES, plugins=[BudgetGuard(max_usd=3.0)]))
    prices = {**PRICES, "spare": PRICE}
    await world.supervisor.spawn(SessionSpec(model=chain, prices=prices, plugins=[BudgetGuard(max_usd=3.0)]))


# Chains

ONCE = {
    EncodingRefused: "at once",
    ModelMissing: "at once",
    ProxyRefused: "at once",
    QuotaSpent: "at once",
    ServerMissing: "at once",
    TransientModelError: "after two",
    RateLimited: "after two",
    Overloaded: "after two",
    ProviderFailed: "after two",
    NoFirstByte: "after two",
    NoNextByte: "after two",
    ConnectionFailed: "after two",
    ProviderNotReached: "after two",
    StreamGarbled: "after two",
    StreamEndedEarly: "after two",
    PermanentModelError: "never",
    CredentialsMissing: "never",
    KeyMissing: "never",
    KeyRefused: "never",
    KeyWanted: "never",
    AccessDenied: "never",
    CertificateRefused: "never",
    RequestRefused: "never",
    WrongEndpoint: "never",
    BadModelOptions: "never",
    BadResponse: "never",
    ResponseTooLong: "never",
    LimitReached: "never",
    ModelError: "never",
}
"""When each kind of error makes a session use the next model of its chain."""


@pytest.mark.parametrize(("kind", "when"), ONCE.items())
async def test_when_the_next_model_is_asked(world: World, kind: type[ModelError], when: str) -> None:
    first = ScriptedModel([fail(kind("no"))], name="first", repeat_last=True)
    second = ScriptedModel(["well"], name="second")
    session = await chained(world, first, (second, {"temperature": 1}))
    if when == "never":
        with pytest.raises(TurnAborted):
            await session.ask("hello")
    else:
        assert (await session.ask("hello")).text == "well"
        assert dict(second.requests[0].options) == {"temperature": 1}
    assert (len(first.requests), len(second.requests)) == {"at once": (1, 1), "after two": (2, 1), "never": (1, 0)}[
        when
    ]


def test_every_error_of_a_model_has_its_place_in_a_chain() -> None:
    def below(cls: type[ModelError]) -> set[type[ModelError]]:
        return {cls, *(actual for sub in cls.__subclasses__() for actual in below(sub))}

    assert {cls for cls in below(ModelError) if cls.__module__ == ModelError.__module__} == {*ONCE, ContextTooLong}


async def test_the_events_tell_who_answered(world: World) -> None:
    first = ScriptedModel([transient("busy"), transient("busy"), "first again"], name="first")
    session = await chained(world, first, ScriptedModel(["well"], name="second"))
    assert (await session.ask("hello")).text == "well"
    assert (await session.ask("hello")).text == "first again"
    await settle()
    heard = world.heard(session)
    assert heard.only(ModelSwitched) == ModelSwitched(
        "first", "second", provider_opts_changed=False, reason="TransientModelError: busy"
    )
    assert [event.model for event in heard.of(ModelEffective)] == ["second", "first"]
    assert [event.delay_ms for event in heard.of(Retry)][1:] == [0]


async def test_a_switch_takes_a_chain(world: World) -> None:
    session = await world.spawn(["well"])
    scripted_model, second = (
        ScriptedModel([fail(ModelMissing("gone"))], name="first"),
        ScriptedModel(["so"], name="second"),
    )
    await session.switch_model([scripted_model, (second, {"temperature": 1})])
    assert (await session.ask("hello")).text == "so"
    assert session.status().model == "first"
    with pytest.raises(UnknownModel):
        await session.switch_model(["scripted", "nobody:at-all"])
    with pytest.raises(WrongType):
        await session.switch_model([])


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (SessionSpec(model=["demo", ""]), "its `model` is missing"),
        (SessionSpec(model=["demo", 3]), "its `model` is a `int`"),  # type: ignore[list-item]  # a mistake
        (SessionSpec(model=[("demo", {"a": 1})], model_options={"b": 2}), "its `model_options` are given beside"),
        (SessionSpec(model="demo", prices=3), "its `prices` is a `int`"),  # type: ignore[arg-type]  # a mistake
        (SessionSpec(model="demo", prices={"demo": 3}), "its `prices` holds a `int`"),  # type: ignore[dict-item]  # a mistake
        (SessionSpec(model="demo", inline_tags=1), "its `inline_tags` is 1"),  # type: ignore[arg-type]  # a mistake
        (SessionSpec(model="demo", fallback_after=0), "its `fallback_after` is 0"),
    ],
)
async def test_a_chain_or_a_price_that_is_none_is_refused(world: World, spec: SessionSpec, problem: str) -> None:
    with pytest.raises(BadSpec, match=problem):
        await world.supervisor.spawn(spec)


# Inline tags


async def test_tags_are_cut_out_and_reported(world: World) -> None:
    chunks = ["<tit", "le>The ", "lamps</title>Both ", "<status>looking</status>", "are", " <", "on>", "."]
    session = await world.spawn([say(chunks=chunks)], inline_tags=True)
    assert (await session.ask("hello")).text == "Both are <on>."
    await settle()
    heard = world.heard(session)
    assert heard.said == "Both are <on>."
    events = [event for event in heard.events if isinstance(event, MessageDelta | StatusUpdate | TitleGenerated)]
    assert events == [
        *(MessageDelta("Both "), StatusUpdate("looking"), MessageDelta("are"), MessageDelta(" "), MessageDelta("<on>")),
        *(MessageDelta("."), TitleGenerated("The lamps")),
    ]


async def test_a_response_that_ends_in_the_middle_of_a_tag_loses_nothing(world: World) -> None:
    session = await world.spawn([say(chunks=["<sta"])], inline_tags=True)
    assert (await session.ask("hello")).text == "<sta"
    await settle()
    assert world.heard(session).said == "<sta"


async def test_of_a_response_that_is_cut_in_a_tag_what_was_heard_is_kept(world: World) -> None:
    session = await world.spawn([stall(after=2, text="well <status>loo")], inline_tags=True)
    await session.prompt("hello")
    await until(lambda: world.heard(session).said == "well ")
    await session.abort()
    await until(lambda: bool(world.heard(session).of(AgentAbort)))
    assert session.messages()[-1].text == "well "


async def test_without_the_option_tags_are_text(world: World) -> None:
    session = await world.spawn(["<title>The lamps</title>"])
    assert (await session.ask("hello")).text == "<title>The lamps</title>"
