"""What tenants spend is kept by each journal as `DayMoney` says, for all who use it at once, and over a kill -9."""

import os
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import trio
from hypothesis import given

from agentrail.adapters.journals.sql.sqlite_tables import KNOWN
from agentrail.errors import BadRecord
from agentrail.journals import Balance, DayMoney, MemoryJournal, MoneyJournal, SqliteJournal
from agentrail.ports.money import KEPT_DAYS
from tests.adapters.journals.killed_forks import fork_killed_at
from tests.adapters.journals.money import DAY, LIMIT, MOVES, Book, Move, check_moves, check_race, expense, made
from tests.recovery.writer import REACHED

# The rule


@pytest.mark.long
@given(MOVES)
def test_what_is_spent_and_reserved_together_is_within_the_limit(moves: Sequence[Move]) -> None:
    """As long as no request costs more than its most."""
    day = DayMoney()
    for move in moves:
        old_spent, old = day.spent, dict(day.reserved)
        own = (move.expense.run, move.expense.number)
        if move.cost is None:
            balance = day.reserve(move.expense, LIMIT)
            assert balance == Balance(
                own in day.reserved,
                day.spent,
                sum(other.most for key, other in day.reserved.items() if key != own),
            )
            assert balance.is_reserved or balance.spent + balance.reserved + move.expense.most > LIMIT
        else:
            day.settle(move.expense, min(move.cost, old[own].most if own in old else 0))
        # nothing is lost: what is not reserved any more was settled, or is spent as a whole
        gone = [other.most for key, other in old.items() if key not in day.reserved]
        assert day.spent - old_spent <= sum(gone)
        assert move.cost is not None or day.spent - old_spent == sum(gone)
        assert day.spent + sum(other.most for other in day.reserved.values()) <= LIMIT


def test_what_a_session_has_reserved_in_another_run_is_spent() -> None:
    day = DayMoney()
    assert day.reserve(expense(1, 60), LIMIT) == Balance(is_reserved=True, spent=0, reserved=0)
    assert day.reserve(expense(1, 50, run="later"), LIMIT) == Balance(is_reserved=False, spent=60, reserved=0)
    day.settle(expense(1, 60), 5)  # it went on all the same: what it cost is not known here any more
    assert day.reserve(expense(2, 40, run="later"), LIMIT) == Balance(is_reserved=True, spent=60, reserved=0)


def test_what_another_session_has_reserved_in_another_run_stays_reserved() -> None:
    day = DayMoney()
    day.reserve(expense(1, 60), LIMIT)
    other = expense(1, 50, run="later", session="other")
    assert day.reserve(other, LIMIT) == Balance(is_reserved=False, spent=0, reserved=60)
    day.settle(expense(1, 60), 5)
    assert day.reserve(other, LIMIT) == Balance(is_reserved=True, spent=5, reserved=0)


def test_an_expense_is_reserved_and_settled_once() -> None:
    day = DayMoney()
    for _ in range(2):
        assert day.reserve(expense(1, 60), LIMIT) == Balance(is_reserved=True, spent=0, reserved=0)
    for _ in range(2):
        day.settle(expense(1, 60), 7)
    assert day.reserve(expense(2, 94), LIMIT) == Balance(is_reserved=False, spent=7, reserved=0)


# Journals


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MoneyJournal]:
    journal = MemoryJournal() if request.param == "memory" else SqliteJournal(tmp_path / "a.db", sync="normal")
    yield journal
    await journal.close()


async def test_a_day_is_one_tenants(journal: MoneyJournal) -> None:
    for tenant in ("acme", "evil"):
        for day in (DAY, DAY + 1):
            balance = await journal.reserve_money(expense(1, 60, tenant=tenant, day=day), LIMIT)
            assert balance == Balance(is_reserved=True, spent=0, reserved=0)
    await journal.settle_money([(expense(1, 60, tenant="evil"), 99), (expense(9, 60), 99)])
    assert await journal.reserve_money(expense(2, 50), LIMIT) == Balance(is_reserved=False, spent=0, reserved=60)
    spent = await journal.reserve_money(expense(2, 50, tenant="evil"), LIMIT)
    assert spent == Balance(is_reserved=False, spent=99, reserved=0)


async def test_days_of_the_past_are_forgotten(journal: MoneyJournal) -> None:
    for day in range(DAY, DAY + KEPT_DAYS + 1):
        assert (await journal.reserve_money(expense(1, 60, day=day), LIMIT)).is_reserved
    # the first one is, and those that are kept are not
    await journal.settle_money([(expense(1, 60, day=day), 7) for day in range(DAY, DAY + KEPT_DAYS + 1)])
    spent = [(await journal.reserve_money(expense(2, 94, day=DAY + 1 + n), LIMIT)).spent for n in range(KEPT_DAYS)]
    assert spent == [7] * KEPT_DAYS


async def test_many_at_once_keep_the_limit_and_lose_nothing(journal: MoneyJournal) -> None:
    await check_race([journal])


