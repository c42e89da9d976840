"""The call `metrics`: figures of the sessions and of the host, as Prometheus text (0.0.4)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import trio

from agentrail.api.operation_table import OPERATE, PROMETHEUS
from agentrail.host.authentication.identity import Identity
from agentrail.host.health.request_figures import RequestFigures, resident_bytes
from agentrail.host.operations.call_request import NO_STORE, CallRequest
from agentrail.host.requests.http_messages import HttpResponse
from agentrail.runtime.diagnosis.metrics import Figures, ModelFigures, Spread, TenantFigures
from agentrail.values.untrusted_values import mended
from agentrail.values.value import Value

MetricKind: TypeAlias = Literal["counter", "gauge", "histogram"]


class MetricFamily(Value):
    """One metric."""

    name: str
    """Its name."""
    kind: MetricKind
    """`counter`, which only grows while the host runs; `gauge`, what is now; or `histogram`."""
    about: str
    """What it counts."""
    labels: tuple[str, ...] = ()
    """Labels of its samples, beside those of the histogram."""
    of_tenant: bool = True
    """Whether a tenant sees its own samples; else it is one of the host, for its operator alone."""


_TENANT: Final = ("tenant",)
_ROUTE: Final = ("method", "route")
_MODEL: Final = ("tenant", "model")

_FAMILIES: Final = (
    MetricFamily("agentrail_sessions", "gauge", "Sessions that are in the host, by phase.", ("tenant", "phase")),
    MetricFamily("agentrail_sessions_quarantined_total", "counter", "Sessions that crashed too often.", _TENANT),
    MetricFamily("agentrail_turns_total", "counter", "Turns that are over, by how they ended.", ("tenant", "end")),
    MetricFamily("agentrail_aborts_total", "counter", "Aborts that were carried out, by kind.", ("tenant", "kind")),
    MetricFamily(
        "agentrail_abort_seconds", "histogram", "Time from the call of an abort to its record in the journal.", _TENANT
    ),
    MetricFamily(
        "agentrail_turn_seconds", "histogram", "Time of turns that are over, with what they waited for people.", _TENANT
    ),
    MetricFamily(
        "agentrail_first_word_seconds",
        "histogram",
        "Time from the start of a turn to the first word or thought of the model.",
        _TENANT,
    ),
    MetricFamily("agentrail_held_calls", "gauge", "Tool calls that wait for a person.", _TENANT),
    MetricFamily("agentrail_held_oldest_seconds", "gauge", "For how long the oldest of them has waited.", _TENANT),
    MetricFamily("agentrail_queued_prompts", "gauge", "Prompts that wait for the open turn of their session.", _TENANT),
    MetricFamily("agentrail_queued_steering", "gauge", "Steering texts that wait for the next request.", _TENANT),
    MetricFamily(
        "agentrail_tokens_total",
        "counter",
        "Tokens that models have read (`input`, of it `cached` and `cache_write`) and written (`output`, `reasoning`).",
        (*_MODEL, "kind"),
    ),
    MetricFamily("agentrail_cost_usd_total", "counter", "What responses have cost, in US dollars.", _MODEL),
    MetricFamily("agentrail_unpriced_responses_total", "counter", "Responses without a known price.", _MODEL),
    MetricFamily("agentrail_quarantined_calls", "gauge", "Tool calls that were cancelled and still run.", _TENANT),
    MetricFamily(
        "agentrail_events_merged_total", "counter", "Deltas that were merged with others for slow clients.", _TENANT
    ),
    MetricFamily(
        "agentrail_events_dropped_total",
        "counter",
        "Events that found no room for a slow client, which reads them again, or gets a gap.",
        _TENANT,
    ),
    MetricFamily(
        "agentrail_requests_total",
        "counter",
        "Requests, and calls on WebSockets (`WS`), by route and status; 0: the client had gone before its answer.",
        (*_ROUTE, "status"),
        of_tenant=False,
    ),
    MetricFamily(
        "agentrail_request_seconds",
        "histogram",
        "Time from the first byte of a request to the beginning of its answer.",
        _ROUTE,
        of_tenant=False,
    ),
    MetricFamily(
        "agentrail_resident_memory_bytes", "gauge", "Resident memory of the process, on Linux.", of_tenant=False
    ),
    MetricFamily("agentrail_connections", "gauge", "Open connections.", of_tenant=False),
    MetricFamily("agentrail_commits_total", "counter", "Commits to the journal.", of_tenant=False),
    MetricFamily("agentrail_journal_failures_total", "counter", "Calls to the journal that failed.", of_tenant=False),
    MetricFamily(
        "agentrail_limited_requests", "gauge", "Requests that wait for the limits of a provider.", of_tenant=False
    ),
)

FAMILIES: Final[Mapping[str, MetricFamily]] = MappingProxyType({family.name: family for family in _FAMILIES})
"""Each metric by its name."""

Sample: TypeAlias = tuple[Sequence[str], float]
"""The values of the labels, and the figure."""

_SPECIAL: Final = re.compile(r'[\\"\n]')
_ESCAPED: Final[Mapping[str, str]] = MappingProxyType({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def head(family: MetricFamily) -> str:
    """Return the lines before the samples of a metric."""
    return f"# HELP {family.name} {family.about}\n# TYPE {family.name} {family.kind}\n"


def lines(family: MetricFamily, samples: Iterable[Sample]) -> str:
    """Return the lines with samples of a metric that is no histogram."""
    return "".join([_line(family.name, family.labels, *sample) for sample in samples])


def histogram_lines(family: MetricFamily, spreads: Iterable[tuple[Sequence[str], Spread]]) -> str:
    """Return the lines of a histogram. Each item of *spreads* has the values of the labels, and the counts by range."""
    lines: list[str] = []
    for labels, spread in spreads:
        below = 0
        for bound, count in zip((*spread.bounds, math.inf), spread.counts, strict=True):
            below += count
            lines.append(_line(f"{family.name}_bucket", (*family.labels, "le"), (*labels, _number(bound)), below))
        lines.append(_line(f"{family.name}_sum", family.labels, labels, spread.total))
        lines.append(_line(f"{family.name}_count", family.labels, labels, below))
    return "".join(lines)


def _line(name: str, labels: Sequence[str], values: Sequence[str], figure: float) -> str:
    pairs = ",".join([f'{label}="{_quoted(value)}"' for label, value in zip(labels, values, strict=True)])
    return f"{name}{{{pairs}}} {_number(figure)}\n" if pairs else f"{name} {_number(figure)}\n"


def _quoted(value: str) -> str:
    return _SPECIAL.sub(lambda match: _ESCAPED[match[0]], mended(value))


def _number(figure: float) -> str:
    return "+Inf" if figure == math.inf else repr(figure)


MILLISECONDS: Final = 1000

AT_ONCE: Final = 10
"""Tenants of which samples are written before other tasks may run."""

NOT_NAMED: Final = "# More tenants are there than are counted by name, and yours came later: it has no figures.\n"

_BY_LABEL: Final[Mapping[str, Callable[[TenantFigures], Mapping[str, int]]]] = MappingProxyType(
    {
        "agentrail_sessions": lambda figures: figures.phases,
        "agentrail_turns_total": lambda figures: figures.turns,
        "agentrail_aborts_total": lambda figures: figures.aborts,
    }
)
"""Metrics with one more label, beside the tenant: figures by the value of that label."""

_PLAIN: Final[Mapping[str, Callable[[TenantFigures], int]]] = MappingProxyType(
    {
        "agentrail_sessions_quarantined_total": lambda figures: figures.set_aside,
        "agentrail_held_calls": lambda figures: len(figures.held),
        "agentrail_queued_prompts": lambda figures: figures.queued,
        "agentrail_queued_steering": lambda figures: figures.steering,
        "agentrail_quarantined_calls": lambda figures: figures.quarantined,
        "agentrail_events_merged_total": lambda figures: figures.merged,
        "agentrail_events_dropped_total": lambda figures: figures.dropped,
    }
)
"""Metrics with the label of the tenant alone."""

_OF_MODEL: Final[Mapping[str, Callable[[ModelFigures], float]]] = MappingProxyType(
    {
        "agentrail_cost_usd_total": lambda figures: figures.cost_usd,
        "agentrail_unpriced_responses_total": lambda figures: figures.unpriced,
    }
)

_TIMES: Final[Mapping[str, Callable[[TenantFigures], Spread]]] = MappingProxyType(
    {
        "agentrail_abort_seconds": lambda figures: figures.abort_times,
        "agentrail_turn_seconds": lambda figures: figures.turn_times,
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

    async def metrics(self, request: CallRequest) -> HttpResponse:
        """Show the figures: of the user's tenant, or of all and of the host if the user may operate it."""
        pieces: list[str] = []
        for piece in self._render(request.who):
            pieces.append(piece)
            # not all at once: the lines of all tenants together may take a tenth of a second
            await trio.lowlevel.checkpoint()
        return HttpResponse(request.call.status, (("content-type", PROMETHEUS), NO_STORE), "".join(pieces).encode())

    def _render(self, who: Identity) -> Iterator[str]:
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
                    yield histogram_lines(family, [((name,), times(spread)) for name, spread in some.items()])
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
        return [((tenant,), _PLAIN[name](figures)) for tenant, figures in tenants.items()]
    if name in _BY_LABEL:
        return [
            ((tenant, label), figure)
            for tenant, figures in tenants.items()
            for label, figure in _BY_LABEL[name](figures).items()
        ]
    if name == "agentrail_held_oldest_seconds":
        return [((tenant,), _oldest(figures, now)) for tenant, figures in tenants.items()]
    models = [(tenant, model, used) for tenant, figures in tenants.items() for model, used in figures.models.items()]
    if name in _OF_MODEL:
        return [((tenant, model), _OF_MODEL[name](used)) for tenant, model, used in models]
    return [
        ((tenant, model, kind), getattr(figures.used, f"{kind}_tokens"))
        for tenant, model, figures in models
        for kind in _TOKENS
    ]


def _oldest(figures: TenantFigures, now: int) -> float:
    return max(0, now - min(figures.held.values(), default=now)) / MILLISECONDS
