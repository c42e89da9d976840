"""`HealthParts`: what watches the sessions of a host.

`LoopLag`: measures how late the event loop wakes a task that wants to be woken.

`HeldChanges`: tells those who show what waits for people when that has changed, so that they need not look again.

Calls for those who watch all sessions of a tenant: the tree as rows, and what went wrong, and figures over time.

`Readiness`: checks, each within a time limit, whether a host can do its work; and checks of the profiles' models.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice, takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self, TypeAlias, cast
from weakref import WeakValueDictionary

import trio
from attrs import frozen

from agentrail.api.bodies import FiguresQuery, TroubleQuery
from agentrail.api.limits import CHANGES_SECONDS, METRIC_TENANTS, HostLimits, page_of
from agentrail.api.operation_table import OPERATE
from agentrail.api.public_ids import read_internal
from agentrail.api.views import CheckView, TroublesView
from agentrail.app.model_chain import chain_of
from agentrail.app.model_registry import check_set_up
from agentrail.app.spec import SessionSpec, agents_of
from agentrail.app.supervisor import Supervisor, rows_of
from agentrail.errors import (
    BadModelOptions,
    BadProfile,
    JournalError,
    JournalReadOnly,
    JournalUnusable,
    KeyMissing,
    UnknownModel,
    UsageError,
    WrongType,
)
from agentrail.host.health.figures_history import HOUR, FiguresHistory
from agentrail.host.health.prometheus import MetricCalls
from agentrail.host.health.tree_feed import TreeFeed, Troubles, rows_query
from agentrail.host.operations.call import Answer, OperationCall
from agentrail.host.operations.host_operations import ACCEPTING
from agentrail.host.plugins.plugin_runner import HostPluginRow
from agentrail.host.profiles import Profile
from agentrail.ports.journal import Journal
from agentrail.runtime.diagnosis.figures import Figures
from agentrail.runtime.diagnosis.session_listener import SessionListener
from agentrail.runtime.shared.code_loops import bind_function
from agentrail.runtime.shared.untrusted_calls import Contained
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.untrusted_values import brief

TICK: Final = 0.5
"""Seconds between two measurements of how late the loop is."""

TICKS: Final = 20
"""Measurements that count: those of the last ten seconds."""


class LoopLag:
    """Measures how late the loop wakes a task that wants to be woken."""

    def __init__(self) -> None:
        self._late: deque[float] = deque([0.0], TICKS)
        self.when_measured: Callable[[float], None] = lambda _: None
        """Called with each measurement, in seconds."""

    @property
    def worst(self) -> float:
        """The longest delay of a wake-up in the last ten seconds, in seconds."""
        return max(self._late)

    async def measure(self) -> None:
        """Body of the task that measures, until it is cancelled."""
        while True:
            due = trio.current_time() + TICK
            await trio.sleep_until(due)
            late = trio.current_time() - due
            self._late.append(late)
            self.when_measured(late)


class HeldChanges(SessionListener):
    """The next change of what waits for people, of each tenant for whom somebody waits."""

    def __init__(self) -> None:
        self._next: WeakValueDictionary[str, trio.Event] = WeakValueDictionary()

    def following(self, tenant: str) -> trio.Event:
        """Return what is set by the next change in a session of *tenant* that runs here.

        It is asked for before a look: a change during the look is not missed.
        """
        event = self._next.get(tenant)
        if event is None:
            event = self._next[tenant] = trio.Event()
        return event

    def waiting_changed(self, session_id: str) -> None:
        """Wake those who wait for a change in the tenant of a session."""
        name = read_internal(session_id)
        event = None if name is None else self._next.pop(name.tenant, None)
        if event is not None:
            event.set()


@frozen
class HealthParts:
    """What watches the sessions of a host."""

    figures: Figures
    """Counts what all sessions do."""
    metrics: MetricCalls
    """Shows the figures as they are now."""
    troubles: Troubles
    """Keeps what went wrong of late."""
    tree: TreeFeed
    """Tells which rows of the tree have changed."""
    held_changes: HeldChanges
    """Tells when other calls wait for people."""
    history: FiguresHistory
    """Keeps the figures of the last hours."""
    lag: LoopLag
    """Measures how late the event loop is."""

    @property
    def when_erased(self) -> tuple[Callable[[str], None], ...]:
        """What forgets a session whose records or texts are erased."""
        return self.troubles.erase, self.history.erase, self.held_changes.waiting_changed

    @classmethod
    @contextmanager
    def watching(cls, supervisor: Supervisor, host: str = "") -> Generator[Self]:
        """Watch the sessions of *supervisor* as long as this is open; *host* is the address of one of several."""
        figures, troubles = supervisor.figures(METRIC_TENANTS), Troubles()
        tree = TreeFeed(rows_of(supervisor), troubles, CHANGES_SECONDS, host)
        history = FiguresHistory(lambda: figures.now_ms, figures.tell, figures.tell_no_more)
        lag = LoopLag()
        held_changes = HeldChanges()
        lag.when_measured = history.lagged
        with figures.telling(troubles, tree, held_changes):
            try:
                yield cls(figures, MetricCalls(figures), troubles, tree, held_changes, history, lag)
            finally:
                history.end()


SERIES: Final = 10
"""How many series are shown, unless the caller says."""

MOST_SERIES: Final = 100
"""The most series that are shown."""


class WatchCalls:
    """Carries out the calls that show the sessions of a tenant as rows, what went wrong in them, and their figures."""

    def __init__(self, health: HealthParts) -> None:
        self._health = health

    async def rows(self, call: OperationCall) -> Answer:
        """Show the sessions of the tenant that run here, one row each."""
        async with self._health.tree.listening(call.who.tenant, rows_query(call)) as listener:
            return call.view_answer(listener.rows)

    async def trouble(self, call: OperationCall) -> Answer:
        """List what went wrong in the sessions of the tenant, the newest first."""
        query = call.query(TroubleQuery)
        await trio.lowlevel.checkpoint()
        since = self._health.figures.now_ms - HOUR if query.since_ms is None else query.since_ms
        limit = page_of(query.limit)
        newest = self._health.troubles.newest_first(call.who.tenant)
        troubles = tuple(islice(takewhile(lambda trouble: trouble.at_ms >= since, newest), limit + 1))
        return call.view_answer(TroublesView(troubles[:limit], more=len(troubles) > limit))

    async def figures(self, call: OperationCall) -> Answer:
        """Show figures over time: of the user's tenant, or of all and of the host if the user may operate it."""
        query, who = call.query(FiguresQuery), call.who
        since, until = query.since_ms, query.until_ms
        if since is not None and until is not None and since > until:
            raise UsageError("bad-query", call.row.name, "its `since_ms`", "is after its `until_ms`")
        # ids of sessions are of one tenant alone: `operate` shows figures of others, and nothing else of them
        everybody = OPERATE in who.scopes and query.per != "session"
        tenant = None if everybody else who.tenant
        limit = series_limit(query)
        return call.view_answer(await self._health.history.view(query.per, tenant, since, until, limit))


