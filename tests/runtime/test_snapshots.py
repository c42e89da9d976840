"""Snapshots leave out what the records hold: a large session falls asleep and wakes as easily as a small one."""

from typing import Final

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, State, open_supervisor
from agentrail.adapters.journals.packing import pack
from agentrail.core.vocabulary.changes import Appended, Change, ChangedCall, ChangedCalls, ResultOf
from agentrail.core.vocabulary.history_prefix import NO_STEM, Results, Stem, note_results, stem_after
from agentrail.core.vocabulary.tool_calls import Batch, Call, CallList
from agentrail.errors import BadRecord
from agentrail.journals import Claim, Latest, MemoryJournal, Record, Snapshot
from agentrail.models import History, Image, Message, Text, ToolMessage, UserMessage
from agentrail.ports import journal as snapshots
from agentrail.ports.journal import MAX_KEPT, grown, snapshot_of
from agentrail.runtime.shared.past_records import PAGE
from agentrail.testing import ScriptedModel, call, say
from agentrail.values.messages import MessageRange, Rearranged
from tests.kit import EMPTY, Arrival, Element, Setup, TimerFired
from tests.opcodes import counted_opcodes
from tests.runtime.journals import TestJournal
from tests.runtime.tools import slow
from tests.runtime.world import open_world

SLEEPS_AFTER: Final = 10.0
LARGE: Final = 40_000_000
"""Characters of a large conversation."""
OF_A_RESULT: Final = 25_000


class Counted(TestJournal):
    """A journal that notes which snapshots are kept, and what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Snapshot] = []
        self.returns: list[Latest] = []
        self.pages: list[int] = []

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        self.kept.append(snapshot)
        await super().keep(claim, snapshot)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        self.returns.append(await super().latest(session_id, upto, limit))
        return self.returns[-1]

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        records = await super().read(session_id, after, limit)
        self.pages.append(len(records))
        return records


@pytest.fixture
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all histories left out of snapshots, however small they are."""
    monkeypatch.setattr(snapshots, "MAX_KEPT", 0)


async def slept(session: SessionHandle) -> None:
    await trio.sleep(2.5 * SLEEPS_AFTER)
    assert session._session.is_asleep  # noqa: SLF001 - that it sleeps


def texts_of(session: SessionHandle) -> list[str]:
    return [message.text for message in session.messages()]


async def test_a_small_session_is_back_after_one_call() -> None:
    journal = Counted()
    async with open_world(journal) as world:
        session = await world.spawn(["one", "two"], "s", hibernate_after=SLEEPS_AFTER)
        await session.ask("hi")
        await slept(session)
        journal.pages.clear()
        await session.resume()
        (remaining,) = journal.kept
        assert remaining.since is None
        assert [len(back.records) for back in journal.returns] == [0]
        assert journal.pages == []
        assert texts_of(session) == ["hi", "one"]


async def test_a_session_that_is_deployed_often_comes_back_from_few_records() -> None:
    """Each life writes fewer records than there are between two snapshots of one life."""
    journal = Counted()
    spec = SessionSpec(model=ScriptedModel(["well"], repeat_last=True))
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        for _ in range(10):
            await session.ask("hi")
    for _ in range(4):
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.resume("s", spec)
            for _ in range(10):
                await session.ask("go on")
    assert [len(back.records) for back in journal.returns] == [21, 11, 11, 11]


@pytest.mark.usefixtures("_bare")
async def test_what_a_snapshot_leaves_out_is_read_from_the_records() -> None:
    journal = Counted()
    async with open_world(journal) as world:
        script: list[Element] = [say(calls=[call("slow"), call("slow")]), "one", "two", "three"]
        session = await world.spawn(script, "s", tools=[slow()], hibernate_after=SLEEPS_AFTER)
        for text in ("hi", "and?", "go on"):
            await session.ask(text)
            old = texts_of(session)
            await slept(session)
            await session.resume()
            assert texts_of(session) == old
        assert [(remaining.since, len(remaining.state.history)) for remaining in journal.kept] == [(0, 0)] * 3
        assert max(journal.pages) <= PAGE


@pytest.mark.usefixtures("_bare")
async def test_after_a_compaction_a_snapshot_keeps_what_that_has_left() -> None:
    journal = Counted()
    async with open_world(journal) as world:
        session = await world.spawn(
            ["x" * 400, "y" * 400, "a summary", "done", "ok"], "s", hibernate_after=SLEEPS_AFTER
        )
        await session.ask("one")
        await session.ask("two")
        await session.compact("to be short")
        await trio.sleep(1)
        remaining = texts_of(session)
        await session.ask("three")
        await slept(session)
        (kept_value,) = journal.kept
        assert [message.text for message in kept_value.state.history] == remaining
        assert len(await journal.read("s", kept_value.since or 0)) < 10
        await session.resume()
        assert texts_of(session) == [*remaining, "three", "done"]
        await session.ask("four")
        await slept(session)
        assert journal.kept[-1].since == kept_value.since
        await session.resume()
        assert texts_of(session) == [*remaining, "three", "done", "four", "ok"]


