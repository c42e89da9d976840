"""`FiguresHistory`: what sessions did and used in each of the last minutes: one table of sums, of bounded size.

It is told of the same steps as the metrics, and adds them up by tenant, session, model and tool. When nobody has looked
for an hour, it listens no more, and begins anew at the next look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import trio

from agentrail.api.public_ids import is_within, visible
from agentrail.api.views import FigureBucketView, FiguresView, HostBucketView, LatencyView, SeriesView
from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.state import State
from agentrail.runtime.diagnosis.figures import ABORTED, MILLISECONDS, REST
from agentrail.runtime.diagnosis.session_listener import Duration, SessionListener
from agentrail.runtime.inbox.replies import held_calls
from agentrail.values import events as e
from agentrail.values.newest import Newest
from agentrail.values.usage import Usage

Kind: TypeAlias = Literal["tenant", "session", "model", "tool", "host"]
"""What figures are counted by; those of the host are in one row of their own."""

MINUTE: Final = 60_000
"""Milliseconds of a bucket."""

HOUR: Final = 60 * MINUTE

KEPT: Final = 180
"""How many buckets are kept: three hours."""

NAMES: Final = 32
"""How many names of each kind one bucket counts, and of how many tenants the rest."""

NAME: Final = 200
"""The most characters of a name."""

POINTS: Final = 120
"""The most points of a series; of a longer time, several buckets are one point."""

AT_ONCE: Final = 20
"""How many buckets are added up without a pass of the scheduler."""

DIGITS: Final = 6

ENDS: Final = "ended: "
"""How the names of columns begin that count turns by how they have ended."""

TIMES: Final[Mapping[str, tuple[str, str, str]]] = MappingProxyType(
    {
        what: (f"{what} count", f"{what} seconds", f"{what} longest")
        for what in ("turn", "first_word", "tool", "abort", "person", "commit", "lag")
    }
)
"""The columns of each time: how often it was, how long in all, and the longest."""

LARGEST: Final = frozenset(longest for _, _, longest in TIMES.values())
"""Columns of which the largest value counts; those of all others are added up."""

Row: TypeAlias = dict[str, float]
"""Figures by the names of their columns; one that is not there is 0."""


RowKey: TypeAlias = tuple[Kind, str, str]
"""What a row is of: its kind, its tenant and its name."""


class Bucket:
    """The rows of one minute."""

    __slots__ = ("_names", "rows")

    def __init__(self) -> None:
        self.rows: dict[RowKey, Row] = {}
        self._names = Counter[tuple[Kind, bool]]()
        """Numbers of rows by kind, and whether they are of the rest of a tenant."""

    def of(self, kind: Kind, tenant: str, name: str) -> Row:
        """Return the row of *name*; if there are too many of its kind, that of the rest of its tenant."""
        for row_name in (name[:NAME], REST):
            key = kind, tenant, row_name
            row = self.rows.get(key)
            if row is not None:
                return row
            if self._names[kind, not row_name] < NAMES:
                self._names[kind, not row_name] += 1
                return self.rows.setdefault(key, {})
        return self.rows.setdefault((kind, REST, REST), {})


_COUNTED: Final = frozenset[type[e.Event]](
    (e.AgentAbort, e.AgentEnd, e.ApprovalResolved, e.ToolExecutionEnd, e.ToolExecutionMetrics, e.UserResponded)
)
"""Events that are counted: most are others, and are not asked about one class after the other."""


class FiguresHistory(SessionListener):
    """Figures of the last hours, minute by minute."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        listen: Callable[[SessionListener], None],
        leave: Callable[[SessionListener], None],
    ) -> None:
        """Begin to count; *listen* and *leave* have the sessions tell it of their steps, and no more."""
        self._now_ms = now_ms
        self._listen = listen
        self._leave = leave
        self._buckets = Newest[int, Bucket](KEPT)
        """By when they begin, the oldest first."""
        self._is_counting = False
        self._looked_ms = self._began_ms = 0
        self._begin()

    def _begin(self) -> None:
        """Note that somebody looks, and count from now on."""
        self._looked_ms = self._now_ms()
        if not self._is_counting:
            self._is_counting, self._began_ms = True, self._looked_ms
            self._listen(self)

    def end(self) -> None:
        """Count no more, and forget all; no-op if nothing is counted."""
        if self._is_counting:
            self._is_counting = False
            self._leave(self)
            self._buckets.clear()

    def _bucket(self) -> Bucket:
        """Return the bucket of this minute."""
        start = self._now_ms() // MINUTE * MINUTE
        bucket = self._buckets.get(start)
        if bucket is None:
            last = next(reversed(self._buckets), start)
            if last > start:  # a clock that was set back goes on in the last one
                return self._buckets[last]
            bucket = self._buckets[start] = Bucket()
        return bucket

    def _add(self, sums: Row, tenant: str, *names: tuple[Kind, str]) -> None:
        """Add *sums* to the row of *tenant* itself, and to those of the *names*, each with its kind."""
        bucket = self._bucket()
        _merge(bucket.of("tenant", tenant, tenant), sums)
        for kind, name in names:
            _merge(bucket.of(kind, tenant, name), sums)

    def _end_turn(self, state: State, how: str) -> None:
        self._add({ENDS + how: 1}, state.setup.tenant, ("session", state.session_id), ("model", state.using[0]))

    # Called by sessions

    def used(self, state: State, model: str, usage: Usage) -> None:
        """Count a response."""
        sums: Row = {
            "responses": 1,
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cached": usage.cached_tokens,
            "cost": usage.cost_usd or 0.0,
            "unpriced": usage.spent_usd is None,
        }
        self._add(sums, state.setup.tenant, ("session", state.session_id), ("model", model))

    def took(self, state: State, duration: Duration, seconds: float) -> None:
        """Count how long something took; not by session, which has few of each."""
        self._add(_time(duration, seconds), state.setup.tenant, ("model", state.using[0]))

    def stepped(self, old: State, outcome: Step) -> None:
        """Count ends of turns and of calls, and how long calls have waited for people."""
        tenant = old.setup.tenant
        for envelope in outcome.events:
            if type(envelope.event) not in _COUNTED:
                continue
            match envelope.event:
                case e.AgentEnd(reason=how):
                    self._end_turn(old, how)
                case e.AgentAbort(ref=str()):
                    self._end_turn(old, ABORTED)
                case e.ToolExecutionMetrics(name=tool, duration_ms=took):
                    self._add(_time("tool", took / MILLISECONDS), tenant, ("tool", tool))
                case e.ToolExecutionEnd(name=tool, is_error=True):
                    self._add({"errors": 1}, tenant, ("tool", tool))
                case e.ApprovalResolved(approval_id=waits) | e.UserResponded(ref=waits):
                    for call in held_calls(old):
                        if call.id == waits and call.since:
                            seconds = (self._now_ms() - call.since) / MILLISECONDS
                            self._add(_time("person", seconds), tenant, ("tool", call.tool))
                case _:
                    pass

    def committed(self, seconds: float) -> None:
        """Count a commit."""
        _merge(self._bucket().of("host", REST, REST), _time("commit", seconds))

    # Called by the host

    def lagged(self, seconds: float) -> None:
        """Note how late the event loop was; count no more if nobody has looked for an hour."""
        if self._now_ms() - self._looked_ms > HOUR:
            self.end()
        elif self._is_counting:
            _merge(self._bucket().of("host", REST, REST), _time("lag", seconds))

    def erase(self, session_id: str) -> None:
        """Forget the figures of a session and its sub-agents by name, because the session or its texts are erased."""
        for bucket in self._buckets.values():
            for key in [key for key in bucket.rows if key[0] == "session" and is_within(key[2], session_id)]:
                del bucket.rows[key]

    # Looking

    async def view(self, per: Kind, tenant: str | None, since: int | None, until: int | None, most: int) -> FiguresView:
        """Return the series of a kind, those that cost most; *tenant* is whose, `None`: everybody's and the host's."""
        self._begin()
        now = self._now_ms()
        until = now if until is None else until
        since = until - HOUR if since is None else since
        kept_since = max(self._began_ms, now - KEPT * MINUTE)
        step = MINUTE * max(1, -(-(min(until, now) - max(since, kept_since)) // (MINUTE * POINTS)))
        points: dict[str, dict[int, Row]] = {}
        host: dict[int, Row] = {}
        buckets = [(start, bucket) for start, bucket in self._buckets.items() if since - MINUTE < start <= until]
        for number, (start, bucket) in enumerate(buckets, 1):
            start_ms = start // step * step
            for (kind, whose, name), row in bucket.rows.items():
                if kind == per and tenant in {None, whose}:
                    _merge(points.setdefault(name, {}).setdefault(start_ms, {}), row)
                elif kind == "host" and tenant is None:
                    _merge(host.setdefault(start_ms, {}), row)
            if not number % AT_ONCE:
                await trio.lowlevel.checkpoint()
        names = sorted(points, key=lambda name: (_rank(points[name]), name), reverse=True)
        return FiguresView(
            since_ms=since,
            until_ms=until,
            kept_since_ms=kept_since,
            bucket_ms=step,
            per=per,
            series=tuple([_series_view(per, name, points[name]) for name in names[:most]]),
            more=max(0, len(names) - most),
            host=tuple(
                [
                    HostBucketView(start_ms, _latency(row, "commit"), _rounded(row, "lag longest"))
                    for start_ms, row in host.items()
                ]
            ),
        )


def _time(what: str, seconds: float) -> Row:
    """Return the columns of one time."""
    count, total, longest = TIMES[what]
    return {count: 1, total: seconds, longest: seconds}


def _merge(into: Row, row: Row) -> None:
    """Add the figures of *row* to those of *into*."""
    for column, figure in row.items():
        old = into.get(column, 0)  # small whole numbers take no room of their own
        into[column] = max(old, figure) if column in LARGEST else old + figure


def _rank(rows: Mapping[int, Row]) -> tuple[float, float, float]:
    """Return what series are sorted by: those that cost most come first, then those that do most."""
    row: Row = {}
    for point in rows.values():
        _merge(row, point)
    tokens = [row.get(column, 0) for column in ("input", "output", "cached")]
    return row.get("cost", 0), sum(tokens), row.get("tool count", 0) + sum(_ends(row).values())


def _ends(row: Row) -> dict[str, int]:
    return {column.removeprefix(ENDS): int(figure) for column, figure in row.items() if column.startswith(ENDS)}


def _rounded(row: Row, column: str) -> float:
    return round(row.get(column, 0.0), DIGITS)


def _latency(row: Row, what: str) -> LatencyView | None:
    count, total, longest = (row.get(column, 0) for column in TIMES[what])
    return LatencyView(int(count), round(total / count, DIGITS), round(longest, DIGITS)) if count else None


def _series_view(per: Kind, name: str, points: Mapping[int, Row]) -> SeriesView:
    buckets = tuple([_point(start_ms, row) for start_ms, row in sorted(points.items())])
    return SeriesView(visible(name) if per == "session" else name, buckets)


def _point(start_ms: int, row: Row) -> FigureBucketView:
    """Return a row as a point of a plot."""
    columns = ("responses", "input", "output", "cached", "unpriced", "errors")
    responses, tokens_in, tokens_out, cached, unpriced, errors = (int(row.get(column, 0)) for column in columns)
    return FigureBucketView(
        at_ms=start_ms,
        cost_usd=_rounded(row, "cost"),
        unpriced=unpriced,
        responses=responses,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cached_tokens=cached,
        cached_share=round(cached / tokens_in, DIGITS) if tokens_in else None,
        turns=_ends(row),
        tool_errors=errors,
        turn=_latency(row, "turn"),
        first_word=_latency(row, "first_word"),
        tool=_latency(row, "tool"),
        abort=_latency(row, "abort"),
        person=_latency(row, "person"),
    )