def series_limit(query: FiguresQuery) -> int:
    """Return how many series are shown that *query* asks for."""
    return min(query.limit or SERIES, MOST_SERIES)


log: Final = logging.getLogger("agentrail.host")

HostCheck: TypeAlias = Callable[[], Awaitable[object] | object]
"""A function that says whether something is as it should be: it raises or returns `False` if not. It may be async."""

HostChecks: TypeAlias = Mapping[str, HostCheck]
"""Checks by their names."""

NO_CHECKS: Final[HostChecks] = MappingProxyType({})

FRESH: Final = 1.0
"""Seconds for which the result of a check is used again: whoever asks more often costs nothing."""

PROBE: Final = "agentrail.readyz"
"""Session that the check of the journal claims, which writes; it never gets a record, so no list has it."""

CHECKS_WANTED: Final = (
    "functions by names of lower-case letters, digits and `-`, other than those of the host's own checks"
)

_NAME: Final = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)
PROFILES: Final = "profiles"
"""Name of the check whether sessions of all profiles can start."""

OWN: Final = ("journal", "disk", "loop", "plugins", PROFILES, ACCEPTING)


async def check_usable(journal: Journal, seconds: float) -> None:
    """Raise `JournalUnusable` if *journal* cannot be opened; a passing cause, such as a full disk, does not count."""
    with trio.move_on_after(seconds):
        try:
            await journal.claim(PROBE, PROBE)
        except JournalUnusable:
            raise
        except JournalReadOnly:
            return
        except JournalError as passing:
            log.warning("the journal cannot be written now: %s", passing)


def check_checks(value: object) -> None:
    """Raise `WrongType` if *value*, the program's `checks` for its host, is not functions by name."""
    if not isinstance(value, Mapping):
        raise WrongType.of("checks", value, CHECKS_WANTED)
    for name, check in cast("Mapping[object, object]", value).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in OWN or not callable(check):
            raise WrongType("checks", f"{brief(check)} as {brief(name)}", CHECKS_WANTED)


class Looking:
    """One run of a check."""

    def __init__(self) -> None:
        self.is_ok = False
        self.over = trio.Event()


