"""The call `metrics`: the figures of the sessions and of the host, as Prometheus text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import trio

from agentrail.host.access.identity import Identity
from agentrail.host.answering.call_request import NO_STORE, CallRequest
from agentrail.host.health.metric_families import FAMILIES, MetricFamily, Sample, head, histogram_lines, lines
from agentrail.host.health.request_figures import RequestFigures, resident_bytes
from agentrail.host.http11.http_messages import HttpResponse
from agentrail.runtime.diagnosis.figures import Figures, ModelFigures, Spread, TenantFigures
from agentrail.wire.call_rows.host_call import OPERATE, PROMETHEUS

MILLISECONDS: Final = 1000

AT_ONCE: Final = 10
"""Tenants of which samples are written before other tasks may run."""

NOT_NAMED: Final = "# More tenants are there than are counted by name, and yours came later: it has no figures.\n"

_BY_LABEL: Final[Mapping[str, Callable[[TenantFigures], Mapping[str, int]]]] = MappingProxyType(
    {
        "agentrail_sessions": lambda found: found.phases,
        "agentrail_turns_total": lambda found: found.turns,
        "agentrail_aborts_total": lambda found: found.aborts,
    }
)
"""Metrics with one more label, beside the tenant: figures by the value of that label."""

_PLAIN: Final[Mapping[str, Callable[[TenantFigures], int]]] = MappingProxyType(
    {
        "agentrail_sessions_quarantined_total": lambda found: found.set_aside,
        "agentrail_held_calls": lambda found: len(found.held),
        "agentrail_queued_prompts": lambda found: found.queued,
        "agentrail_queued_steering": lambda found: found.steering,
        "agentrail_quarantined_calls": lambda found: found.quarantined,
        "agentrail_events_merged_total": lambda found: found.merged,
        "agentrail_events_dropped_total": lambda found: found.dropped,
    }
)
"""Metrics with the label of the tenant alone."""

_OF_MODEL: Final[Mapping[str, Callable[[ModelFigures], float]]] = MappingProxyType(
    {
        "agentrail_cost_usd_total": lambda found: found.cost_usd,
        "agentrail_unpriced_responses_total": lambda found: found.unpriced,
    }
)

_TIMES: Final[Mapping[str, Callable[[TenantFigures], Spread]]] = MappingProxyType(
    {
        "agentrail_abort_seconds": lambda found: found.abort_times,
        "agentrail_turn_seconds": lambda found: found.turn_times,
        "agentrail_first_word_seconds": lambda found: found.first_words,
    }
)
"""Histograms with the label of the tenant alone."""

_TOKENS: Final = ("input", "output", "cached", "cache_write", "reasoning")


class MetricCalls:
    """Carries out the call `metrics`."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self.connections: Callable[[], int] = lambda: 0
        """Counts the open connections: set by whoever listens."""
        self.requests = RequestFigures()
        """Counts requests, and calls on WebSockets."""

    async def metrics(self, exchange: CallRequest) -> HttpResponse:
        """Show the figures: of the user's tenant, or of all and of the host if the user may operate it."""
        pieces: list[str] = []
        for piece in self._written(exchange.who):
            pieces.append(piece)
            await trio.lowlevel.checkpoint()  # all tenants together may take a tenth of a second
        return HttpResponse(exchange.call.status, (("content-type", PROMETHEUS), NO_STORE), "".join(pieces).encode())

    def _written(self, who: Identity) -> Iterator[str]:
        tenants, operates = self._figures.tenants, OPERATE in who.scopes
        if not operates:
            if who.tenant not in tenants and self._figures.is_full:
                yield NOT_NAMED
            tenants = {who.tenant: tenants[who.tenant]} if who.tenant in tenants else {}
        names = tuple(tenants)
        for family in FAMILIES.values():
            if family.of_tenant or operates:
                yield head(family)
            if not family.of_tenant:
                yield self._of_host(family) if operates else ""
                continue
            for at in range(0, len(names), AT_ONCE):
                some = {name: tenants[name] for name in names[at : at + AT_ONCE]}
                if family.kind == "histogram":
                    times = _TIMES[family.name]
                    yield histogram_lines(family, [((name,), times(each)) for name, each in some.items()])
                else:
                    yield lines(family, _of_tenants(family.name, some, self._figures.now_ms))

    def _of_host(self, family: MetricFamily) -> str:
        """Return the lines of a metric of the host."""
        figures, requests = self._figures, self.requests
        match family.name:
            case "agentrail_requests_total":
                counted = requests.answers.items()
                return lines(family, [((method, path, str(status)), n) for (method, path, status), n in counted])
            case "agentrail_request_seconds":
                return histogram_lines(family, requests.times.items())
            case "agentrail_resident_memory_bytes":
                figure = resident_bytes()
            case "agentrail_connections":
                figure = self.connections()
            case "agentrail_commits_total":
                figure = figures.commits
            case "agentrail_journal_failures_total":
                figure = figures.failures
            case _:
                figure = figures.limited
        return "" if figure is None else lines(family, [((), figure)])


def _of_tenants(name: str, tenants: Mapping[str, TenantFigures], now: int) -> list[Sample]:
    """Return the samples of a metric, for each of *tenants*."""
    if name in _PLAIN:
        return [((tenant,), _PLAIN[name](found)) for tenant, found in tenants.items()]
    if name in _BY_LABEL:
        return [
            ((tenant, label), figure)
            for tenant, found in tenants.items()
            for label, figure in _BY_LABEL[name](found).items()
        ]
    if name == "agentrail_held_oldest_seconds":
        return [((tenant,), _oldest(found, now)) for tenant, found in tenants.items()]
    models = [(tenant, model, used) for tenant, found in tenants.items() for model, used in found.models.items()]
    if name in _OF_MODEL:
        return [((tenant, model), _OF_MODEL[name](used)) for tenant, model, used in models]
    return [
        ((tenant, model, kind), getattr(found.used, f"{kind}_tokens"))
        for tenant, model, found in models
        for kind in _TOKENS
    ]


def _oldest(found: TenantFigures, now: int) -> float:
    return max(0, now - min(found.held.values(), default=now)) / MILLISECONDS
