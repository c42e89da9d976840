"""What the class of an answer refuses goes back to the model, while the class is known: `ask` and `SessionSpec`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import attrs
import pytest
import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.errors import AnswerUnfit, NoAnswer
from agentrail.events import AnswerRejected, ToolExecutionEnd
from agentrail.journals import Record
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools.answer_forms import form_of
from agentrail.values.untrusted_values import MAX_MESSAGE_CHARS
from tests.kit import Element
from tests.runtime.families import agent, task
from tests.runtime.journals import TestJournal
from tests.runtime.tools import quick
from tests.runtime.world import World, check_records, settle, until

ODD, EVEN = '{"number": 3}', '{"number": 4}'
REASON = "its class refuses it: ValueError: 3 is odd"


def even(_: object, __: object, number: int) -> None:
    if number % 2:
        raise ValueError(f"{number} is odd")


def odd(_: object, __: object, number: int) -> None:
    if not number % 2:
        raise ValueError(f"{number} is even")


@attrs.frozen
class Even:
    """A number."""

    number: int = attrs.field(validator=even)


@attrs.frozen
class Odd:
    """A number."""

    number: int = attrs.field(validator=odd)


@dataclass
class EvenData:
    """A number."""

    number: int

    def __post_init__(self) -> None:
        even(self, None, self.number)


def rejected(world: World, session: SessionHandle) -> list[str]:
    return [event.reason for event in world.heard(session).of(AnswerRejected)]


@pytest.mark.parametrize("expected", [Even, EvenData], ids=["attrs", "dataclass"])
async def test_what_the_class_refuses_goes_back_to_the_model(world: World, expected: type[Even | EvenData]) -> None:
    model = ScriptedModel([ODD, EVEN])
    session = await world.spawn(model)
    assert await session.ask("a number", returns=expected) == expected(4)
    assert rejected(world, session) == [REASON]
    assert REASON in str(model.requests[1].messages[-1])


@pytest.mark.parametrize("expected", [Even, EvenData], ids=["attrs", "dataclass"])
async def test_a_class_that_always_refuses_is_a_typed_error(world: World, expected: type[object]) -> None:
    session = await world.spawn([ODD] * 3)
    with pytest.raises(AnswerUnfit, match=f"`returns`: {REASON}"):
        await session.ask("a number", returns=expected)
    await settle()
    assert rejected(world, session) == [REASON] * 3
    assert session.inspect().turn is None
    assert not session._session.waiters  # noqa: SLF001 - what is kept there is the point


@pytest.mark.parametrize("expected", [Even, EvenData], ids=["attrs", "dataclass"])
async def test_the_class_of_a_spec_holds_for_all_turns(world: World, expected: type[object]) -> None:
    session = await world.spawn([ODD, EVEN, ODD, EVEN, *[ODD] * 3], returns=expected)
    assert (await session.ask("a number")).answer == {"number": 4}
    await session.prompt("another")
    await settle()
    assert rejected(world, session) == [REASON] * 2
    with pytest.raises(AnswerUnfit, match=REASON):
        await session.ask("one more")


async def test_the_class_of_a_prompt_is_asked_in_place_of_that_of_the_spec(world: World) -> None:
    assert form_of(Odd).schema == form_of(Even).schema
    session = await world.spawn([EVEN, ODD], returns=Even)
    assert await session.ask("a number", returns=Odd) == Odd(3)
    assert rejected(world, session) == ["its class refuses it: ValueError: 4 is even"]


async def test_two_prompts_with_one_schema_have_each_their_class(world: World) -> None:
    session = await world.spawn([say(ODD, delay=1.0), EVEN, EVEN, ODD])
    values: list[object] = []

    async def ask(expected: type[object]) -> None:
        values.append(await session.ask("a number", returns=expected))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, Even)
        await until(lambda: session.inspect().turn is not None)
        nursery.start_soon(ask, Odd)
    assert values == [Even(4), Odd(3)]
    assert len(rejected(world, session)) == 2


async def test_the_class_of_a_sub_agent_refuses_too(world: World) -> None:
    model = ScriptedModel([ODD, EVEN], name="child")
    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent(model, returns=Even)})
    await session.ask("go")
    (part,) = world.heard(session).only(ToolExecutionEnd).content
    assert getattr(part, "data", None) == {"number": 4}
    assert REASON in str(model.requests[1].messages[-1])


async def test_a_sub_agent_whose_class_always_refuses_fails(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent([ODD] * 3, returns=Even)})
    await session.ask("go")
    end = world.heard(session).only(ToolExecutionEnd)
    assert end.is_error
    assert end.text == f"the sub-agent failed: the answer to prompt `p1` does not fit `returns`: {REASON}"


async def test_a_session_that_slept_knows_its_classes(world: World) -> None:
    session = await world.spawn([ODD, EVEN, ODD, EVEN], returns=Even, hibernate_after=1.0)
    for expected in (None, Even):
        await trio.sleep(10)
        assert world.supervisor.tree().children[0].state == "asleep"
        reply = await session.ask("a number", returns=expected)
        assert reply == Even(4) or getattr(reply, "answer", None) == {"number": 4}
    assert rejected(world, session) == [REASON] * 2


async def test_a_caller_that_has_gone_takes_the_class_along(world: World) -> None:
    session = await world.spawn([say(ODD, delay=2.0)])
    with trio.move_on_after(1):
        await session.ask("a number", returns=Even)
    assert not session._session.waiters  # noqa: SLF001 - what is kept there is the point
    await trio.sleep(5)
    assert session.inspect().turn is None
    assert not rejected(world, session)


async def test_who_asks_again_after_a_hold_brings_the_class_again(world: World) -> None:
    plugins = [HumanApproval(tools=["look"], timeout=None)]
    script: list[Element] = [say(calls=[call("look", {})]), ODD, EVEN]
    session = await world.spawn(script, tools=[quick("look")], plugins=plugins)
    with pytest.raises(NoAnswer, match="held"):
        await session.ask("a number", returns=Even, command="one")
    (held,) = session.status().held
    await session.approve(held.id)
    assert await session.ask("a number", returns=Even, command="one") == Even(4)


# A caller who does not wait


async def test_a_class_is_known_though_its_caller_does_not_wait(world: World) -> None:
    session = await world.spawn([ODD, EVEN, ODD, EVEN])
    await session.prompt("a number", returns=Even, command="one")
    await session.prompt("another", returns=EvenData, command="two")
    await until(lambda: session.inspect().turn is None)
    assert rejected(world, session) == [REASON] * 2
    assert not session._session.waiters  # noqa: SLF001 - what is kept there is the point
    assert await session.ask("a number", returns=Even, command="one") == Even(4)
    assert await session.ask("another", returns=EvenData, command="two") == EvenData(4)


async def test_a_class_that_always_refuses_is_told_to_who_asks_later(world: World) -> None:
    session = await world.spawn([ODD] * 3)
    await session.prompt("a number", returns=Even, command="one")
    await until(lambda: session.inspect().turn is None)
    assert rejected(world, session) == [REASON] * 3
    with pytest.raises(AnswerUnfit, match=REASON):
        await session.ask("a number", returns=Even, command="one")


async def test_a_prompt_that_waits_for_a_person_keeps_its_class(world: World) -> None:
    plugins = [HumanApproval(tools=["look"], timeout=None)]
    script: list[Element] = [say(calls=[call("look", {})]), ODD, EVEN]
    session = await world.spawn(script, tools=[quick("look")], plugins=plugins, hibernate_after=1.0)
    await session.prompt("a number", returns=Even, command="one")
    await trio.sleep(10)
    assert world.supervisor.tree().children[0].state == "asleep"
    await session.resume()
    (held,) = session.status().held
    await session.approve(held.id)
    await until(lambda: session.inspect().turn is None)
    assert rejected(world, session) == [REASON]
    assert await session.ask("a number", returns=Even, command="one") == Even(4)
    assert not session._session.waiters  # noqa: SLF001 - what is kept there is the point


@pytest.mark.parametrize("end", ["withdrawn", "dropped", "stopped"])
async def test_a_prompt_whose_turn_never_comes_takes_its_class_along(world: World, end: str) -> None:
    session = await world.spawn([say("slow", delay=100.0)])
    await session.prompt("first")
    queued = await session.prompt("a number", returns=Even)
    assert session._session.waiters  # noqa: SLF001 - what is kept there is the point
    match end:
        case "withdrawn":
            await session.withdraw(queued.ref)
        case "dropped":
            await session.abort(clear_queue=True)
        case _:
            await session.stop()
    assert not session._session.waiters  # noqa: SLF001


async def test_a_prompt_that_is_repeated_when_its_turn_is_over_keeps_nothing(world: World) -> None:
    session = await world.spawn([EVEN])
    first = await session.prompt("a number", returns=Even, command="one")
    await until(lambda: session.inspect().turn is None)
    assert await session.prompt("a number", returns=Even, command="one") == first
    assert not session._session.waiters  # noqa: SLF001 - what is kept there is the point


# What users' code may raise


class Unshown(Exception):  # noqa: N818 - a class of a user
    def __str__(self) -> str:
        raise RuntimeError


def raising(error: Callable[[], BaseException]) -> type[object]:
    def refuse(*_: object) -> NoReturn:
        raise error()

    return attrs.make_class("Strict", {"number": attrs.field(type=int, validator=refuse)})


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (lambda: ValueError("x" * 5_000_000), "ValueError: xxx"),
        (lambda: ExceptionGroup("many", [ValueError("y" * 100_000)] * 9), "ExceptionGroup: many"),
        (lambda: ValueError("\ud800"), "ValueError: \ufffd"),
        (Unshown, "Unshown: it cannot even be shown"),
        (lambda: RecursionError("deep"), "RecursionError: deep"),
        (lambda: SystemExit(3), "SystemExit: 3"),
        (GeneratorExit, "GeneratorExit"),
    ],
    ids=["a long text", "a group", "half a character", "no text", "too deep", "an exit", "a closed generator"],
)
async def test_whatever_a_class_raises_is_a_reason(
    world: World, error: Callable[[], BaseException], reason: str
) -> None:
    session = await world.spawn([ODD] * 3)
    with pytest.raises(AnswerUnfit, match=f"its class refuses it: {reason}"):
        await session.ask("a number", returns=raising(error))
    await settle()
    reasons = rejected(world, session)
    assert len(reasons) == 3
    assert max(map(len, reasons)) <= MAX_MESSAGE_CHARS


# Crashes


def speaks(*script: Element, returns: type[object] | None = None) -> SessionSpec:
    spec = SessionSpec(model=ScriptedModel(script, name="m"))
    return spec if returns is None else spec.but(returns=returns)


async def recorded(spec: SessionSpec, expected: type[object] | None) -> tuple[Record, ...]:
    """Let a session answer a prompt with a command id; return its records."""
    journal = TestJournal()
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await answer_or_error(session, expected)
        await settle()
        return await journal.read("s", 0, 1_000)


async def answer_or_error(session: SessionHandle, expected: type[object] | None) -> object:
    """Return what the caller gets, which may be the typed error."""
    try:
        return await session.ask("a number", returns=expected, command="one")
    except AnswerUnfit as error:
        return error


async def outcome(
    records: tuple[Record, ...], spec: SessionSpec, expected: type[object] | None, *, later: bool = False
) -> tuple[object, int]:
    """Resume a session from *records* and ask again; return what the caller gets, and how many answers were refused."""
    journal = TestJournal()
    claim = await journal.claim("s", "before")
    await journal.append(claim, 0, records)
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.resume("s", spec)
        if later:
            await trio.sleep(100)
        actual = await answer_or_error(session, expected)
        await settle()
        await check_records(journal, session)
    events = [envelope.event for record in await journal.read("s", 0, 1_000) for envelope in record.events]
    return actual, sum(isinstance(event, AnswerRejected) for event in events)


async def test_a_crash_behind_any_record_gives_the_caller_the_object() -> None:
    records = await recorded(speaks(ODD, EVEN), Even)
    assert len(records) == 4, "opened, prompt, an answer that is refused, an answer"
    for cut in range(1, len(records) + 1):
        spec = speaks(say(ODD, delay=1.0), EVEN)  # the caller is back before the model answers
        actual, count = await outcome(records[:cut], spec, Even)
        assert actual == Even(4)
        assert count in {1, 2}


async def test_a_crash_behind_any_record_gives_the_caller_the_typed_error() -> None:
    records = await recorded(speaks(ODD, ODD, ODD), Even)
    for cut in range(1, len(records) + 1):
        actual, count = await outcome(records[:cut], speaks(say(ODD, delay=1.0), ODD, ODD), Even)
        assert isinstance(actual, AnswerUnfit)
        assert REASON in str(actual)
        assert count == 3


async def test_a_prompt_that_is_repeated_after_a_crash_brings_the_class_again() -> None:
    records = await recorded(speaks(ODD, EVEN), Even)
    for cut in range(1, len(records) + 1):
        journal = TestJournal()
        await journal.append(await journal.claim("s", "before"), 0, records[:cut])
        async with open_supervisor(journal=journal, seed=1) as supervisor:
            session = await supervisor.resume("s", speaks(say(ODD, delay=1.0), EVEN))
            await session.prompt("a number", returns=Even, command="one")
            await trio.sleep(100)
            assert await session.ask("a number", returns=Even, command="one") == Even(4)


async def test_without_the_caller_after_a_crash_the_schema_decides() -> None:
    records = await recorded(speaks(ODD, EVEN), Even)
    texts = set[str]()
    for cut in range(1, len(records) + 1):
        actual, _ = await outcome(records[:cut], speaks(ODD, EVEN), Even, later=True)
        assert actual == Even(4) or isinstance(actual, AnswerUnfit)
        texts.add(type(actual).__name__)
    assert texts == {"Even", "AnswerUnfit"}


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
async def test_the_class_of_a_spec_is_known_after_a_crash_behind_any_record(*, later: bool) -> None:
    records = await recorded(speaks(ODD, EVEN, returns=Even), None)
    for cut in range(1, len(records) + 1):
        actual, count = await outcome(records[:cut], speaks(ODD, EVEN, returns=Even), None, later=later)
        assert getattr(actual, "answer", None) == {"number": 4}
        assert count in {1, 2}


async def test_a_spec_with_another_form_leaves_the_stored_schema_alone() -> None:
    other = attrs.make_class("Other", {"name": attrs.field(type=str)})
    records = await recorded(speaks(ODD, EVEN, returns=Even), None)
    actual, count = await outcome(records[:1], speaks(ODD, returns=other), None)
    assert getattr(actual, "answer", None) == {"number": 3}
    assert count == 0