class Probe:
    """One check. It is never carried out twice at once: callers share the run under way, even one that hangs."""

    def __init__(self, name: str, check: HostCheck, nursery: trio.Nursery, seconds: float) -> None:
        self._name = name
        self._check = bind_function(check)
        self._nursery = nursery
        self._seconds = seconds
        self._under_way: Looking | None = None
        self._last: CheckView | None = None
        self._until = 0.0

    async def look(self) -> CheckView:
        """Return the result of the check; a result from the last second is used again."""
        began = trio.current_time()
        if self._last is not None and began < self._until:
            await trio.lowlevel.checkpoint()
            return self._last
        if self._under_way is None:
            self._under_way = Looking()
            self._nursery.start_soon(self._carry_out, self._under_way)
        looking = self._under_way
        with trio.move_on_after(self._seconds):
            await looking.over.wait()
        self._last = CheckView(self._name, looking.is_ok, round((trio.current_time() - began) * 1000, 1))
        self._until = trio.current_time() + FRESH
        return self._last

    async def _carry_out(self, looking: Looking) -> None:
        failed: list[BaseException] = []
        with trio.move_on_after(self._seconds) as scope, Contained(failed.append):
            result = self._check()
            if isinstance(result, Awaitable):
                result = await cast("Awaitable[object]", result)
            looking.is_ok = result is not False and not scope.cancel_called
        self._under_way = None
        looking.over.set()


class Readiness:
    """The checks of a host, its own and those of the program."""

    def __init__(
        self,
        journal: Journal,
        health: HealthParts,
        row: HostPluginRow,
        checks: HostChecks,
        limits: HostLimits,
        nursery: trio.Nursery,
    ) -> None:
        # The disk is that of the journal's file; for a journal without a file, that of the working directory.
        folder = Path(str(getattr(journal, "path", "."))).absolute().parent

        async def can_write() -> bool:
            try:
                await journal.claim(PROBE, PROBE)
            except JournalReadOnly:  # nothing is to be written to it, so it is enough that it can be read
                await journal.sessions(limit=1)
            # a small write, such as a claim, may succeed on a disk that has no room for a record
            return not health.figures.is_failing

        async def has_space() -> bool:
            usage = await trio.to_thread.run_sync(shutil.disk_usage, folder, abandon_on_cancel=True)
            return usage.free >= limits.free_bytes

        own_checks: HostChecks = {
            "journal": can_write,
            "disk": has_space,
            "loop": lambda: health.lag.worst <= limits.loop_lag_seconds,
            "plugins": lambda: row.is_well(trio.current_time()),
        }
        self._probes = [
            Probe(name, check, nursery, limits.check_seconds) for name, check in {**own_checks, **checks}.items()
        ]

    async def look(self) -> tuple[CheckView, ...]:
        """Carry out all checks concurrently; return their results."""
        views: dict[int, CheckView] = {}

        async def look(index: int, probe: Probe) -> None:
            views[index] = await probe.look()

        async with trio.open_nursery() as nursery:  # noqa: TID251 - each look is bounded in time
            for index, probe in enumerate(self._probes):
                nursery.start_soon(look, index, probe)
        return tuple([views[index] for index in range(len(self._probes))])


def check_models(profiles: Iterable[Profile]) -> None:
    """Raise `BadProfile` if a model of *profiles* has no known provider; log a warning if its key is missing.

    Models that a session may only be switched to are never an error, only a warning: the profile can do without them. A
    specification that a function builds is checked when a request has it built.
    """
    for profile in profiles:
        checked: set[str] = set()
        for name, options in _named_in(profile):
            try:
                check_set_up(name, options)
            except (UnknownModel, KeyMissing, BadModelOptions) as problem:
                if isinstance(problem, UnknownModel) and name not in profile.models:
                    raise BadProfile(profile.id, str(problem)) from problem
                if name not in checked:
                    log.warning("the profile `%s` cannot use its model `%s`: %s", profile.id, name, problem)
                checked.add(name)


def _named_in(profile: Profile) -> Iterator[tuple[str, JsonObject]]:
    """Return the models that *profile* names, each with its options."""
    if isinstance(profile.spec, SessionSpec):
        yield from _of_spec(profile.spec)
    for name in profile.models:
        yield name, EMPTY


def _of_spec(spec: SessionSpec) -> Iterator[tuple[str, JsonObject]]:
    for agent in agents_of(spec).values():
        for model, options in chain_of(agent.model, agent.model_options) if agent.model else ():  # else another's
            if isinstance(model, str):
                yield model, options
    for agent in spec.agents.values():
        yield from _of_spec(agent)
