"""`FiguresHistory`: what sessions did and used in each of the last minutes, in a ring of buckets of bounded size.

It is told of the same steps as the metrics, and counts each by tenant, session, model and tool. A bucket counts a
number of names of each kind; what comes later in its minute is counted together.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple, TypeAlias

import trio

from agentrail.api.figures_views import FigureBucketView, FiguresView, HostBucketView, LatencyView, SeriesView
from agentrail.api.public_ids import is_within, visible
from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.state import State
from agentrail.runtime.diagnosis.metrics import ABORTED, BOUNDS, MILLISECONDS, REST, TURN_BOUNDS, Spread
from agentrail.runtime.diagnosis.session_listener import Duration, SessionListener
from agentrail.runtime.inbox.replies import held_calls
from agentrail.values import events as e
from agentrail.values.usage import Usage

Kind: TypeAlias = Literal["tenant", "session", "model", "tool"]
"""What figures are counted by."""

MINUTE: Final = 60_000
"""Milliseconds of a bucket."""

HOUR: Final = 60 * MINUTE

KEPT: Final = 180
"""How many buckets are kept: three hours."""

NAMES: Final = 32
"""How many names of each kind one bucket counts, and of how many tenants the rest.

All buckets then have 4 MB if one tenant is busy all the time, and 55 MB if more than these are.
"""

NAME: Final = 200
"""The most characters of a name."""

POINTS: Final = 120
"""The most points of a series; of a longer time, several buckets are one point."""

AT_ONCE: Final = 20
"""How many buckets are added up without a pass of the scheduler."""

DIGITS: Final = 6

COUNTED: Final = frozenset(
    {
        e.AgentAbort,
        e.AgentEnd,
        e.ApprovalResolved,
        e.ToolExecutionEnd,
        e.ToolExecutionMetrics,
        e.UserResponded,
    }
)
"""Classes of the events that are counted: most events of a turn are others, and are passed over at once."""


class SeriesKey(NamedTuple):
    """What a series is of."""

    kind: Kind
    tenant: str
    name: str


class Series:
    """Figures of one tenant, session, model or tool, in one bucket."""

    __slots__ = (
        "aborts",
        "cost_usd",
        "errors",
        "first_words",
        "people",
        "tools",
        "turn_times",
        "turns",
        "unpriced",
        "used",
    )

    def __init__(self) -> None:
        self.used: list[int] = [0, 0, 0, 0]  # responses, and tokens: read, written, of the cache
        self.cost_usd = 0.0
        self.unpriced = 0
        self.errors = 0
        self.turns: Counter[str] | None = None
        self.turn_times: Spread | None = None
        self.first_words: Spread | None = None
        self.aborts: Spread | None = None
        self.tools: Spread | None = None
        self.people: Spread | None = None

    def use(self, usage: Usage) -> None:
        """Count the usage of a response."""
        figures = (1, usage.input_tokens, usage.output_tokens, usage.cached_tokens)
        self.used = [sum(pair) for pair in zip(self.used, figures, strict=True)]
        self.cost_usd += usage.cost_usd or 0.0
        self.unpriced += usage.cost_usd is None and not usage.is_nothing

    def end(self, how: str) -> None:
        """Count the end of a turn."""
        self.turns = self.turns or Counter()
        self.turns[how] += 1

    def take(self, duration: Duration | Literal["tool", "person"], seconds: float) -> None:
        """Count a time."""
        match duration:
            case "turn":
                self.turn_times = _with(self.turn_times, seconds, TURN_BOUNDS)
            case "first_word":
                self.first_words = _with(self.first_words, seconds, TURN_BOUNDS)
            case "tool":
                self.tools = _with(self.tools, seconds, TURN_BOUNDS)
            case "abort":
                self.aborts = _with(self.aborts, seconds, BOUNDS)
            case "person":
                self.people = _with(self.people, seconds, TURN_BOUNDS)

    def merge(self, other: Series) -> None:
        """Count what *other* has, too."""
        self.used = [sum(pair) for pair in zip(self.used, other.used, strict=True)]
        self.cost_usd += other.cost_usd
        self.unpriced += other.unpriced
        self.errors += other.errors
        if other.turns is not None:
            self.turns = (self.turns or Counter()) + other.turns
        self.turn_times = _merged(self.turn_times, other.turn_times)
        self.first_words = _merged(self.first_words, other.first_words)
        self.aborts = _merged(self.aborts, other.aborts)
        self.tools = _merged(self.tools, other.tools)
        self.people = _merged(self.people, other.people)

    @property
    def rank(self) -> tuple[float, int, int]:
        """What series are sorted by: those that cost most come first, then those that do most."""
        tools = 0 if self.tools is None else sum(self.tools.counts)
        return self.cost_usd, sum(self.used[1:]), tools + (0 if self.turns is None else self.turns.total())

    def view(self, at_ms: int) -> FigureBucketView:
        """Return the figures as a point of a plot."""
        responses, input_tokens, output_tokens, cached_tokens = self.used
        return FigureBucketView(
            at_ms=at_ms,
            cost_usd=round(self.cost_usd, DIGITS),
            unpriced=self.unpriced,
            responses=responses,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cached_tokens=cached_tokens,
            cached_share=round(cached_tokens / input_tokens, DIGITS) if input_tokens else None,
            turns=dict(self.turns or {}),
            tool_errors=self.errors,
            turn=_latency(self.turn_times),
            first_word=_latency(self.first_words),
            tool=_latency(self.tools),
            abort=_latency(self.aborts),
            person=_latency(self.people),
        )


def _with(spread: Spread | None, seconds: float, bounds: tuple[float, ...]) -> Spread:
    spread = Spread(bounds) if spread is None else spread
    spread.add(seconds)
    return spread


def _merged(mine: Spread | None, theirs: Spread | None) -> Spread | None:
    if theirs is None:
        return mine
    spread = Spread(theirs.bounds) if mine is None else mine
    spread.merge(theirs)
    return spread


def _latency(spread: Spread | None) -> LatencyView | None:
    if spread is None or not (count := sum(spread.counts)):
        return None
    return LatencyView(
        count,
        round(spread.total / count, DIGITS),
        round(spread.quantile(0.5), DIGITS),
        round(spread.quantile(0.95), DIGITS),
        round(spread.longest, DIGITS),
    )


class Bucket:
    """The figures of one minute."""

    __slots__ = ("_names", "commits", "lag", "series", "start_ms")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.series: dict[SeriesKey, Series] = {}
        self.commits = Spread()
        self.lag = 0.0
        self._names = Counter[tuple[Kind, bool]]()  # by kind, and whether they are of the rest of a tenant

    def of(self, kind: Kind, tenant: str, name: str) -> Series:
        """Return the figures of *name*; if the bucket has too many of its kind, those of the rest of its tenant."""
        for key in (SeriesKey(kind, tenant, name[:NAME]), SeriesKey(kind, tenant, REST)):
            series = self.series.get(key)
            if series is not None:
                return series
            if self._names[kind, not key.name] < NAMES:
                self._names[kind, not key.name] += 1
                series = self.series[key] = Series()
                return series
        return self.series.setdefault(SeriesKey(kind, REST, REST), Series())


class FiguresHistory(SessionListener):
    """Figures of the last hours, minute by minute."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._buckets: deque[Bucket] = deque(maxlen=KEPT)
        self._began_ms = now_ms()

    def _bucket(self) -> Bucket:
        """Return the bucket of this minute."""
        start = self._now_ms() // MINUTE * MINUTE
        if not self._buckets or self._buckets[-1].start_ms < start:  # a clock that was set back goes on in the last one
            self._buckets.append(Bucket(start))
        return self._buckets[-1]

    def _of(self, state: State, model: str) -> tuple[Series, ...]:
        """Return the figures of the tenant and the session of *state*, and of *model*."""
        bucket, tenant = self._bucket(), state.setup.tenant
        return (
            bucket.of("tenant", tenant, tenant),
            bucket.of("session", tenant, state.session_id),
            bucket.of("model", tenant, model),
        )

    # Called by sessions

    def used(self, state: State, model: str, usage: Usage) -> None:
        """Count a response."""
        for series in self._of(state, model):
            series.use(usage)

    def took(self, state: State, duration: Duration, seconds: float) -> None:
        """Count how long something took; not by session, which would take too much memory."""
        bucket, tenant = self._bucket(), state.setup.tenant
        bucket.of("tenant", tenant, tenant).take(duration, seconds)
        bucket.of("model", tenant, state.using[0]).take(duration, seconds)

    def stepped(self, before: State, outcome: Step) -> None:
        """Count ends of turns and of calls."""
        for envelope in outcome.events:
            if type(envelope.event) not in COUNTED:
                continue
            match envelope.event:
                case e.AgentEnd(stop_reason=how):
                    self._end(before, how)
                case e.AgentAbort(ref=str()):
                    self._end(before, ABORTED)
                case e.ToolExecutionMetrics(name=tool, duration_ms=took):
                    for series in self._of_call(before, tool):
                        series.take("tool", took / MILLISECONDS)
                case e.ToolExecutionEnd(name=tool, is_error=True):
                    for series in self._of_call(before, tool):
                        series.errors += 1
                case e.ApprovalResolved(approval_id=waits) | e.UserResponded(ref=waits):
                    self._decided(before, waits)
                case _:
                    pass

    def _decided(self, state: State, waits: str) -> None:
        """Count how long the call or question *waits* has waited for a person."""
        for call in held_calls(state):
            if call.id == waits and call.since:
                for series in self._of_call(state, call.tool):
                    series.take("person", (self._now_ms() - call.since) / MILLISECONDS)

    def _end(self, state: State, how: str) -> None:
        for series in self._of(state, state.using[0]):
            series.end(how)

    def _of_call(self, state: State, tool: str) -> tuple[Series, Series]:
        bucket, tenant = self._bucket(), state.setup.tenant
        return bucket.of("tenant", tenant, tenant), bucket.of("tool", tenant, tool)

    def committed(self, seconds: float) -> None:
        """Count a commit."""
        self._bucket().commits.add(seconds)

    # Called by the host

    def lagged(self, seconds: float) -> None:
        """Note how late the event loop was."""
        bucket = self._bucket()
        bucket.lag = max(bucket.lag, seconds)

    def erase(self, session_id: str) -> None:
        """Forget the figures of a session and its sub-agents by name, because the session or its texts are erased."""
        for bucket in self._buckets:
            for key in [key for key in bucket.series if key.kind == "session" and is_within(key.name, session_id)]:
                del bucket.series[key]

    # Looking

    @property
    def _kept_since(self) -> int:
        return max(self._began_ms, self._now_ms() - KEPT * MINUTE)

    async def view(self, per: Kind, tenant: str | None, since: int | None, until: int | None, most: int) -> FiguresView:
        """Return the series of a kind, those that cost most; *tenant* is whose, `None`: everybody's and the host's."""
        until = self._now_ms() if until is None else until
        since = until - HOUR if since is None else since
        buckets = [bucket for bucket in self._buckets if since - MINUTE < bucket.start_ms <= until]
        step = MINUTE * max(1, -(-(min(until, self._now_ms()) - max(since, self._kept_since)) // (MINUTE * POINTS)))
        points: dict[str, dict[int, Series]] = {}
        totals: dict[str, Series] = {}
        for place, bucket in enumerate(buckets, 1):
            at = bucket.start_ms // step * step
            for key, series in bucket.series.items():
                if key.kind == per and tenant in {None, key.tenant}:
                    totals.setdefault(key.name, Series()).merge(series)
                    points.setdefault(key.name, {}).setdefault(at, Series()).merge(series)
            if not place % AT_ONCE:
                await trio.lowlevel.checkpoint()
        names = sorted(totals, key=lambda name: (totals[name].rank, name), reverse=True)
        return FiguresView(
            since_ms=since,
            until_ms=until,
            kept_since_ms=self._kept_since,
            bucket_ms=step,
            per=per,
            series=tuple([_series_view(per, name, points[name]) for name in names[:most]]),
            more=max(0, len(names) - most),
            host=_host_views(buckets, step) if tenant is None else (),
        )


def _series_view(per: Kind, name: str, points: dict[int, Series]) -> SeriesView:
    return SeriesView(
        visible(name) if per == "session" else name, tuple([series.view(at) for at, series in sorted(points.items())])
    )


def _host_views(buckets: Iterable[Bucket], step: int) -> tuple[HostBucketView, ...]:
    commits: dict[int, Spread] = {}
    late: dict[int, float] = {}
    for bucket in buckets:
        at = bucket.start_ms // step * step
        commits.setdefault(at, Spread()).merge(bucket.commits)
        late[at] = max(late.get(at, 0.0), bucket.lag)
    return tuple([HostBucketView(at, _latency(spread), round(late[at], DIGITS)) for at, spread in commits.items()])
