"""Tests of the money in a journal, for each kind of journal."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final

import trio
from hypothesis import strategies as st

from agentrail.journals import Balance, DayMoney, Expense, Journal, MoneyJournal
from agentrail.ports.protocol_members import has_members
from agentrail.values.value import Value

LIMIT: Final = 100
DAY: Final = 20_000


def expense(
    number: int = 1, most: int = 10, *, tenant: str = "acme", day: int = DAY, session: str = "s", run: str = "r"
) -> Expense:
    return Expense(tenant, day, session, run, number, most)


class Move(Value):
    """A call to a journal: to reserve an expense, or, with a *cost*, to settle it."""

    expense: Expense
    cost: int | None = None


EXPENSES: Final = st.builds(
    Expense,
    tenant=st.sampled_from(("acme", "evil", "", "é\ud800")),
    day=st.just(DAY),
    session_id=st.sampled_from(("a", "b", "c")),
    run=st.sampled_from(("r", "s")),
    number=st.integers(1, 4),
    most=st.integers(0, 60),
)
MOVES: Final = st.lists(st.builds(Move, EXPENSES, st.none() | st.integers(0, 70)), max_size=12)


class Book:
    """What a journal has to say, by a `DayMoney` for each tenant and day."""

    def __init__(self) -> None:
        self.days: dict[tuple[str, int], DayMoney] = {}

    def make(self, move: Move) -> Balance | None:
        day = self.days.setdefault((move.expense.tenant, move.expense.day), DayMoney())
        if move.cost is None:
            return day.reserve(move.expense, LIMIT)
        day.settle(move.expense, move.cost)
        return None


async def made(journal: MoneyJournal, move: Move) -> Balance | None:
    if move.cost is None:
        return await journal.reserve_money(move.expense, LIMIT)
    await journal.settle_money([(move.expense, move.cost)])
    return None


def keeping(journal: Journal) -> MoneyJournal:
    assert has_members(journal, MoneyJournal)
    return journal


async def check_moves(open_journal: Callable[[], Journal], moves: Sequence[Move]) -> None:
    """Make *moves*, each by another of two journals on the same store: they say what a `Book` says."""
    book = Book()
    async with AsyncExitStack() as stack:
        journals = [open_journal() for _ in range(2)]
        for journal in journals:
            stack.push_async_callback(journal.close)
        for index, move in enumerate(moves):
            assert await made(keeping(journals[index % 2]), move) == book.make(move), (index, moves)


async def check_race(journals: Sequence[MoneyJournal], tasks: int = 20) -> None:
    """Reserve and settle from many tasks at once: never more than the limit, and nothing is lost."""
    reserved: dict[int, Expense] = {}
    most_at_once = 0
    spent = 0

    async def pay(number: int) -> None:
        nonlocal most_at_once, spent
        mine = expense(number, 30, session=f"s{number}")
        journal = journals[number % len(journals)]
        while not (balance := await journal.reserve_money(mine, LIMIT)).is_reserved:
            assert balance.spent + balance.reserved + mine.most > LIMIT
            if balance.spent + mine.most > LIMIT:
                return
            await trio.lowlevel.checkpoint()
        reserved[number] = mine
        most_at_once = max(most_at_once, len(reserved))
        await trio.lowlevel.checkpoint()
        del reserved[number]
        spent += 5
        await journal.settle_money([(mine, 5)])

    async with trio.open_nursery() as nursery:
        for number in range(tasks):
            nursery.start_soon(pay, number)
    assert most_at_once <= 3
    assert spent == 5 * min(tasks, 15)  # after 15, one more could cost more than what is left
    balance = await journals[0].reserve_money(expense(tasks + 1, LIMIT), LIMIT)
    assert balance == Balance(is_reserved=False, spent=spent, reserved=0)
