"""What several hosts say of their sessions, as if one had them all: views by address of a host are merged.

`merge_metrics`: the figures of several hosts as one Prometheus text, in which the label `host` is whose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias, TypeVar

from agentrail.api.views import (
    ChildShown,
    FigureBucketView,
    FiguresView,
    HostBucketView,
    LatencyView,
    RowsView,
    SeriesView,
    TroublesView,
)

Missing: TypeAlias = tuple[str, ...]
"""Addresses of hosts that have not answered."""

DIGITS: Final = 6

B = TypeVar("B", FigureBucketView, HostBucketView)


def merge_trees(trees: Mapping[str, ChildShown], missing: Missing) -> ChildShown:
    """Return the sessions of all hosts as children of one supervisor; a host that is missing is one that is down."""
    root = next(iter(trees.values()))
    sessions = [child.but(host=child.host or host) for host, tree in trees.items() for child in tree.children]
    down = [root.but(name=host, host=host, state="down", children=()) for host in missing]
    return root.but(children=(*sessions, *down))


def merge_rows(views: Mapping[str, RowsView], missing: Missing, most: int) -> RowsView:
    """Return the rows of all hosts, at most as many as are asked for."""
    rows = [row.but(host=row.host or host) for host, view in views.items() for row in view.items]
    matching, total = sum(view.matching for view in views.values()), sum(view.total for view in views.values())
    return RowsView(tuple(rows[:most]), matching, total, missing)


def merge_troubles(views: Mapping[str, TroublesView], missing: Missing, most: int) -> TroublesView:
    """Return what went wrong at all hosts, the newest first."""
    troubles = sorted((row for view in views.values() for row in view.items), key=lambda row: row.at_ms, reverse=True)
    more = len(troubles) > most or any(view.more for view in views.values())
    return TroublesView(tuple(troubles[:most]), more, missing)


def merge_figures(views: Mapping[str, FiguresView], missing: Missing, most: int) -> FiguresView:
    """Return the figures of all hosts together; those of one that began later have longer stretches."""
    first, step = next(iter(views.values())), max(view.bucket_ms for view in views.values())
    buckets_by_name: dict[str, list[FigureBucketView]] = {}
    for view in views.values():
        for row in view.series:
            buckets_by_name.setdefault(row.name, []).extend(row.buckets)
    series = [
        SeriesView(name, tuple([_merge_bucket(at, same) for at, same in _by_time(buckets, step)]))
        for name, buckets in buckets_by_name.items()
    ]
    series.sort(key=_rank, reverse=True)
    host_buckets = [bucket for view in views.values() for bucket in view.host]
    return FiguresView(
        since_ms=min(view.since_ms for view in views.values()),
        until_ms=max(view.until_ms for view in views.values()),
        kept_since_ms=min(view.kept_since_ms for view in views.values()),
        bucket_ms=step,
        per=first.per,
        series=tuple(series[:most]),
        more=max(view.more for view in views.values()) + max(0, len(series) - most),
        host=tuple([_merge_host_bucket(at, same) for at, same in _by_time(host_buckets, step)]),
        missing=missing,
    )


def _rank(series: SeriesView) -> tuple[float, int, int, str]:
    """Return what series are sorted by, as on one host."""
    buckets = series.buckets
    cost = sum(bucket.cost_usd for bucket in buckets)
    tokens = sum(bucket.input_tokens + bucket.output_tokens + bucket.cached_tokens for bucket in buckets)
    calls = sum(0 if bucket.tool is None else bucket.tool.count for bucket in buckets)
    return cost, tokens, calls + sum(sum(bucket.turns.values()) for bucket in buckets), series.name


def _by_time(buckets: Iterable[B], step: int) -> Iterator[tuple[int, list[B]]]:
    """Yield when each stretch of *step* milliseconds begins, and the buckets in it, in the order of time."""
    by_time: dict[int, list[B]] = {}
    for bucket in buckets:
        by_time.setdefault(bucket.at_ms // step * step, []).append(bucket)
    yield from sorted(by_time.items())


def _merge_bucket(at_ms: int, buckets: list[FigureBucketView]) -> FigureBucketView:
    turns = Counter[str]()
    for bucket in buckets:
        turns.update(bucket.turns)
    input_tokens = sum(bucket.input_tokens for bucket in buckets)
    cached_tokens = sum(bucket.cached_tokens for bucket in buckets)
    return FigureBucketView(
        at_ms=at_ms,
        cost_usd=round(sum(bucket.cost_usd for bucket in buckets), DIGITS),
        unpriced=sum(bucket.unpriced for bucket in buckets),
        responses=sum(bucket.responses for bucket in buckets),
        input_tokens=input_tokens,
        output_tokens=sum(bucket.output_tokens for bucket in buckets),
        cached_tokens=cached_tokens,
        cached_share=round(cached_tokens / input_tokens, DIGITS) if input_tokens else None,
        turns=turns,
        tool_errors=sum(bucket.tool_errors for bucket in buckets),
        turn=_merge_latency(bucket.turn for bucket in buckets),
        first_word=_merge_latency(bucket.first_word for bucket in buckets),
        tool=_merge_latency(bucket.tool for bucket in buckets),
        abort=_merge_latency(bucket.abort for bucket in buckets),
        person=_merge_latency(bucket.person for bucket in buckets),
    )


def _merge_host_bucket(at_ms: int, buckets: list[HostBucketView]) -> HostBucketView:
    commit = _merge_latency(bucket.commit for bucket in buckets)
    return HostBucketView(at_ms, commit, max(bucket.loop_lag_s for bucket in buckets))


def _merge_latency(latencies: Iterable[LatencyView | None]) -> LatencyView | None:
    """Return times of several hosts together."""
    measured = [latency for latency in latencies if latency is not None]
    count = sum(latency.count for latency in measured)
    if not count:
        return None
    return LatencyView(
        count,
        round(sum(latency.mean_s * latency.count for latency in measured) / count, DIGITS),
        max(latency.longest_s for latency in measured),
    )


HELP: Final = "# HELP "
COMMENT: Final = "#"
UP: Final = """\
# HELP agentrail_host_up Whether a host of the cluster has told its figures in time.
# TYPE agentrail_host_up gauge
"""


def merge_metrics(texts: Mapping[str, str], missing: Missing) -> str:
    """Return the figures of all hosts: what is of one metric stays together, as the format demands."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for host, text in texts.items():
        name = ""
        for line in text.splitlines():
            if line.startswith(COMMENT):
                if line.startswith(HELP):
                    name = line.removeprefix(HELP).partition(" ")[0]
                if line not in heads.setdefault(name, []):
                    heads[name].append(line)
            else:
                samples.setdefault(name, []).append(_with_host(line, host))
    up = "".join([f'agentrail_host_up{{host="{host}"}} {int(host in texts)}\n' for host in sorted({*texts, *missing})])
    lines = [line for name, head in heads.items() for line in (*head, *samples.get(name, ()))]
    return "".join([f"{line}\n" for line in lines]) + UP + up


def _with_host(line: str, host: str) -> str:
    """Return a sample with the label; an address has no character that the format escapes."""
    name, brace, rest = line.partition("{")
    if brace and " " not in name:
        return f'{name}{{host="{host}",{rest}'
    name, _, figure = line.partition(" ")
    return f'{name}{{host="{host}"}} {figure}'
