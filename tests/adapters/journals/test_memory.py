"""A journal in memory keeps the newest records, and the last state of each session."""

from collections.abc import Sequence

import pytest

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.adapters.journals.memory import SHARE
from agentrail.errors import BadRecord
from agentrail.events import Cursor, Gap
from agentrail.journals import Claim, MemoryJournal, Record, Redaction
from agentrail.ports.journal import folded, opening_of
from agentrail.testing import ScriptedModel
from tests.kit import opened, run_of

TURNS = 24
NOTE = Redaction(5, "ann")


async def talked(session: SessionHandle, turns: int = TURNS) -> None:
    for turn in range(turns):
        await session.ask(f"prompt {turn}", command=f"c{turn}")


def spec() -> SessionSpec:
    return SessionSpec(model=ScriptedModel([f"answer {turn}" for turn in range(TURNS + 4)]))


@pytest.mark.parametrize("keep", [1, 7, 33, None])
async def test_the_newest_records_are_kept_and_a_session_comes_back_from_its_last_state(keep: int | None) -> None:
    journal = MemoryJournal(keep=keep)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await talked(session)
        before = session.messages()
    records = await journal.read("s")
    (stored,) = await journal.sessions()
    assert stored.head == records[-1].number
    if keep is None:
        assert len(records) == stored.head
    else:  # of 33, one more is kept until two are dropped together
        assert len(records) - 1 in range(keep, keep + keep // SHARE + 1)
    assert records[0].opening is not None
    assert [record.number for record in records] == [*range(stored.head - len(records) + 1, stored.head + 1)]
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec())
        assert session.messages() == before
        reply = await session.ask("and now?")
        if keep is None:
            assert (await session.ask("prompt 3", command="c3")).text == "answer 3"
        else:  # it is not run once more
            with pytest.raises(BadRecord, match="a larger `keep`"):
                await session.ask("prompt 3", command="c3")
            assert session.messages()[-1].text == reply.text


async def test_records_of_all_sessions_count_together_and_those_of_a_deleted_one_are_gone() -> None:
    journal = MemoryJournal(keep=6)
    async with open_supervisor(journal=journal) as supervisor:
        sessions = [await supervisor.spawn(spec(), name) for name in ("a", "b", "c")]
        for session in sessions:
            await talked(session, 2)
        assert [len(await journal.read(session.id)) for session in sessions] == [1, 3, 5]
        assert [stored.session_id for stored in await journal.sessions()] == ["a", "b", "c"]
        await sessions[2].stop()
        await journal.delete("c", "test", 2**60)
        assert (await sessions[0].ask("more")).text == "answer 2"
        assert 0 < len(await journal.read("a")) <= 6
        assert len(await journal.read("b")) == 2  # the deleted ones take no room


async def test_sessions_that_come_and_are_deleted_leave_nothing_however_few_records_are_kept() -> None:
    journal = MemoryJournal(keep=8)
    async with open_supervisor(journal=journal) as supervisor:
        for _ in range(80):
            session = await supervisor.spawn(spec(), "s")
            await session.stop()
            await supervisor.delete("s")
    assert len(journal._order) <= 2 * 8 + 64  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - nothing else tells


async def test_the_changes_that_are_made_when_they_are_read_are_those_of_the_states() -> None:
    journal = MemoryJournal(keep=None)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await talked(session)
        state = (await journal.latest("s")).snapshot
        records = await journal.read("s")
    after = opening_of(records[0])
    for record in records:
        after = folded(after, record)
    assert state is not None
    assert after == state.state


async def test_events_before_the_first_record_that_is_kept_are_a_gap() -> None:
    async with open_supervisor(journal=MemoryJournal(keep=10)) as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await talked(session)
        async with session.subscribe(since=Cursor(0)) as events:
            await session.stop()
            heard = [event async for event in events]
    _, gap, *rest = heard  # the first one is of the events that no journal has
    assert isinstance(gap.event, Gap)
    assert (gap.event.from_seq, gap.event.to_seq) == (0, rest[0].seq - 1)
    durable = [event.seq for event in rest if event.n == 0]
    assert durable == [*range(durable[0], durable[-1] + 1)]
    assert durable[0] > 1


async def test_a_fork_at_a_record_that_is_not_kept_is_refused_and_says_why() -> None:
    journal = MemoryJournal(keep=10)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await talked(session)
        first = (await journal.read("s"))[0].number
        with pytest.raises(BadRecord, match="a larger `keep`"):
            await supervisor.fork("s", at=2)
        fork = await supervisor.fork("s", at=first)
        assert session.messages()[: len(fork.messages())] == fork.messages()


async def test_nothing_is_left_of_a_text_that_was_redacted() -> None:
    journal = MemoryJournal(keep=10)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await talked(session)
    (stored,) = await journal.sessions()
    await journal.release([await journal.claim("s", "test")])
    assert await journal.redact("s", 1, stored.head, NOTE, "nobody") == 10
    held = repr([*await journal.read("s"), await journal.latest("s"), await journal.answer("s", "c3")])
    assert "prompt 3" not in held
    assert "answer 3" not in held
    assert "[redacted]" in held


async def test_records_that_come_without_states_are_kept() -> None:
    journal = MemoryJournal(keep=2)
    claim = await opened(journal, "s", 3)
    await journal.append(claim, 3, run_of("s", 4, 2))
    assert await journal.read("s") == run_of("s", 1, 5)


async def test_a_redaction_of_a_session_without_records_leaves_others_be() -> None:
    journal = MemoryJournal()
    await journal.claim("empty", "test")
    assert await journal.redact("empty", 1, 1, NOTE, "test") == 0
    claim = await opened(journal, "full", 1)
    await journal.append(claim, 1, run_of("full", 2, 1))
    assert await journal.read("full") == run_of("full", 1, 2)


async def test_a_subclass_with_an_append_of_its_own_is_asked_to_append() -> None:
    written: list[Record] = []

    class Watched(MemoryJournal):
        async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
            written.extend(records)
            return await super().append(claim, expected, records)

    async with open_supervisor(journal=(journal := Watched())) as supervisor:
        await talked(await supervisor.spawn(spec(), "s"), 1)
        assert tuple(written) == await journal.read("s")
