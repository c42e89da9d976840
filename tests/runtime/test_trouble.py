"""Journals that are full, fenced, uncertain or broken; models that are slow, odd or ignore cancellation."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from agentrail import SessionDown, SessionHandle, open_supervisor
from agentrail.errors import (
    CommitUnknown,
    Fenced,
    JournalFailed,
    JournalFull,
    JournalInUse,
    JournalUnavailable,
    NothingWritten,
    NotWrittenYet,
    SessionCrashed,
    SessionNotAlive,
    TurnAborted,
)
from agentrail.events import (
    AbortPending,
    AgentAbort,
    AgentEnd,
    CompactEnd,
    ContextOverflow,
    MessageDelta,
    ResponseComplete,
    Retry,
    StreamError,
    StreamStalled,
    ThinkingDelta,
    ThinkingStart,
)
from agentrail.models import (
    PING,
    AssistantMessage,
    CallChunk,
    Chunk,
    EmitChunk,
    ModelRequest,
    Response,
    Text,
    TextChunk,
    ThinkingChunk,
)
from agentrail.runtime.inbox.end_reason import TAKEN
from agentrail.runtime.shared.journal_retry import MEANWHILE
from agentrail.testing import ScriptedModel, call, fail, overflow, permanent, say, stall, transient
from tests.kit import Element
from tests.runtime.journals import BROKEN, TestJournal
from tests.runtime.tools import quick
from tests.runtime.world import Heard, World, listen, open_world, settle, spec_of, until

# Journals


async def test_a_full_journal_is_tried_again_until_there_is_space() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn([say("a b c", delay=0.1), "two"])
        journal.failing = lambda _: JournalFull("no space")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "one")
            await trio.sleep(10)
            heard = world.heard(session)
            assert heard.names == ["SessionStarted"], "nothing is published that is not durable"
            assert session.messages() == ()
            journal.failing = None
        await until(lambda: heard.of(AgentEnd))
        assert (await session.ask("two?")).text == "two"


async def test_meanwhile_new_calls_are_refused() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(["one"])
        journal.failing = lambda _: JournalFull("no space")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "one")
            await trio.sleep(1)
            with pytest.raises(JournalFull, match="no space"):
                await session.prompt("two")
            with pytest.raises(JournalFull):
                await session.steer("three")
            journal.failing = None


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (JournalFull("no space"), "the journal has no space (no space)"),
        (NothingWritten("disk I/O error"), "the journal cannot write (disk I/O error)"),
        (JournalFailed("write", "gone; and away"), "the journal could not write (gone; and away)"),
        (JournalInUse("x.db", "process 5"), "the journal `x.db` is in use (process 5)"),
    ],
)
async def test_the_log_says_what_was_found_and_gives_no_advice_that_is_for_callers(
    caplog: pytest.LogCaptureFixture, error: JournalUnavailable, text: str
) -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(["one"])
        journal.failing = lambda _: error
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "one")
            await trio.sleep(1)
            journal.failing = None
    (line,) = (record.getMessage() for record in caplog.records if record.name == "agentrail.journal")
    assert line == f"{text}; {MEANWHILE}"


async def test_with_a_full_journal_cancelling_still_works() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn([say("word " * 1000, delay=0.01), "next"])
        await session.prompt("go")
        await trio.sleep(0.5)
        journal.failing = lambda _: JournalFull("no space")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.abort)
            await trio.sleep(0.1)
            heard = world.heard(session)
            count = len(heard.of(MessageDelta))
            await trio.sleep(5)
            assert len(heard.of(MessageDelta)) == count
            assert len(heard.of(AbortPending)) == 1
            assert heard.of(AgentAbort) == []
            journal.failing = None
        await trio.sleep(2)
        assert len(heard.of(AgentAbort)) == 1


class Silent:
    """A model whose first response begins and does not end."""

    name = "silent"

    def __init__(self) -> None:
        self.out = self.asked = 0

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        self.out, self.asked = self.out + 1, self.asked + 1
        try:
            emit(TextChunk("two"))
            if self.asked == 1:
                await trio.sleep_forever()
        finally:
            self.out -= 1
        return Response((Text("two"),))


@asynccontextmanager
async def full(journal: TestJournal, session: SessionHandle, *, waits_before: bool) -> AsyncGenerator[None, None]:
    """Make the journal full in the block; if *waits_before*, the session waits for space already when it begins."""
    journal.failing = lambda _: JournalFull("no space")
    async with trio.open_nursery() as nursery:
        if waits_before:
            nursery.start_soon(session.switch_model, "demo")
            await settle()
        yield
        journal.failing = None


@pytest.mark.parametrize("full_before", [True, False])
async def test_an_abort_returns_while_the_journal_is_full_and_its_record_follows(full_before: bool) -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(model := Silent())
        await session.prompt("go")
        await settle()
        async with full(journal, session, waits_before=full_before):
            with trio.fail_after(0.01):
                await session.abort("first")
                for number in range(20):
                    await session.abort(f"{number}")
            await settle()
            assert model.out == 0
            heard = world.heard(session)
            assert heard.of(AgentAbort) == []
            await trio.sleep(0.1)
            assert heard.of(AbortPending)
            with pytest.raises(JournalFull):
                await session.prompt("two")
        await trio.sleep(2)
        assert 1 <= len(heard.of(AgentAbort)) <= 2
        assert (await session.ask("again")).stop_reason == "end"


@pytest.mark.parametrize("full_before", [True, False])
async def test_an_abort_with_an_id_says_that_its_answer_is_not_written_yet(full_before: bool) -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn([stall(after=1)])
        await session.prompt("go")
        await settle()
        async with full(journal, session, waits_before=full_before):
            for _ in range(2):
                with trio.fail_after(0.01), pytest.raises(NotWrittenYet, match="no space"):
                    await session.abort(command="a")
        await trio.sleep(2)
        records = len(await journal.read(session.id))
        await session.abort(command="a")
        assert len(await journal.read(session.id)) == records
        assert len(world.heard(session).of(AgentAbort)) == 1


@pytest.mark.parametrize("full_before", [True, False])
async def test_a_stop_says_that_the_end_is_not_written_yet_and_the_session_ends_when_it_can_be(
    full_before: bool,
) -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(model := Silent())
        await session.prompt("go")
        await settle()
        async with full(journal, session, waits_before=full_before):
            for command in (None, "a", None, "b"):
                with trio.fail_after(0.01), pytest.raises(NotWrittenYet, match="no space"):
                    await session.stop(command=command)
            await settle()
            assert model.out == 0
        async with session.monitor() as monitor:
            with trio.fail_after(5):
                await monitor.wait()
        assert session.status().phase == "ended"


async def test_a_monitor_tells_that_a_record_waits_for_the_journal() -> None:
    journal = TestJournal()
    texts, others = list[str](), list[JournalUnavailable]()
    async with open_world(journal) as world:
        session = await world.spawn(["one", "two"])
        async with session.monitor() as monitor:
            end = monitor.when_stuck(lambda error: texts.append(str(error)))
            monitor.when_stuck(others.append)
            journal.failing = lambda _: JournalUnavailable("away")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.ask, "one")
                await settle()
                assert texts == [str(JournalUnavailable("away"))]
                journal.failing = lambda _: JournalFull("no space")
                await trio.sleep(0.15)
                assert texts[1:] == [str(JournalFull("no space"))]
                end()
                end()
                await trio.sleep(1)
                journal.failing = None
        assert (len(texts), len(others) > 2) == (2, True)


async def test_a_session_with_a_full_journal_can_be_shut_down() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(["one"], shutdown=2.0)
        journal.failing = lambda _: JournalFull("no space")
        async with trio.open_nursery() as nursery:

            async def prompt() -> None:
                with pytest.raises(SessionNotAlive, match="in time"):
                    await session.prompt("one")

            nursery.start_soon(prompt)
            await trio.sleep(1)
            start = trio.current_time()
            await world.supervisor._sessions.close()  # noqa: SLF001 - what leaving the `async with` does
    assert trio.current_time() - start == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("error", [Fenced("s", 2), BROKEN])
async def test_a_journal_that_cannot_go_on_ends_the_session_with_a_report(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn([stall(after=1)], "bad")
        other = await world.spawn(ScriptedModel(["fine"], repeat_last=True), "good")
        await session.prompt("go")
        await trio.sleep(1)
        journal.failing = lambda record: error if record.session_id == "bad" else None
        async with session.monitor() as monitor:
            with pytest.raises((SessionCrashed, Fenced)) as crashed:
                await session.prompt("more")
            down = await monitor.wait()
        given_up = isinstance(error, Fenced)
        assert isinstance(crashed.value, Fenced) is given_up
        assert down == SessionDown("bad", TAKEN if given_up else f"crashed: {type(error).__name__}: {error}")
        assert str(error) in str(crashed.value)
        assert (await other.ask("and you?")).text == "fine"
        with pytest.raises((SessionCrashed, SessionNotAlive, Fenced)):
            await session.prompt("more")
        about = [record.levelno for record in caplog.records if "session bad crashed" in record.getMessage()]
        assert about == [logging.ERROR] * (1 if given_up else 4)  # it lives elsewhere; or it was started again in vain
        assert (session in world.supervisor.sessions()) is not given_up


async def test_an_uncertain_commit_ends_everything_and_publishes_nothing() -> None:
    journal = TestJournal()
    heard = Heard()
    written: list[int] = []

    async def until_it_ends() -> None:
        async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
            session = await supervisor.spawn(spec_of(ScriptedModel(["one"])), "uncertain")
            other = await supervisor.spawn(spec_of(ScriptedModel([say("word " * 1000, delay=0.01)])), "other")
            await nursery.start(listen, session, heard)
            await other.prompt("go")
            await settle()
            journal.fails_after = lambda record: CommitUnknown("the cable") if record.session_id != "other" else None
            written.append(journal.commits)
            with pytest.raises(SessionCrashed, match="CommitUnknown"):
                await session.ask("go")
            await trio.sleep(100)

    with pytest.raises(CommitUnknown, match="the cable"):
        await until_it_ends()
    assert heard.names == ["SessionStarted"]
    assert written == [journal.commits - 1], "nobody writes behind it, not even that it has ended"
    names = [type(envelope.event).__name__ for record in await journal.read("other") for envelope in record.events]
    assert "SessionEnded" not in names


@pytest.mark.long
async def test_a_crash_ends_what_the_session_had_going_on() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn([say("word " * 1000, delay=0.01)])
        await session.prompt("go")
        await trio.sleep(1)
        journal.failing = lambda _: BROKEN
        with pytest.raises(SessionCrashed):
            await session.prompt("more")
        count = len(world.heard(session).of(MessageDelta))
        await trio.sleep(5)
        assert len(world.heard(session).of(MessageDelta)) == count


# Models


async def test_a_transient_error_is_tried_again_with_back_off(world: World) -> None:
    session = await world.spawn([transient("busy"), transient("busy", retry_after=7.0), "ok"])
    assert (await session.ask("go")).text == "ok"
    await settle()
    first, second = world.heard(session).of(Retry)
    assert 1000 <= first.delay_ms <= 2000
    assert second.delay_ms == 7000


async def test_a_permanent_error_keeps_what_had_come(world: World) -> None:
    session = await world.spawn([permanent("never", after=2)])
    with pytest.raises(TurnAborted):
        await session.ask("go")
    await settle()
    (kept_message,) = [message for message in session.messages() if isinstance(message, AssistantMessage)]
    assert kept_message.interrupted
    assert kept_message.text == world.heard(session).said == "word0 word1 "
    assert world.heard(session).only(StreamError).message == "never"


async def test_a_model_that_breaks_is_a_permanent_error(world: World, caplog: pytest.LogCaptureFixture) -> None:
    session = await world.spawn([fail(ZeroDivisionError("oh")), "fine"])
    with pytest.raises(TurnAborted, match="ZeroDivisionError: oh"):
        await session.ask("go")
    assert (await session.ask("again")).text == "fine"
    assert any("raised" in record.getMessage() for record in caplog.records)


async def test_an_overflow_compacts_once_and_then_gives_up(world: World) -> None:
    script: list[Element] = [say("x" * 400), say("y" * 400), overflow(), "they said x", "short"]
    session = await world.spawn(script)
    await session.ask("one")
    await session.ask("two")
    assert (await session.ask("three")).text == "short"
    await settle()
    heard = world.heard(session)
    assert len(heard.of(ContextOverflow)) == 1
    assert heard.only(CompactEnd).removed > 0
    assert any("they said x" in message.text for message in session.messages())


async def test_a_stalled_stream_is_reported_and_then_tried_again(world: World) -> None:
    session = await world.spawn([stall(after=1), "ok"])
    start = trio.current_time()
    assert (await session.ask("go")).text == "ok"
    await settle()
    heard = world.heard(session)
    assert [event.count for event in heard.of(StreamStalled)] == [1, 2]
    assert 60 <= trio.current_time() - start <= 63
    assert [event.elapsed_s for event in heard.of(StreamStalled)] == [30.0, 60.0]
    assert heard.only(Retry).reason == "no chunk for 60 s (stall 2 of this request)"


async def test_a_chunk_begins_the_count_of_a_stall_anew(world: World) -> None:
    halting = say("one two three", delay=40.0)
    session = await world.spawn([halting], stall_limit=9)
    assert (await session.ask("go")).text == "one two three"
    await settle()
    stalls = world.heard(session).of(StreamStalled)
    assert [(event.elapsed_s, event.count) for event in stalls] == [(30.0, 1), (30.0, 2), (30.0, 3)]


class Halting:
    """A model that times the beginning of its responses itself, and halts after the first chunk of one."""

    name = "halting"
    times_beginning = True

    def __init__(self, first: Chunk) -> None:
        self._first: list[Chunk] = [first]

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        while self._first:
            emit(self._first.pop())
            await trio.sleep(100)
        return Response((Text("ok"),))


BEGINNINGS: list[Chunk] = [TextChunk("one"), TextChunk("eins\u00e9"), ThinkingChunk("hm"), CallChunk("{")]


@pytest.mark.parametrize("first", BEGINNINGS, ids=repr)
async def test_a_response_has_begun_with_its_first_word_thought_or_call(world: World, first: Chunk) -> None:
    session = await world.spawn(Halting(first))
    assert (await session.ask("go")).text == "ok"
    await settle()
    assert [event.elapsed_s for event in world.heard(session).of(StreamStalled)] == [30.0, 60.0]


async def test_a_ping_alone_is_no_beginning(world: World) -> None:
    session = await world.spawn(Halting(PING))
    assert (await session.ask("go")).text == "ok"
    await settle()
    assert world.heard(session).of(StreamStalled) == []


@pytest.mark.long
async def test_an_idle_session_does_nothing_for_ever(world: World) -> None:
    session = await world.spawn(["one"])
    await session.ask("go")
    await settle()
    old = session.inspect()
    records = len(await world.journal.read(session.id))
    await trio.sleep(10_000)
    assert session.inspect() is old
    assert len(await world.journal.read(session.id)) == records


class Stubborn:
    """A model that ignores its cancellation, and goes on emitting chunks."""

    name = "stubborn"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        emit(TextChunk("before "))
        with trio.CancelScope(shield=True):
            for _ in range(5):
                await trio.sleep(1)
                emit(TextChunk("on and on "))
        return Response((Text("before and after"),))


async def test_a_model_that_ignores_its_cancellation_is_not_heard_any_more(world: World) -> None:
    session = await world.spawn(Stubborn())
    await session.prompt("go")
    await trio.sleep(1.5)
    await session.abort()
    await trio.sleep(10)
    heard = world.heard(session)
    assert heard.said == "before on and on "
    assert heard.of(ResponseComplete) == []
    assert session.messages()[-1].text == "before on and on "


class Babbling:
    """A model that emits after its response has ended."""

    name = "babbling"

    def __init__(self) -> None:
        self.emit: EmitChunk = lambda _: None

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        await trio.lowlevel.checkpoint()
        self.emit = emit
        emit(TextChunk("hello"))
        return Response((Text("hello"),))


async def test_a_chunk_behind_the_end_is_not_heard(world: World) -> None:
    model = Babbling()
    session = await world.spawn(model)
    await session.ask("go")
    model.emit(TextChunk("more"))
    await settle()
    assert world.heard(session).said == "hello"


async def test_thinking_is_told_apart(world: World) -> None:
    session = await world.spawn([say("text", thinking="let me think")])
    await session.ask("go")
    await settle()
    heard = world.heard(session)
    assert len(heard.of(ThinkingStart)) == 1
    assert "".join(event.delta for event in heard.of(ThinkingDelta)) == "let me think"
    assert heard.said == "text"


async def test_a_call_without_text_needs_no_chunk(world: World) -> None:
    session = await world.spawn([say(calls=[call("quick")]), "ok"], tools=[quick()])
    assert (await session.ask("go")).text == "ok"