@pytest.mark.long
@given(MOVES)
async def test_memory_says_what_the_rule_says(moves: Sequence[Move]) -> None:
    journal, book = MemoryJournal(), Book()
    for move in moves:
        assert await made(journal, move) == book.make(move)


# Files


@pytest.mark.long
@given(MOVES)
def test_files_say_what_the_rule_says_to_two_who_use_them(
    tmp_path_factory: pytest.TempPathFactory, moves: Sequence[Move]
) -> None:
    path = tmp_path_factory.mktemp("money") / "a.db"
    trio.run(check_moves, lambda: SqliteJournal(path, sync="normal"), moves)


async def test_two_who_use_a_file_keep_one_limit(tmp_path: Path) -> None:
    journals = [SqliteJournal(tmp_path / "a.db", sync="normal") for _ in range(2)]
    await check_race(journals, 12)
    for journal in journals:
        await journal.close()


async def test_a_file_has_the_table_only_if_money_is_limited_and_stays_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    journal = SqliteJournal(path)
    await journal.claim("s", "test")
    assert "money" not in tables(path)
    await journal.reserve_money(expense(), LIMIT)
    assert tables(path)["money"] == KNOWN["money"]
    await journal.close()
    journal = SqliteJournal(path)
    assert await journal.sessions() == ()
    assert (await journal.claim("s", "test")).head == 0
    assert await journal.reserve_money(expense(2, LIMIT), LIMIT) == Balance(is_reserved=False, spent=0, reserved=10)
    await journal.close()


async def test_rows_do_not_grow_with_the_requests(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "a.db", sync="normal")
    for number in range(50):
        await journal.reserve_money(expense(number), LIMIT)
        await journal.settle_money([(expense(number), 1)])
    await journal.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as db:
        assert db.execute("SELECT tenant, run, amount FROM money").fetchall() == [(b"acme", b"", 50)]


async def test_the_id_of_a_session_is_nowhere_in_a_file_so_none_is_left_when_it_is_deleted(tmp_path: Path) -> None:
    """A process that was killed leaves what it has reserved, and nobody settles that."""
    journal = SqliteJournal(tmp_path / "a.db")
    await journal.reserve_money(expense(1, 60, session="of-mrs-smith"), LIMIT)
    await journal.close()
    assert b"mrs-smith" not in content(tmp_path)
    journal = SqliteJournal(tmp_path / "a.db")
    back = await journal.reserve_money(expense(1, 40, session="of-mrs-smith", run="later"), LIMIT)
    assert back == Balance(is_reserved=True, spent=60, reserved=0)
    await journal.close()


@pytest.mark.parametrize("amount", ["'many'", "x'00'", "1.5", "-90"])
@pytest.mark.parametrize("run", ["", "r"])
async def test_a_damaged_amount_stops_its_tenant_alone(tmp_path: Path, amount: str, run: str) -> None:
    journal = SqliteJournal(tmp_path / "a.db", sync="normal")
    for tenant in ("acme", "evil"):
        await journal.reserve_money(expense(1, tenant=tenant), LIMIT)
    await journal.close()
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as db:
        change = f"UPDATE money SET amount = {amount} WHERE tenant = ? AND run = ?"  # noqa: S608
        db.execute(change, (b"acme", run.encode()))
    with pytest.raises(BadRecord, match="what its tenant has spent today is damaged"):
        await journal.reserve_money(expense(2), LIMIT)
    await journal.settle_money([(expense(1), 3), (expense(1, tenant="evil"), 4)])
    balance = await journal.reserve_money(expense(2, LIMIT, tenant="evil"), LIMIT)
    assert balance == Balance(is_reserved=False, spent=4, reserved=0)
    await journal.close()


def content(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


def tables(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        return {name: " ".join(sql.split()) for name, sql in rows}


@pytest.mark.long
@pytest.mark.parametrize("settles", [False, True])
def test_a_process_that_is_killed_leaves_all_or_nothing_of_a_call(tmp_path: Path, settles: bool) -> None:
    for index in count(1):
        path = tmp_path / f"{index}.db"
        trio.run(prepare, path)
        child = fork_killed_at(index, partial(end_with, path, settles))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found = trio.run(balance, path)
        before = Balance(is_reserved=False, spent=0, reserved=20)
        after = Balance(is_reserved=False, spent=3, reserved=10) if settles else before.but(reserved=50)
        assert found in (before, after)
        if status != REACHED:
            assert (status, found) == (0, after)
            assert index > 3
            return


async def prepare(path: Path) -> None:
    journal = SqliteJournal(path)
    for number in (1, 2):
        await journal.reserve_money(expense(number), LIMIT)
    await journal.close()


def end_with(path: Path, settles: bool) -> None:
    trio.run(last_call, path, settles)


async def last_call(path: Path, settles: bool) -> None:
    journal = SqliteJournal(path)
    if settles:
        await journal.settle_money([(expense(1), 3)])
    else:
        await journal.reserve_money(expense(3, 30), LIMIT)
    await journal.close()


async def balance(path: Path) -> Balance:
    journal = SqliteJournal(path)
    found = await journal.reserve_money(expense(9, LIMIT + 1), LIMIT)
    await journal.close()
    return found
