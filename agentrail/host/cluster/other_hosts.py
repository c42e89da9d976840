"""`OtherHosts`: asks all hosts of the cluster, for what each knows of its own sessions alone.

What stands in the journal needs none of this: lists of sessions, and conversations. What the hosts say is merged, as if
one had all sessions; of figures as Prometheus text, the label `host` says whose they are.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeAlias, TypeVar, cast

import trio
from attrs import evolve

from agentrail.api.bodies import FiguresQuery, PageQuery, RowsQuery, TroubleQuery
from agentrail.api.limits import VIEW_SECONDS, page_of
from agentrail.api.views import (
    ApprovalsView,
    ChildShown,
    DetailView,
    FigureBucketView,
    FiguresView,
    HostBucketView,
    LatencyView,
    RowsView,
    SeriesView,
    TasksView,
    TroublesView,
    View,
)
from agentrail.codec.values import read_of_host
from agentrail.errors import BadData, ClusterFault
from agentrail.host.authentication.identity import ForwardedIdentity, Identity
from agentrail.host.cluster.forwarding import MAX_HOPS, UNFIT, Forwarding
from agentrail.host.cluster.holder_connection import HolderGoneError
from agentrail.host.health.health_parts import series_limit
from agentrail.host.health.tree_feed import TreeListener
from agentrail.host.operations.call import Answer, CallFunction, OperationCall, Shown, ShownText
from agentrail.host.operations.session_calls import SEPARATOR

log = logging.getLogger("agentrail.host")

WITHIN: Final = 2.0
"""Seconds in which another host has to answer; one that does not is named as missing."""

V = TypeVar("V", bound=View)


class OtherAnswers(NamedTuple):
    """What other hosts have answered."""

    contents: Mapping[str, bytes]
    """Content of the answers, by the address of the host, in the order of the addresses."""
    missing: Missing
    """Addresses of those that have not answered in time."""


class OtherHosts:
    """Adds to the answers of the host at *address* what the *others* know, whose addresses that function returns."""

    def __init__(self, address: str, forwarding: Forwarding, others: Callable[[], frozenset[str]]) -> None:
        self._address = address
        self._forwarding = forwarding
        self._others = others
        self._faulty: set[str] = set()
        """Addresses of those that do not trust this host: each is logged once, until it answers."""

    def adding(self, functions: Mapping[str, CallFunction]) -> Mapping[str, CallFunction]:
        """Return the functions of calls, of which those that show sessions that run show those of all hosts."""
        more: Mapping[str, Callable[[CallFunction, OperationCall], Awaitable[Answer]]] = {
            "approvals": self._approvals,
            "show_session": self._show,
            "tasks": self._tasks,
            "tree": self._tree,
            "rows": self._rows,
            "trouble": self._trouble,
            "figures": self._figures,
            "metrics": self._metrics,
        }
        return {**functions, **{name: partial(add, functions[name]) for name, add in more.items()}}

    async def _approvals(self, function: CallFunction, call: OperationCall) -> Answer:
        """List what waits in the sessions of all hosts: what their sub-agents ask, only the host that runs them knows.

        A host that has more than a page may have more up to the end of its page alone: there this page ends too.
        """
        own_view, *others = views = await self._all_views(ApprovalsView, function, call)
        if not others:
            return call.view_answer(own_view)
        by_key = {(call.since, call.id): call for view in views for call in view.items}
        keys = sorted(by_key)[: page_of(call.query(PageQuery).limit)]
        more = [(view.items[-1].since, view.items[-1].id) for view in views if view.next is not None]
        if len(keys) < len(by_key):
            more.append(keys[-1])
        end = min(more, default=None)
        items = [by_key[key] for key in keys if end is None or key <= end]
        return call.view_answer(ApprovalsView(tuple(items), None if end is None else SEPARATOR.join(map(str, end))))

    async def _show(self, function: CallFunction, call: OperationCall) -> Answer:
        """Show a session with what it does, on whatever host that is."""
        own_view = _view(DetailView, await function(call))
        if own_view.status is None and not own_view.ended:
            others = await self._views_of_others(DetailView, call)
            return call.view_answer(next((other for other in others if other.status is not None), own_view))
        return call.view_answer(own_view)

    async def _tasks(self, function: CallFunction, call: OperationCall) -> Answer:
        """List the sub-agents of a session, also those that work on another host: the journal has only the others."""
        views = await self._all_views(TasksView, function, call)
        return call.view_answer(max(views, key=lambda view: len(view.items)))

    async def _tree(self, function: CallFunction, call: OperationCall) -> Answer:
        trees, missing = await self._views(ChildShown, function, call)
        return call.view_answer(merge_trees(trees, missing))

    async def _rows(self, function: CallFunction, call: OperationCall) -> Answer:
        most = page_of(call.query(RowsQuery).limit)
        return call.view_answer(merge_rows(*await self._views(RowsView, function, call), most))

    async def _trouble(self, function: CallFunction, call: OperationCall) -> Answer:
        most = page_of(call.query(TroubleQuery).limit)
        return call.view_answer(merge_troubles(*await self._views(TroublesView, function, call), most))

    async def _figures(self, function: CallFunction, call: OperationCall) -> Answer:
        most = series_limit(call.query(FiguresQuery))
        return call.view_answer(merge_figures(*await self._views(FiguresView, function, call), most))

    async def _metrics(self, function: CallFunction, call: OperationCall) -> Answer:
        answer = await function(call)
        if _is_of_host(call.who) or not isinstance(answer, ShownText):
            return answer
        others = await self.ask(call)
        texts = {host: content.decode(errors="replace") for host, content in others.contents.items()}
        texts[self._address] = answer.text
        merged = merge_metrics({host: texts[host] for host in sorted(texts)}, others.missing)
        return ShownText(merged, answer.media_type)

    async def _views(
        self, cls: type[V], function: CallFunction, call: OperationCall
    ) -> tuple[Mapping[str, V], Missing]:
        """Return what all hosts show, by their address, and those that are missing."""
        own_view = _view(cls, await function(call))
        if _is_of_host(call.who):
            return {self._address: own_view}, ()
        others, missing = await self.views(cls, call)
        views = {self._address: own_view, **others}
        return {host: views[host] for host in sorted(views)}, missing

    async def views(self, cls: type[V], call: OperationCall) -> tuple[Mapping[str, V], Missing]:
        """Return what the other hosts show, by their address, and those that are missing.

        A host that shows something else, because its version of the program is another one, is missing.
        """
        contents, missing = await self.ask(call)
        views: dict[str, V] = {}
        for host, content in contents.items():
            try:
                views[host] = _decode(cls, content)
            except BadData:
                missing = (*missing, host)
        return views, tuple(sorted(missing))

    async def follow_rows(self, call: OperationCall, listener: TreeListener) -> None:
        """Body of a task: ask the other hosts for the rows of *call* again and again, and tell *listener*."""
        most = page_of(call.query(RowsQuery).limit)
        while True:
            listener.take_elsewhere(merge_rows(*await self.views(RowsView, call), most))
            await trio.sleep(VIEW_SECONDS)

    async def _all_views(self, cls: type[V], function: CallFunction, call: OperationCall) -> list[V]:
        """Return what this host shows, and then what the others show."""
        return [_view(cls, await function(call)), *await self._views_of_others(cls, call)]

    async def _views_of_others(self, cls: type[V], call: OperationCall) -> list[V]:
        """Return what the other hosts show; one that shows something else is left out, and logged."""
        views: list[V] = []
        for address, content in (await self.ask(call)).contents.items():
            try:
                views.append(_decode(cls, content))
            except BadData:
                self._note_fault(address, ClusterFault(UNFIT.format(address)))
        return views

    def _note_fault(self, address: str, error: ClusterFault) -> None:
        """Log what is wrong with the host at *address*, once until it answers again."""
        if address not in self._faulty:
            self._faulty.add(address)
            log.warning("%s", error)

    async def ask(self, call: OperationCall) -> OtherAnswers:
        """Return what the other hosts answer to *call*; nothing if it comes from one of them."""
        contents: dict[str, bytes] = {}
        if _is_of_host(call.who):
            return OtherAnswers(contents, ())
        who, others = call.who, sorted(self._others())
        passed = ForwardedIdentity(who.tenant, who.user, who.scopes, who.key, MAX_HOPS - 1)
        other_request = evolve(call, who=passed)

        async def ask(address: str) -> None:
            with trio.move_on_after(WITHIN):
                try:
                    connection = await self._forwarding.forward(address, other_request)
                    try:
                        if connection.status == call.row.status:
                            contents[address] = await connection.content()
                    finally:
                        await connection.close()  # noqa: ASYNC102 - it waits for nothing
                except HolderGoneError:
                    return
                except ClusterFault as error:
                    self._note_fault(address, error)

        async with trio.open_nursery() as nursery:  # noqa: TID251 - each task ends with its time
            for address in others:
                nursery.start_soon(ask, address)
        self._faulty -= contents.keys()
        missing = tuple([host for host in others if host not in contents])
        return OtherAnswers({host: contents[host] for host in others if host in contents}, missing)


def _is_of_host(who: Identity) -> bool:
    """Whether another host has passed a request of *who* on, which asks all hosts itself."""
    return isinstance(who, ForwardedIdentity) and who.hops > 0


def _view(_: type[V], answer: Answer) -> V:
    """Return what this host shows with *answer*, which is that of its own function."""
    return cast("V", cast("Shown", answer).value)


def _decode(cls: type[V], content: bytes) -> V:
    """Return what another host shows; raise `BadData` if that is something else."""
    return read_of_host(cls, content)


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
        SeriesView(name, tuple([_merge_bucket(start_ms, same) for start_ms, same in _by_time(buckets, step)]))
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
        host=tuple([_merge_host_bucket(start_ms, same) for start_ms, same in _by_time(host_buckets, step)]),
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
