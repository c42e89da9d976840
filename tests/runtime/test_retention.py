"""`open_supervisor(retain=…)`: sessions that have ended long ago are deleted in the background."""

import logging

import pytest
import trio

from agentrail import SessionSpec, Supervisor, open_supervisor
from agentrail.errors import WrongType
from agentrail.events import Envelope, SessionEnded
from agentrail.journals import (
    ALL_SESSIONS,
    Journal,
    Lease,
    MemoryJournal,
    Record,
    Retention,
    SessionFilter,
    StoredSession,
)
from agentrail.ports.journal import A_DAY
from agentrail.runtime.supervision import session_deletion
from agentrail.runtime.supervision.session_deletion import PAUSE
from agentrail.testing import ScriptedModel
from tests.kit import prompted
from tests.runtime.families import agent, task
from tests.runtime.journals import TestJournal

AGE = 1 / 12
"""Two hours, in days: a test takes less than a day."""

AGE_S = AGE * A_DAY / 1000


def saying(*texts: str, **more: object) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(texts), **more)  # type: ignore[arg-type]  # a test may give any field


async def ended(supervisor: Supervisor, name: str, *labels: str) -> None:
    session = await supervisor.spawn(saying("fine"), name, labels=labels)
    await session.ask("go")
    await session.stop()


async def stored(journal: Journal) -> list[str]:
    return [session.session_id for session in await journal.sessions()]


@pytest.mark.long
async def test_what_ended_long_ago_is_deleted_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agentrail.supervisor")
    journal = MemoryJournal()
    async with open_supervisor(journal=journal, retain=[Retention(2 * AGE)]) as supervisor:
        await ended(supervisor, "old")
        await (await supervisor.spawn(saying("fine"), "open")).ask("go")
        await trio.sleep(1.9 * AGE_S)
        await ended(supervisor, "young")
        assert await stored(journal) == ["old", "open", "young"]
        await trio.sleep(0.7 * AGE_S)
        assert await stored(journal) == ["open", "young"]
        await trio.sleep(2 * AGE_S)
        assert await stored(journal) == ["open"]
    lines = [record.getMessage() for record in caplog.records if "deleted" in record.getMessage()]
    counts = [line.rpartition(":")[2] for line in lines]
    assert sorted(counts) == [" 0 deleted, 0 left for now"] * 8 + [" 1 deleted, 0 left for now"] * 2
    assert lines[0].startswith("sessions that ended 0.166667 days ago:")


async def test_without_a_policy_nothing_is_deleted() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        await ended(supervisor, "old")
        await trio.sleep(10 * AGE_S)
        assert await stored(journal) == ["old"]


async def test_a_policy_is_for_a_label(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agentrail.supervisor")
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        await ended(supervisor, "a", "demo")
        await ended(supervisor, "b", "demo", "other")
        await ended(supervisor, "c", "other")
        await ended(supervisor, "d")
    async with open_supervisor(journal=journal, retain=[Retention(1 * AGE, "demo"), Retention(5 * AGE)]):
        await trio.sleep(2 * AGE_S)
        assert await stored(journal) == ["c", "d"]
        await trio.sleep(4 * AGE_S)
        assert await stored(journal) == []
    assert "sessions with the label 'demo' that ended 0.0833333 days ago: 2 deleted" in caplog.text
    assert "sessions that ended 0.416667 days ago: 2 deleted" in caplog.text


class Unfiltered(TestJournal):
    """A journal that lists all sessions, whatever is wanted."""

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        return await super().sessions(ALL_SESSIONS, after, limit)


async def test_of_a_session_that_is_deleted_one_record_is_read() -> None:
    class Noting(TestJournal):
        async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
            read.append((session_id, after, limit))
            return await super().read(session_id, after, limit)

    inner = MemoryJournal()
    read: list[tuple[str, int, int]] = []
    async with open_supervisor(journal=inner) as supervisor:
        await ended(supervisor, "old")
    async with open_supervisor(journal=Noting(inner=lambda: inner), retain=[Retention(AGE)]):
        await trio.sleep(2 * AGE_S)
    assert await stored(inner) == []
    assert read == [("old", 0, 1)]


async def test_what_has_not_ended_is_kept_even_if_a_journal_lists_it_as_ended() -> None:
    inner = MemoryJournal()
    async with open_supervisor(journal=inner) as supervisor:
        await (await supervisor.spawn(saying("fine"), "open")).ask("go")
        await ended(supervisor, "old")
    journal = Unfiltered(inner=lambda: inner)
    async with open_supervisor(journal=journal, retain=[Retention(AGE)]):
        await trio.sleep(2 * AGE_S)
    assert await stored(inner) == ["open"]


@pytest.mark.long
async def test_a_sub_agent_is_kept_as_long_as_its_parent() -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal, retain=[Retention(1 * AGE)]) as supervisor:
        spec = SessionSpec(model=ScriptedModel([task(), "done"]), agents={"finder": agent(["found"])})
        session = await supervisor.spawn(spec, "parent")
        await session.ask("go")
        await trio.sleep(3 * AGE_S)
        assert await stored(journal) == ["parent", "parent.c3"]
        await session.stop()
        await trio.sleep(1.7 * AGE_S)
        assert await stored(journal) == []


async def test_what_is_held_elsewhere_is_left_for_the_next_sweep(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agentrail.supervisor")
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        await ended(supervisor, "held")
        await ended(supervisor, "other")
    now = (await journal.sessions())[0].active
    await journal.claim("held", "elsewhere", Lease(now, 60_000), take_over=True)
    async with open_supervisor(journal=journal, retain=[Retention(0)]):
        await trio.sleep(30)
        assert await stored(journal) == ["held"]
        assert "1 deleted, 1 left for now" in caplog.text
        await trio.sleep(4000)
        assert await stored(journal) == []


async def test_a_sweep_does_bounded_work_a_second_and_a_start_does_not_wait_for_it() -> None:
    journal = MemoryJournal()
    for number in range(500):
        name = f"s{number:03}"
        event = (Envelope(name, 1, 0, 0, 0, 0, SessionEnded("stopped")),)
        first = prompted(name, 1, opening=None, events=event)
        await journal.append(await journal.claim(name, "test"), 0, (first,))
    async with open_supervisor(journal=journal, retain=[Retention(0)]) as supervisor:
        assert len(await stored(journal)) == 500
        assert (await (await supervisor.spawn(saying("fine"), "new")).ask("go")).text == "fine"
        old_count = len(await stored(journal))
        await trio.sleep(10)
        assert old_count - len(await stored(journal)) <= 10 / PAUSE


@pytest.mark.parametrize("retain", [Retention, [30], "30 days", 30, [Retention(1), None]])
async def test_what_is_no_policy_is_refused(retain: object) -> None:
    with pytest.raises(WrongType, match="retain"):
        open_supervisor(retain=retain)  # type: ignore[arg-type]


@pytest.mark.parametrize("days", [-1, "30", None, float("nan"), float("inf"), True])
def test_days_are_a_number(days: object) -> None:
    with pytest.raises(WrongType, match="days"):
        Retention(days)  # type: ignore[arg-type]


def test_a_label_is_text() -> None:
    with pytest.raises(WrongType, match="label"):
        Retention(1, 7)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [2, 3, 4, 9])
async def test_however_many_are_listed_at_once_all_are_deleted(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_deletion, "PAGE", 3)
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        for number in range(count):
            await ended(supervisor, f"s{number}")
    async with open_supervisor(journal=journal, retain=[Retention(AGE)]):
        await trio.sleep(2 * AGE_S)
        assert await stored(journal) == []
