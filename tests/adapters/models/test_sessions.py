"""Whole sessions with models behind HTTP, on a local server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from agentrail import Secret, SessionHandle, SessionSpec, Supervisor, open_supervisor, tool
from agentrail.errors import BadOptions, TurnAborted, UnknownModel
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    Event,
    MessageDelta,
    RequestStart,
    Retry,
    StreamError,
    StreamStalled,
    ThinkingDelta,
)
from agentrail.journals import MemoryJournal
from agentrail.models import AssistantMessage, Json, StopReason, Text, Thinking, ToolCall, Usage
from agentrail.testing import ScriptedModel, call, say
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models.server import (
    Mark,
    Pause,
    Play,
    Server,
    Stall,
    chunked,
    events,
    head,
    recorded,
    refusing,
    serving,
    steps,
    streaming,
)
from tests.kit import freeze_object
from tests.patience import PATIENCE

KEY = "sk-ant-0123456789abcdef"
OWN_KEY = Secret("ANTHROPIC_API_KEY")
MODEL = "anthropic:claude-sonnet-5"
ENDS = (AgentEnd, AgentAbort)

SETTLED = 0.01
"""Seconds of the world with nothing to do, after which virtual time goes on: what was sent over loopback is there."""


@tool
async def lamp(room: str) -> str:
    """Look at a lamp."""
    return f"the lamp in the {room} is on"


@tool
async def lamps() -> str:
    """Look at all lamps."""
    return "two"


@asynccontextmanager
async def opened(
    journal: MemoryJournal | None = None, secrets: Mapping[str, str] | None = None
) -> AsyncIterator[Supervisor]:
    keys = {"ANTHROPIC_API_KEY": KEY} if secrets is None else secrets
    async with open_supervisor(journal=journal, secrets=keys.get, seed=1) as supervisor:
        yield supervisor


def spec(server: Server, *, options: Mapping[str, Json] | None = None, **changes: object) -> SessionSpec:
    chosen: SessionSpec = SessionSpec(
        model=MODEL, tools=[lamp, lamps], model_options={"base_url": server.url, "api_key": OWN_KEY, **(options or {})}
    ).but(**changes)
    return chosen


async def turn(session: SessionHandle, text: str = "are the lamps on?") -> list[Event]:
    """Take a turn, and return what was heard of it."""
    heard: list[Event] = []
    async with session.subscribe() as envelopes:
        await session.prompt(text)
        async for envelope in envelopes:
            heard.append(envelope.event)
            if isinstance(envelope.event, ENDS):
                break
    return heard


async def test_a_session_talks_thinks_calls_tools_and_counts() -> None:
    plays = streaming(recorded("anthropic_tools.sse"), size=40), streaming(anthropic.saying("Both ", "are on."))
    async with serving(*plays) as server, opened() as supervisor:
        session = await supervisor.spawn(spec(server, system="Be short."))
        heard = await turn(session)
        first = session.messages()[1]
        second = server.asked[1].json["messages"]
        asked = server.asked[0]
    assert "".join(event.delta for event in heard if isinstance(event, ThinkingDelta)) == "Two lamps are there."
    said = "".join(event.delta for event in heard if isinstance(event, MessageDelta))
    assert said == "I look at both: süß 漢字 🙂.Both are on."
    assert first == AssistantMessage(
        (
            Thinking("Two lamps are there.", "c2VhbA=="),
            Thinking("", "redacted:b3BhcXVl"),
            Text("I look at both: süß 漢字 🙂."),
        ),
        (
            ToolCall("c3", "lamp", freeze_object({"room": "kitchen"}), "toolu_01"),
            ToolCall("c4", "lamps", freeze_object({}), "toolu_02"),
        ),
        MODEL,
        StopReason.TOOL_CALLS,
        Usage(442, 65, 400, 20, cache_write_tokens=30),
    )
    assert session.status().usage == Usage(447, 72, 400, 20, cache_write_tokens=30)
    assert (asked.target, asked.headers["authorization"], asked.headers["anthropic-version"]) == (
        "/v1/messages",
        f"Bearer {KEY}",
        "2026-10-21",
    )
    assert isinstance(second, list)
    assert [block["type"] for block in second[1]["content"]] == [
        "thinking",
        "redacted_thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert [block["tool_use_id"] for block in second[2]["content"]] == ["toolu_01", "toolu_02"]


async def test_an_overloaded_provider_is_asked_again_and_what_was_half_said_is_dropped() -> None:
    half = events(
        anthropic.opening(),
        *anthropic.block(0, "text", "text_delta", "text", "half")[:2],
        anthropic.error("overloaded_error", "Overloaded"),
    )
    busy = json.dumps(anthropic.error("rate_limit_error", "slow down")).encode()
    plays = streaming(half), refusing(429, busy, "retry-after-ms: 30"), streaming(anthropic.saying("whole"))
    async with serving(*plays) as server, opened() as supervisor:
        session = await supervisor.spawn(spec(server, retry_base=0.01))
        heard = await turn(session)
        assert session.messages()[-1].text == "whole"
    retries = [event for event in heard if isinstance(event, Retry)]
    assert [(retry.attempt, retry.reason, retry.dropped_text) for retry in retries] == [
        (1, "the provider is overloaded: overloaded_error: Overloaded", True),
        (2, "the provider's limit is reached: 429 rate_limit_error: slow down", False),
    ]
    assert retries[1].delay_ms >= 30


async def test_a_refused_key_aborts_the_turn_and_the_session_lives() -> None:
    refused = json.dumps(anthropic.error("authentication_error", f"no such key: {KEY}")).encode()
    plays = refusing(401, refused), streaming(anthropic.saying("hello"))
    async with serving(*plays) as server, opened() as supervisor:
        session = await supervisor.spawn(spec(server))
        heard = await turn(session)
        assert (await session.ask("again")).text == "hello"
    (error,) = [event for event in heard if isinstance(event, StreamError)]
    assert error == StreamError(
        "KeyRefused",
        "the provider refuses the key: 401 authentication_error: no such key: [secret]; "
        "check the variable that it is read from",
    )


async def test_what_is_not_there_is_said_with_where_it_was_asked_for() -> None:
    async with serving(refusing(404, b'{"detail":"Not Found"}')) as server, opened() as supervisor:
        session = await supervisor.spawn(spec(server, options={"base_url": f"{server.url}/v1"}))
        with pytest.raises(TurnAborted, match=rf"address: {server.url}/v1/v1/messages answers 404: Not Found; check"):
            await session.ask("hello")


async def test_a_missing_key_is_said_by_its_name() -> None:
    async with serving(Play(())) as server, opened(secrets={}) as supervisor:
        session = await supervisor.spawn(spec(server, options={"api_key": Secret("LAMP_KEY")}))
        with pytest.raises(TurnAborted, match="there is no key for this provider: `LAMP_KEY` is not set"):
            await session.ask("hello")
        assert server.asked == []


async def test_a_key_may_change_between_requests() -> None:
    secrets = {"LAMP_KEY": "first"}
    async with serving(streaming(anthropic.saying("hello"))) as server, opened(secrets=secrets) as supervisor:
        session = await supervisor.spawn(spec(server, options={"api_key": Secret("LAMP_KEY")}))
        await session.ask("hello")
        secrets["LAMP_KEY"] = " second\n"
        await session.ask("hello")
        assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer first", "Bearer second"]


async def test_pings_and_pieces_of_calls_are_signs_of_life(autojump_clock: trio.testing.MockClock) -> None:
    autojump_clock.autojump_threshold = SETTLED
    pieces = [events({"type": "ping"}, named=True)] * 10
    asking = anthropic.block(0, "tool_use", "input_json_delta", "partial_json", *"{}     ", id="toolu_1", name="lamps")
    slowly = [events(anthropic.opening()), *pieces, *map(events, asking), events(*anthropic.closing("tool_use"))]
    paused = [step for piece in slowly for step in (piece, Pause(0.02))]
    async with serving(steps(*paused), streaming(anthropic.saying("done"))) as server, opened() as supervisor:
        session = await supervisor.spawn(spec(server, stall_timeout=0.2, stall_limit=1, max_retries=0))
        assert (await session.ask("hello")).text == "done"


async def test_what_comes_before_the_first_word_is_no_stall_and_has_its_own_limits(
    autojump_clock: trio.testing.MockClock,
) -> None:
    autojump_clock.autojump_threshold = SETTLED
    late = Play((Pause(0.3), head(), events(anthropic.opening()), Pause(0.3), anthropic.saying("late")))
    async with serving(late, Play((Stall(),)), streaming(anthropic.saying("hello"))) as server, opened() as supervisor:
        impatient = {"stall_timeout": 0.05, "stall_limit": 1, "retry_base": 0.01}
        session = await supervisor.spawn(spec(server, options={"first_byte_timeout": 0.6}, **impatient))
        first, second = await turn(session), await turn(session)
        assert [message.text for message in session.messages()][1::2] == ["late", "hello"]
    assert [event for event in (*first, *second) if isinstance(event, StreamStalled)] == []
    assert [event.reason for event in (*first, *second) if isinstance(event, Retry)] == [
        "the provider's answer did not begin: nothing came for 0.6 seconds"
    ]


async def test_what_comes_behind_the_first_word_may_stall(autojump_clock: trio.testing.MockClock) -> None:
    autojump_clock.autojump_threshold = SETTLED
    begun = events(anthropic.opening(), *anthropic.block(0, "text", "text_delta", "text", "well, ")[:2])
    stalling = steps(begun, Stall())
    async with serving(stalling, streaming(anthropic.saying("hello"))) as server, opened() as supervisor:
        session = await supervisor.spawn(spec(server, stall_timeout=0.2, stall_limit=2, retry_base=0.01))
        heard = await turn(session)
        assert session.messages()[-1].text == "hello"
    assert [event.count for event in heard if isinstance(event, StreamStalled)] == [1, 2]


async def test_an_abort_ends_the_connection_and_the_next_turn_is_answered() -> None:
    opening = events(anthropic.opening(), *anthropic.block(0, "text", "text_delta", "text", "well, ")[:2])
    stall = Stall()
    stalling = Play((head(200, "transfer-encoding: chunked"), *chunked([opening])[:1], stall))
    async with serving(stalling, streaming(anthropic.saying("hello"))) as server, opened() as supervisor:
        session = await supervisor.spawn(spec(server))
        async with session.subscribe(types=[MessageDelta]) as deltas:
            await session.prompt("hello")
            async for _ in deltas:
                break
        await session.abort()
        assert (await session.ask("again")).text == "hello"
        with trio.fail_after(PATIENCE):
            await stall.gone.wait()
        said = [message.text for message in session.messages()]
    assert said == ["hello", "well, ", "again", "hello"]


async def test_a_supervisor_that_closes_ends_requests_that_are_out() -> None:
    begun, stalls = [trio.Event() for _ in range(3)], [Stall() for _ in range(3)]
    plays = [steps(events(anthropic.opening()), Mark(mark), stall) for mark, stall in zip(begun, stalls, strict=True)]
    async with serving(*plays) as server:
        async with opened() as supervisor:
            for mark in begun:
                session = await supervisor.spawn(spec(server))
                await session.prompt("hello")
                await mark.wait()
        with trio.fail_after(PATIENCE):
            for stall in stalls:
                await stall.gone.wait()


async def test_what_another_model_has_said_goes_on_with_ids_and_without_thoughts() -> None:
    calling = say("I look.", thinking="hm", calls=[call("lamp", {"room": "attic"}, id="odd/id")])
    async with serving(streaming(anthropic.saying("It is on."))) as server, opened() as supervisor:
        first = ScriptedModel([calling, "I see."])
        session = await supervisor.spawn(SessionSpec(model=first, tools=[lamp]))
        await session.ask("is the lamp on?")
        await session.switch_model(MODEL, base_url=server.url)
        assert (await session.ask("is it?")).text == "It is on."
        said = server.asked[0].json["messages"]
    assert said == [
        {"role": "user", "content": [{"type": "text", "text": "is the lamp on?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c3", "name": "lamp", "input": {"room": "attic"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c3",
                    "content": [{"type": "text", "text": "the lamp in the attic is on"}],
                    "cache_control": {"type": "ephemeral"},
                }
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "I see."}]},
        {"role": "user", "content": [{"type": "text", "text": "is it?", "cache_control": {"type": "ephemeral"}}]},
    ]


# Secrets


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"api_key": KEY}, "`api_key` looks like a secret"),
        ({"headers": {"authorization": f"Bearer {KEY}"}}, "`headers.authorization` looks like a secret"),
        ({"max_tokens": -1}, "`max_tokens` is -1"),
        ({"temprature": 1}, "there is no option `temprature`"),
    ],
)
async def test_bad_options_are_refused_when_they_are_given(options: dict[str, Json], problem: str) -> None:
    async with serving(streaming(anthropic.saying("hello"))) as server, opened() as supervisor:
        with pytest.raises(BadOptions, match=problem) as spawned:
            await supervisor.spawn(spec(server, options=options))
        session = await supervisor.spawn(spec(server))
        with pytest.raises(BadOptions, match=problem) as switched:
            await session.switch_model(MODEL, command=None, **options)
        assert (await session.ask("hello")).text == "hello"
    assert KEY not in f"{spawned.value} {spawned.value!r} {switched.value} {switched.value!r}"


@pytest.mark.parametrize(
    ("model", "options", "problem"),
    [
        ("anthropic:claude-sonnet-5", {"temperature": 0.5}, "`temperature` is nothing that `claude-sonnet-5` takes"),
        ("anthropic:claude-sonnet-5", {"extra": {"stream": False}}, "`extra` may not replace `stream`"),
        ("openai:gpt-5.4", {"stop": "END"}, "`stop` is not known to this provider"),
    ],
)
async def test_what_one_model_does_not_take_is_refused_when_it_is_given(
    model: str, options: dict[str, Json], problem: str
) -> None:
    async with open_supervisor() as supervisor:
        with pytest.raises(BadOptions, match=problem):
            await supervisor.spawn(SessionSpec(model=model, model_options=options))


async def test_a_header_that_lists_what_is_wanted_is_added_to() -> None:
    async with serving(streaming(anthropic.saying("hello"))) as server, opened() as supervisor:
        headers = {"Anthropic-Beta": "lamps-2026-11-20", "anthropic-version": "2027-01-01"}
        options: dict[str, Json] = {"base_url": server.url, "headers": headers}
        session = await supervisor.spawn(SessionSpec(model="anthropic:claude-haiku-5-5", model_options=options))
        await session.ask("hello")
        found = server.asked[0].headers
    assert found["anthropic-beta"] == "thinking-binding-controls-2026-08-01,lamps-2026-11-20"
    assert found["anthropic-version"] == "2027-01-01"


async def test_a_plain_secret_is_refused_for_any_model() -> None:
    async with open_supervisor() as supervisor:
        with pytest.raises(BadOptions, match="`token` looks like a secret"):
            await supervisor.spawn(SessionSpec(model="demo", model_options={"token": "t"}))


async def test_a_provider_that_is_unknown_is_told_which_there_are() -> None:
    async with open_supervisor() as supervisor:
        for name in ("nobody:x", "anthropic", "anthropic:"):
            with pytest.raises(UnknownModel, match=r"`anthropic:…`.*`demo`"):
                await supervisor.spawn(SessionSpec(model=name))


async def test_a_server_that_is_not_there_is_told_at_once() -> None:
    async with serving(streaming(anthropic.saying("hello"))) as server:
        pass
    async with opened() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=MODEL, model_options={"base_url": server.url}))
        async with session.subscribe() as events:
            with pytest.raises(TurnAborted, match=f"nothing listens on the way to {server.url}/v1/messages; start the"):
                await session.ask("hello")
            await session.stop()
            kinds = [type(envelope.event) async for envelope in events]
    assert kinds.count(RequestStart) == 1
    assert Retry not in kinds
