"""Reserves and settles money in its table; runs in a transaction of the writer.

The rows of what tenants have spent on a day are locked first: so at a server, those of one tenant wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import Final, TypeVar, cast

from agentrail.adapters.journals.sql.sql_dialect import SqlConnection
from agentrail.adapters.journals.sql.sql_tables import AS_IT_IS, MONEY, as_stored, as_text
from agentrail.errors import BadRecord
from agentrail.ports.money import DAY_MS, KEPT_DAYS, Balance, DayMoney, Expense

T = TypeVar("T")

NO_RUN: Final = b""
"""The run in the row of what was spent."""

DAMAGED: Final = "what its tenant has spent today is damaged in the journal, so nobody knows what is left"

OF_RUN: Final = "where day = ? and tenant = ? and run = ? and number = ?"


class MoneyTable:
    """The money of all tenants; *for_update* is the clause of a select that keeps its rows from others."""

    def __init__(self, db: SqlConnection, for_update: str) -> None:
        self._db = db
        self._for_update = for_update

    def lock(self, keys: Collection[tuple[int, str]]) -> None:
        """Lock the rows of what was spent by these days and tenants; make those that are not there."""
        newest = 0
        # in their order, so that two who lock the same ones do not deadlock
        for day, tenant in sorted(keys):
            if not self._lock_row(day, tenant):
                newest = day
                self._db.insert(MONEY, [(day, as_stored(tenant), NO_RUN, 0, b"", 0)], AS_IT_IS)
                self._lock_row(day, tenant)  # another process may have made it
        if newest:
            # by the clock of a server, so that a host whose own is wrong deletes nothing of today
            today = min(newest, self._db.now(newest * DAY_MS) // DAY_MS)
            self._db.run("delete from ~money where day <= ?", (today - KEPT_DAYS,))

    def reserve(self, expense: Expense, limit: int) -> Balance:
        """Do as `DayMoney.reserve`."""
        stored_expense = expense.but(session_id=_digest(expense.session_id))
        balance = self._change(expense.day, expense.tenant, lambda money: money.reserve(stored_expense, limit))
        if balance is None:
            raise BadRecord(expense.session_id, 0, DAMAGED)
        return balance

    def settle(self, costs: Sequence[tuple[Expense, int]]) -> None:
        """Do as `DayMoney.settle` for each expense."""
        for (day, tenant), group in groupby(sorted(costs, key=_day_and_tenant), _day_and_tenant):
            # if it is damaged, no cost can change anything: the tenant pays no request on this day any more
            self._change(day, tenant, partial(_settle_all, tuple(group)))

    def _change(self, day: int, tenant: str, change: Callable[[DayMoney], T]) -> T | None:
        """Change the money of a tenant on a day, and return what *change* does; `None` if it is damaged."""
        money = self._load(day, tenant)
        if money is None:
            return None
        old_spent, old = money.spent, dict(money.reserved)
        result = change(money)
        key = (day, as_stored(tenant))
        if money.spent != old_spent:
            self._db.run(f"update ~money set amount = ? {OF_RUN}", (money.spent, *key, NO_RUN, 0))  # noqa: S608
        for run, number in old.keys() - money.reserved.keys():
            self._db.run(f"delete from ~money {OF_RUN}", (*key, as_stored(run), number))  # noqa: S608
        for expense in [money.reserved[own] for own in money.reserved.keys() - old.keys()]:
            row = (*key, as_stored(expense.run), expense.number, as_stored(expense.session_id), expense.most)
            self._db.insert(MONEY, [row])
        return result

    def _lock_row(self, day: int, tenant: str) -> bool:
        """Lock the row of what was spent, and return whether it is there."""
        query = f"select amount from ~money {OF_RUN}{self._for_update}"  # noqa: S608
        return bool(self._db.run(query, (day, as_stored(tenant), NO_RUN, 0)))

    def _load(self, day: int, tenant: str) -> DayMoney | None:
        """Return the money of a tenant on a day; `None` if it is damaged: a column of SQLite takes any value."""
        query = "select run, number, session, amount from ~money where day = ? and tenant = ?"
        rows = cast("list[tuple[bytes, int, bytes, int]]", self._db.run(query, (day, as_stored(tenant))))
        if any(type(amount) is not int or amount < 0 for *_, amount in rows):
            return None
        reserved = [
            Expense(tenant, day, as_text(session), as_text(run), number, most)
            for run, number, session, most in rows
            if run != NO_RUN
        ]
        return DayMoney(sum([amount for run, *_, amount in rows if run == NO_RUN]), reserved)


def _settle_all(costs: Sequence[tuple[Expense, int]], money: DayMoney) -> None:
    for expense, cost in costs:
        money.settle(expense, cost)


def _digest(session_id: str) -> str:
    """Return what stands for a session in the table: its row may stay when the session is deleted."""
    return sha256(as_stored(session_id)).hexdigest()


def _day_and_tenant(cost: tuple[Expense, int]) -> tuple[int, str]:
    return cost[0].day, cost[0].tenant
