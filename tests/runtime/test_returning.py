"""A start brings back what is at work and what is due: it lists only that, in pages, and several come back at once."""

from collections.abc import Sequence

import pytest
import trio

from agentrail import SessionSpec, Supervisor, open_supervisor
from agentrail.journals import ALL_SESSIONS, MemoryJournal, Record, SessionFilter, StoredSession
from agentrail.runtime.supervision import restore
from agentrail.runtime.supervision.restore import AT_ONCE, AT_WORK, DUE, Returning
from agentrail.testing import ScriptedModel, stall
from tests.runtime.journals import TestJournal
from tests.runtime.world import spec_of, until


def build() -> SessionSpec:
    return SessionSpec(model=ScriptedModel(["fine"], repeat_last=True), name="n")


class Watched(TestJournal):
    """A journal that notes what is listed and read, and how many reads are under way at once."""

    def __init__(self, inner: MemoryJournal) -> None:
        super().__init__(inner=lambda: inner)
        self.listed: list[SessionFilter] = []
        self.read_of: set[str] = set()
        self.reading = self.most = 0

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        self.listed.append(wanted)
        return await super().sessions(wanted, after, limit)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        self.read_of.add(session_id)
        self.reading += 1
        self.most = max(self.most, self.reading)
        await trio.sleep(0.1)
        self.reading -= 1
        return await super().read(session_id, after, limit)


async def test_only_what_is_at_work_is_read_and_several_come_back_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "DUE_PAGE", 7)
    inner = MemoryJournal()
    async with open_supervisor(journal=inner) as supervisor:
        for number in range(60):
            busy = number % 2 == 0
            model = ScriptedModel([stall(after=1)] if busy else ["fine"])
            session = await supervisor.spawn(SessionSpec(model=model, name="n"), f"s{number}")
            await session.prompt("go")
        await trio.sleep(1)
    journal = Watched(inner)
    async with open_supervisor(journal=journal, specs={"n": build}) as supervisor:
        await until(lambda: len(supervisor.sessions()) == 30)
        assert journal.read_of == {f"s{number}" for number in range(0, 60, 2)}
        assert set(journal.listed) == {AT_WORK, DUE}
        assert len(journal.listed) == 5 + 1 + 1
        assert journal.most == AT_ONCE


async def listing(supervisor: Supervisor, count: int) -> list[StoredSession]:
    """Return *count* stored sessions, as if each waited for a timer: one each minute, the first two are due."""
    now = supervisor._sessions.shared.clock.now_ms()  # noqa: SLF001 - the clock by which they are due
    stored = await supervisor.stored(limit=count)
    return [item.but(due=now + 60_000 * (index - 1)) for index, item in enumerate(stored)]


async def test_of_what_is_due_later_only_the_next_page_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "DUE_PAGE", 3)
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        for number in range(9):
            await supervisor.spawn(spec_of(ScriptedModel(["fine"])), f"s{number}")
    async with open_supervisor(journal=journal) as supervisor:
        sessions = await listing(supervisor, 9)
        seconds: list[float] = []
        back: dict[str, float] = {}
        began = trio.current_time()

        async def listed(wanted: SessionFilter, after: StoredSession | None, limit: int) -> Sequence[StoredSession]:
            await trio.lowlevel.checkpoint()
            if wanted is AT_WORK:
                return ()
            seconds.append(round(trio.current_time() - began))
            rest = sessions if after is None else sessions[sessions.index(after) + 1 :]
            return rest[:limit]

        async def resume(session_id: str) -> None:
            await trio.lowlevel.checkpoint()
            back[session_id] = round(trio.current_time() - began)

        shared = supervisor._sessions.shared  # noqa: SLF001 - what `Sessions` gives it
        await Returning(shared, listed, resume).run()  # type: ignore[arg-type]  # a list does as well
        await trio.sleep(3600)
    assert back == {f"s{index}": max(60 * (index - 1), 0) for index in range(9)}
    assert seconds == [0, 60, 240, 420]


async def test_of_what_was_due_in_the_meantime_not_all_comes_back_at_once() -> None:
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        for number in range(3 * AT_ONCE):
            await supervisor.spawn(spec_of(ScriptedModel(["fine"])), f"s{number}")
        due = [stored.but(due=0) for stored in await supervisor.stored()]
        under_way: list[int] = [0]
        back: list[str] = []

        async def listed(wanted: SessionFilter, after: StoredSession | None, _limit: int) -> Sequence[StoredSession]:
            await trio.lowlevel.checkpoint()
            return due if wanted is DUE and after is None else ()

        async def resume(session_id: str) -> None:
            under_way.append(under_way[-1] + 1)
            await trio.sleep(1)
            under_way.append(under_way[-1] - 1)
            back.append(session_id)

        shared = supervisor._sessions.shared  # noqa: SLF001 - what `Sessions` gives it
        await Returning(shared, listed, resume).run()  # type: ignore[arg-type]  # a list does as well
        await trio.sleep(10)
    assert sorted(back) == sorted(stored.session_id for stored in due)
    assert max(under_way) == AT_ONCE
