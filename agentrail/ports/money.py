"""Money that tenants of hosts spend in a day: `DayMoney` is the rule, and a `MoneyJournal` keeps it for all its hosts.

What a request to a model costs is known when it has ended. Until then it counts as the most that it can cost, and for
good if its process is killed before: nobody knows then what the provider charges.

`SpendingLimit`: reserves money for each request before it is sent; the runtime calls it, and a host implements it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from agentrail.values.argument_checks import checked
from agentrail.values.value import Authored

PER_USD: Final = 10**9
"""Money is counted in billionths of a US dollar: sums of them are exact."""


class Expense(Authored):
    """A request to a model, whose cost counts for one day of a tenant."""

    tenant: str
    """The tenant that pays."""
    day: int
    """The day in UTC, as the number of days since 1970."""
    session_id: str
    """The session that makes the request."""
    run: str
    """Id of the host's run that makes the request; once its session is in another run, the request has ended."""
    number: int
    """Number of the request in that run."""
    most: int
    """The most that it can cost, in billionths of a US dollar."""

    @property
    def key(self) -> tuple[str, int]:
        """Run and number, which no other expense has."""
        return self.run, self.number


class Balance(Authored):
    """What a tenant has spent on a day, as a journal says it; in billionths of a US dollar."""

    is_reserved: bool
    """Whether the expense that was asked for is reserved."""
    spent: int
    """Cost of the requests that have ended, and the most of those whose end nobody saw."""
    reserved: int
    """The most that the other requests, which have not ended, can cost."""


class DayMoney:
    """What one tenant has spent on one day, and what is reserved."""

    __slots__ = ("reserved", "spent")

    @checked
    def __init__(self, spent: int = 0, reserved: Sequence[Expense] = ()) -> None:
        self.spent = spent  # in billionths of a US dollar
        self.reserved = {expense.key: expense for expense in reserved}

    def reserve(self, expense: Expense, limit: int) -> Balance:
        """Reserve *expense* if that keeps the day within *limit*, or it is reserved already; return the balance.

        What the same session has reserved in another run is spent: that run is over, at least for the session.
        """
        for key, other in tuple(self.reserved.items()):
            if other.session_id == expense.session_id and other.run != expense.run:
                self.spent += self.reserved.pop(key).most
        others = sum([other.most for key, other in self.reserved.items() if key != expense.key])
        if self.spent + others + expense.most <= limit:
            self.reserved.setdefault(expense.key, expense)
        return Balance(expense.key in self.reserved, self.spent, others)

    def settle(self, expense: Expense, cost: int) -> None:
        """Count the *cost* of *expense* in place of its most; no-op if it is not reserved any more."""
        if self.reserved.pop(expense.key, None) is not None:
            self.spent += cost


DAY_MS: Final = 86_400_000
"""Milliseconds of a day."""

KEPT_DAYS: Final = 2
"""For how many days money is kept: a request may end on the day after the one that pays for it."""


class MoneyJournal(Protocol):
    """Interface: a journal that keeps what tenants spend in a day, for `KEPT_DAYS`."""

    async def reserve_money(self, expense: Expense, limit: int) -> Balance:
        """Do as `DayMoney.reserve`, in one transaction with what that reads; it is durable when this returns.

        May be called again if the answer is lost: an expense is reserved once.
        """
        ...

    async def settle_money(self, costs: Sequence[tuple[Expense, int]]) -> None:
        """Do as `DayMoney.settle` for each expense; may be called again as well."""
        ...


class SpendingLimit(Protocol):
    """Interface: keeps what the requests of each tenant cost within a limit."""

    @property
    def limits(self) -> list[float]:
        """The US dollars a day of each host that limits its tenants; the least of them holds."""
        ...

    async def reserve(self, tenant: str, session_id: str, model: str, most_usd: float | None) -> Expense:
        """Reserve *most_usd* for a request to *model*, and wait as long as others have reserved what it needs.

        Raise `LimitReached` if too little is left, or if *most_usd* is `None`, as no price is known.
        """
        ...

    def settle(self, expense: Expense, cost_usd: float | None) -> None:
        """Note that a request has ended, with its cost; `None` if that is not known, so its most counts."""
        ...

    async def run(self) -> None:
        """Body of the task that writes what requests have cost."""
        ...

    async def flush(self) -> None:
        """Write what requests have cost, before the journal is closed."""
        ...