@pytest.mark.usefixtures("_bare")
async def test_a_fork_and_a_resumed_session_have_whole_histories() -> None:
    journal = MemoryJournal(encode=True)
    spec = SessionSpec(model=ScriptedModel(["one"], repeat_last=True), hibernate_after=SLEEPS_AFTER)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("hi")
        fork = await supervisor.fork("s", spec, id="f")
        await fork.ask("and?")
        for item in (session, fork):
            await slept(item)
            assert (await journal.latest(item.id)).snapshot is not None
    async with open_supervisor(journal=journal) as supervisor:
        session, fork = await supervisor.resume("s", spec), await supervisor.resume("f", spec)
        assert texts_of(session) == ["hi", "one"]
        assert texts_of(fork) == ["hi", "one", "and?", "one"]


# What may be left out


def conversation(size: int) -> list[Message]:
    """Return so many characters of messages, all of one size."""
    return [UserMessage((Text("x" * OF_A_RESULT),)) for _ in range(size // OF_A_RESULT)]


def state_of(messages: list[Message]) -> State:
    return State("s", Setup(), "demo", history=History(messages))


def test_a_snapshot_is_as_long_for_a_large_session_as_for_a_small_one() -> None:
    """What the loop does for a snapshot, and what the journal's thread encodes, do not grow with the session."""
    state = state_of(conversation(LARGE))
    with counted_opcodes() as opcodes:
        snapshot = snapshot_of(state, 3_000, NO_STEM)
    assert opcodes[0] < 500
    packed = pack(snapshot)
    assert len(packed.body) + sum(map(len, packed.blobs.values())) < 2_000


def test_the_longest_history_that_is_kept_whole() -> None:
    for size, since in ((MAX_KEPT - 65, None), (MAX_KEPT - 64, None), (MAX_KEPT - 63, 0)):
        assert snapshot_of(state_of([UserMessage((Text("x" * size),))]), 9, NO_STEM).since == since
    image = UserMessage((Image("image/png", "x" * MAX_KEPT),))
    assert snapshot_of(state_of([image]), 9, NO_STEM).since == 0


def test_a_page_of_records_is_as_long_wherever_it_stands() -> None:
    """The loop adds the messages of one page at a time; that does not grow with what it has added before."""
    counts: list[int] = []
    for old in (0, LARGE):
        history = History(conversation(old))
        page = [record(number, Change(history=Appended(tuple(conversation(OF_A_RESULT))))) for number in range(PAGE)]
        with counted_opcodes() as opcodes:
            grown(history, page, Results())
        counts.append(opcodes[0])
    assert abs(counts[1] - counts[0]) < 100
    assert counts[1] < 300 * PAGE


def record(number: int, change: Change) -> Record:
    return Record("s", number, Arrival(TimerFired("t"), 0), change=change)


def test_a_stem_waits_until_no_batch_is_open() -> None:
    """Results of a batch that was open at a compaction would not be known to who reads the records after it."""
    calls = Batch(CallList((Call("c1", "look", EMPTY),)))
    rearranged = Change(history=Rearranged((MessageRange(0, 1),)))
    state = state_of(conversation(4 * OF_A_RESULT))
    stem = stem_after(NO_STEM, 5, rearranged, state.but(batch=calls))
    assert stem == Stem(5, 4, is_settled=False)
    stem = stem_after(stem, 6, Change(history=Appended((ResultOf("c1"),))), state)
    assert stem == Stem(6, 4)
    assert stem_after(stem, 7, Change(history=Appended(())), state) is stem


@pytest.mark.parametrize(
    "wrong", [Change(history=Rearranged((MessageRange(0, 1),))), Change(history=Appended((ResultOf("c1"),)))]
)
def test_a_record_that_does_not_fit_a_snapshot_is_named(wrong: Change) -> None:
    with pytest.raises(BadRecord, match=r"record 7 .*the messages that it appends cannot be told"):
        grown(History(), [record(7, wrong)], Results())


def test_results_of_calls_are_those_of_the_open_batch() -> None:
    result = ToolMessage("c1", "look", (Text("found"),))
    batch = Batch(CallList((Call("c1", "look", EMPTY, result=result),)))
    first = record(1, Change(batch=batch))
    joined = record(2, Change(batch=None, history=Appended((ResultOf("c1"),))))
    assert list(grown(History(), [first, joined], Results())) == [result]
    with pytest.raises(BadRecord):
        grown(History(), [first, joined, joined], Results())


def test_a_record_that_changes_a_call_keeps_the_results_of_the_others() -> None:
    tool_message = ToolMessage("c1", "look", (Text("found"),))
    results = Results({"c1": tool_message})
    note_results(ChangedCalls((ChangedCall("c2", "look"),)), results)
    assert results == {"c1": tool_message}
    note_results(ChangedCalls((ChangedCall("c2", "look"),), begins=True), results)
    assert results == {}


async def test_a_snapshot_of_records_that_are_lost_is_an_error_of_its_session() -> None:
    """The journal has the snapshot, and not the records before it."""

    class Lost(MemoryJournal):
        async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
            records = await super().read(session_id, after, limit)
            return records if limit == 1 else ()

    journal = Lost()
    spec = SessionSpec(model=ScriptedModel(["fine"], repeat_last=True), hibernate_after=SLEEPS_AFTER)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("hi" * MAX_KEPT)
        await slept(session)
        with pytest.raises(BadRecord, match=r"record 1 .*it is lost"):
            await supervisor.fork("s", spec)
