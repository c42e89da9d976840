"""A page of a list costs as much among many sessions as among few: it is read along an index."""

from contextlib import closing
from pathlib import Path

import pytest

from agentrail import State
from agentrail.adapters.journals.journal_addresses import PlacedJournal
from agentrail.adapters.journals.sql.session_listing import list_last_used, list_sessions
from agentrail.adapters.journals.sql.sqlite_dialect import ReadOnlySqlite, SqliteDialect
from agentrail.core.vocabulary.changes import Change
from agentrail.events import Envelope, SessionEnded
from agentrail.journals import ALL_SESSIONS, SessionFilter, SqliteJournal, StoredSession
from agentrail.testing.conformance.journal_tests import labelled
from tests.adapters.journals.many import COMBINED, OWNERS, TENANTS, WANTED, fill
from tests.kit import Setup, prompted
from tests.opcodes import counted_opcodes


def opened_to_read(path: Path) -> ReadOnlySqlite:
    connection = SqliteDialect(path).connect_to_read(lambda: False)
    assert connection is not None
    return connection


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("few") / "agentrail.db"
    fill(path, 1_000)
    return path


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "agentrail.db"
    fill(path, 10_000)
    return path


@pytest.mark.parametrize("name", WANTED)
def test_a_page_costs_the_same_among_ten_times_as_many(few: Path, many: Path, name: str) -> None:
    costs = [_steps_of_pages(path, WANTED[name]) for path in (few, many)]
    assert len(costs[0]) == len(costs[1]) == 2
    for one, other in zip(*costs, strict=True):
        assert other <= 2 * one


@pytest.mark.long
def test_a_page_of_several_conditions_costs_no_more_than_a_look_at_the_shortest_list(many: Path) -> None:
    """A page takes a bounded number of steps to begin with, and 20 for each session that it passes over."""
    with closing(opened_to_read(many)) as file:
        everything = list_sessions(file, ALL_SESSIONS, None, 10_000)
        for wanted in COMBINED:
            lists = [(wanted.tenant, 10_000 // TENANTS), (wanted.owner, 10_000 // OWNERS), (wanted.label, 500)]
            shortest = min((size for value, size in lists if value is not None), default=0)
            steps = _Steps()
            file._db.set_progress_handler(steps.count, 1)  # noqa: SLF001 - steps are counted
            found = list_sessions(file, wanted, None, 20)
            file._db.set_progress_handler(None, 0)  # noqa: SLF001
            assert found == tuple(sorted(filter(wanted.holds, everything), key=wanted.rank)[:20])
            assert steps.taken <= 6_000 + 20 * shortest, (wanted, steps.taken)


async def test_the_end_of_a_session_is_in_all_lists(tmp_path: Path) -> None:
    """Also if its labels and its end are in one commit, and of a session without labels."""
    journal = SqliteJournal(tmp_path / "agentrail.db")
    for name, labels in (("a", ("x", "y")), ("b", ()), ("c", ("x",))):
        said = State(name, Setup(tenant="acme", owner="ann"), "demo", labels=labels)
        claim = await journal.claim(name, "test")
        await journal.append(claim, 0, [prompted(name, 1, opening=said)])
        ended = Envelope(name, 2, 0, 0, 0, 0, SessionEnded("stopped"))
        last = prompted(name, 2).but(events=(ended,))
        if name == "a":
            await journal.append(claim, 1, [last])
        elif name == "c":
            await journal.append(claim, 1, [last.but(change=Change(labels=("x", "z")))])
    for wanted, names in (
        (SessionFilter(tenant="acme", ended=True), ["a", "c"]),
        (SessionFilter(tenant="acme", ended=False), ["b"]),
        (SessionFilter(owner="ann", ended=True), ["a", "c"]),
        (SessionFilter(label="x", ended=True, owner="ann"), ["a", "c"]),
        (SessionFilter(label="y", ended=True, tenant="acme"), ["a"]),
        (SessionFilter(label="z", ended=True), ["c"]),
        (SessionFilter(label="x", ended=False), []),
    ):
        assert [each.session_id for each in await journal.sessions(wanted)] == names
    await journal.close()


class _Steps:
    """How many steps SQLite's machine has taken."""

    def __init__(self) -> None:
        self.taken = 0

    def count(self) -> int:
        self.taken += 1
        return 0


def _steps_of_pages(path: Path, wanted: SessionFilter) -> list[int]:
    """Return how many steps of SQLite's machine each of two pages takes; the second may be shorter."""
    steps = [0]

    def count() -> int:
        steps[-1] += 1
        return 0

    with closing(opened_to_read(path)) as file:
        file._db.set_progress_handler(count, 1)  # noqa: SLF001 - steps are counted
        first = list_sessions(file, wanted, None, 1)
        assert len(first) == 1
        steps.append(0)
        assert all(map(wanted.holds, list_sessions(file, wanted, first[-1], 1)))
    return steps


def test_lists_are_whole_and_in_order(few: Path) -> None:
    with closing(opened_to_read(few)) as file:
        everything = list_sessions(file, ALL_SESSIONS, None, 10_000)
        assert len(everything) == 1_000
        assert not any(stored.problem for stored in everything)
        for wanted in WANTED.values():
            pages: list[StoredSession] = []
            while page := list_sessions(file, wanted, pages[-1] if pages else None, 77):
                pages.extend(page)
            assert pages == sorted(filter(wanted.holds, everything), key=wanted.rank)


async def check_last_used(journal: PlacedJournal) -> None:
    """Assert that the sessions that were used last are listed, the last one first."""
    for name, at in (("a", 3), ("b", 7), ("c", 7), ("d", 1), ("claimed", 0)):
        claim = await journal.claim(name, "test")
        record = labelled(1, name.upper(), ("vip",) if name in "bd" else ("other",)).but(session_id=name)
        await journal.append(claim, 0, [record.but(arrival=record.arrival.but(at=at))] if at else [])
    by_id = {stored.session_id: stored for stored in await journal.sessions()}
    assert await journal.last_used(3) == (by_id["b"], by_id["c"], by_id["a"])
    assert await journal.last_used(9, label="vip") == (by_id["b"], by_id["d"])
    assert await journal.last_used(9, label="none") == ()
    assert len(await journal.last_used(10**30)) == 4


async def test_the_last_used_are_listed_the_last_one_first(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "a.db")
    await check_last_used(journal)
    await journal.close()


@pytest.mark.parametrize("label", [None, "label 3"])
def test_of_the_last_used_no_more_are_read_than_are_listed(few: Path, many: Path, label: str | None) -> None:
    counts: list[int] = []
    for path in (few, many):
        with closing(opened_to_read(path)) as file, counted_opcodes() as counted:
            assert len(list_last_used(file, label, 5)) == 5
        counts.append(counted[0])
    assert counts[1] <= counts[0] + 100
