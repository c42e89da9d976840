"""`TenantMoney`: keeps what each tenant of a host spends in a day within `HostLimits.usd_per_day`.

What a request to a model may cost is reserved in the journal before it is sent, so it counts after a crash, and for
all hosts that work on the journal. What the request did not cost is given back when it has ended.

The requests of one tenant stand in one line: none passes another that waits for money to be given back.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Final

import trio

from agentrail.app.model_chain import chain_of
from agentrail.app.pricing import PriceList, Prices
from agentrail.app.spec import NO_PRICES, SessionSpec, agents_of
from agentrail.app.supervisor import Supervisor, journal_of, spending_limit_of
from agentrail.errors import AgentrailError, BadChoice, LimitReached
from agentrail.host.profiles import Profile
from agentrail.ports.money import DAY_MS, PER_USD, Balance, Expense
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.ids import new_id
from agentrail.runtime.shared.journal_retry import SteadyJournal, patiently
from agentrail.runtime.shared.untrusted_calls import tell
from agentrail.values.json import EMPTY
from agentrail.values.untrusted_values import MAX_USD

log = logging.getLogger("agentrail.host")

LOOK_SECONDS: Final = 1.0
"""Seconds after which a request that waits looks again whether other hosts have given money back."""

PATIENCE: Final = 30.0
"""For how many seconds a request waits for what other hosts have reserved: a host may have died with it."""

UNPRICED: Final = (
    "the price of `{}` is not known, so usd_per_day={:g} of the host cannot be kept: "
    "give the specification `prices` with that model, or install the extra `prices` for published ones"
)
TOO_DEAR: Final = (
    "a request to `{}` may cost ${:.4f}, and usd_per_day={:g} of the host has ${:.4f} left until 00:00 UTC: {}"
)
ASK_LATER: Final = "ask again then, or with a smaller `max_tokens` in `model_options`, so that less is reserved for it"
NEVER_ENOUGH: Final = (
    "give a smaller `max_tokens` in `model_options`, and a `context_window` if the model's own is not known, so that "
    "less is reserved for it"
)
NOT_SENT: Final = "a request of `%s` was not sent: %s"
SPENT: Final = NOT_SENT + "; today, `%s` has spent $%.4f and reserved $%.4f for other requests"
UNUSABLE: Final = "the profile `%s` cannot use its model `%s`: %s"
LOST: Final = "what some requests have cost could not be written, so for usd_per_day they count as the most they can"
JOURNAL_WANTED: Final = "None, or give the host another `journal`: this one keeps no money (`MoneyJournal`)"


def _billionths(usd: float) -> int:
    """Return *usd* in billionths of a dollar, rounded: as a float, 2.01 dollars are a little less than that."""
    return round(usd * PER_USD)


class _Line:
    """The requests of one tenant at this supervisor."""

    __slots__ = ("ended_at", "lock", "running", "settled")

    def __init__(self) -> None:
        self.ended_at = 0.0  # when the last of them has given money back
        self.lock = trio.Lock()
        self.running = 0  # requests for which money is reserved
        self.settled = trio.Event()  # set, and made anew, when one of them has given money back


class TenantMoney:
    """Reserves money for the requests of tenants, in *journal*: for each and day at most the least of `limits`."""

    def __init__(self, journal: SteadyJournal) -> None:
        self._journal = journal
        self.limits: list[float] = []  # see `SpendingLimit`
        self._clock = Clock()
        self._run = new_id()  # of each expense of this supervisor
        self._numbers = count(1)
        self._lines: defaultdict[str, _Line] = defaultdict(_Line)  # of tenants with requests that wait or run
        self._ended: list[tuple[Expense, int]] = []  # with their costs, which are not written yet
        self._has_ended = trio.Event()  # set while there are such
        self._writing = trio.Lock()
        self._write_scope = trio.CancelScope()  # of a write that is tried until it succeeds

    @property
    def _usd_per_day(self) -> float:
        """The least limit, in US dollars; without one, so high that requests which still wait are sent."""
        return min(self.limits, default=MAX_USD)

    @property
    def _limit(self) -> int:
        """The least limit, in billionths of a US dollar."""
        return _billionths(min(self._usd_per_day, MAX_USD))

    async def reserve(self, tenant: str, session_id: str, model: str, most_usd: float | None) -> Expense:
        """Reserve *most_usd* for a request to *model*; wait as `SpendingLimit.reserve`."""
        if most_usd is None:
            problem = UNPRICED.format(model, self._usd_per_day)
            log.warning(NOT_SENT, session_id, problem)
            raise LimitReached(problem)
        expense = Expense(tenant, 0, session_id, self._run, next(self._numbers), _billionths(most_usd))
        line = self._lines[tenant]
        came_at = self._clock.now()
        try:
            async with line.lock:
                return await self._reserve_in_line(expense, line, model, came_at)
        finally:
            self._forget(tenant)

    async def _reserve_in_line(self, expense: Expense, line: _Line, model: str, came_at: float) -> Expense:
        """Reserve *expense*, which is the first in *line*, and return it with its day; see `reserve`."""
        while True:
            expense, settled = expense.but(day=self._clock.now_ms() // DAY_MS), line.settled
            line.running += 1
            try:
                balance = await patiently(partial(self._journal.reserve_money, expense, self._limit))
            except BaseException:
                self.settle(expense, 0.0)  # it may be reserved, although the answer did not come
                raise
            if balance.is_reserved:
                return expense
            line.running -= 1
            is_over = not line.running and self._clock.now() >= max(came_at, line.ended_at) + PATIENCE
            if is_over or balance.spent + expense.most > self._limit:
                raise self._too_dear(expense, balance, model)
            with trio.move_on_after(LOOK_SECONDS):
                await settled.wait()

    def _too_dear(self, expense: Expense, balance: Balance, model: str) -> LimitReached:
        """Return the error of a request for which too little is left, and log what its tenant has spent."""
        rest = max(0, self._limit - balance.spent - balance.reserved)
        advice = NEVER_ENOUGH if expense.most > self._limit else ASK_LATER
        problem = TOO_DEAR.format(model, expense.most / PER_USD, self._usd_per_day, rest / PER_USD, advice)
        spent = (expense.tenant, balance.spent / PER_USD, balance.reserved / PER_USD)
        log.warning(SPENT, expense.session_id, problem, *spent)
        return LimitReached(problem)

    def settle(self, expense: Expense, cost_usd: float | None) -> None:
        """Note that the request of *expense* has ended, with its cost; the task `run` writes that."""
        cost = expense.most if cost_usd is None else _billionths(cost_usd)
        self._ended.append((expense, cost))
        self._has_ended.set()

    async def run(self) -> None:
        """Body of the task that writes what requests have cost."""
        while True:
            await self._has_ended.wait()
            with trio.CancelScope() as self._write_scope:
                await self._write(attempts=None)

    async def flush(self) -> None:
        """Write what requests have cost, before the journal is closed; if it cannot, they count as the most."""
        self._write_scope.cancel()
        await self._write(attempts=1)

    async def _write(self, attempts: int | None) -> None:
        async with self._writing:
            self._has_ended = trio.Event()
            costs = tuple(self._ended)
            if not costs:
                return
            try:
                await patiently(partial(self._journal.settle_money, costs), attempts=attempts)
            except AgentrailError as error:
                tell(log, error, LOST)
            del self._ended[: len(costs)]
        for expense, _ in costs:
            line = self._lines[expense.tenant]
            line.running -= 1
            line.ended_at = self._clock.now()
            line.settled.set()
            line.settled = trio.Event()
            self._forget(expense.tenant)

    def _forget(self, tenant: str) -> None:
        """Drop the line of *tenant* if nobody is in it."""
        line = self._lines.get(tenant)
        if line is not None and not line.running and not line.lock.locked():
            del self._lines[tenant]


def keep_money(supervisor: Supervisor, usd_per_day: float | None) -> None:
    """Keep the tenants of *supervisor* within *usd_per_day* as long as it runs; no-op if that is `None`.

    Raise `BadChoice` if the journal cannot keep money.
    """
    if usd_per_day is None:
        return
    if not journal_of(supervisor).keeps_money:
        raise BadChoice("usd_per_day", usd_per_day, JOURNAL_WANTED)
    spending_limit_of(supervisor, TenantMoney).limits.append(usd_per_day)


@contextmanager
def keeping_money(supervisor: Supervisor, usd_per_day: float | None) -> Generator[None]:
    """Do as `keep_money` until the `with` is left: for a guest in *supervisor*."""
    keep_money(supervisor, usd_per_day)
    try:
        yield
    finally:
        if usd_per_day is not None:
            spending_limit_of(supervisor, TenantMoney).limits.remove(usd_per_day)


def warn_of_prices(profiles: Iterable[Profile], usd_per_day: float) -> None:
    """Log a warning for each model of *profiles* whose price is not known: no request to it is sent.

    A specification that a function builds is not known yet.
    """
    for profile in profiles:
        if isinstance(profile.spec, SessionSpec):
            switches = [name for name in profile.models if not PriceList(profile.spec.prices).knows(name, EMPTY)]
            for name in dict.fromkeys([*_unpriced_models(profile.spec, NO_PRICES), *switches]):
                log.warning(UNUSABLE, profile.id, name, UNPRICED.format(name, usd_per_day))


def _unpriced_models(spec: SessionSpec, inherited: Prices) -> Iterator[str]:
    """Return the names of the models of *spec* and its sub-agents whose price is not known."""
    prices = inherited if spec.prices is NO_PRICES else spec.prices
    for agent in agents_of(spec).values():
        for model, options in chain_of(agent.model, agent.model_options) if agent.model else ():  # else another's
            name = model if isinstance(model, str) else model.name
            if not PriceList(prices).knows(name, options):
                yield name
    for agent in spec.agents.values():
        yield from _unpriced_models(agent, prices)
