"""The metrics of a supervisor by name, and their samples, for Prometheus and OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from agentrail.ports.instrumentation import MetricFamily, Sample
from agentrail.runtime.diagnosis.figures import Figures, ModelFigures, Spread, TenantFigures

_TENANT: Final = ("tenant",)
_MODEL: Final = ("tenant", "model")

SUPERVISOR_FAMILIES: Final = (
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
    MetricFamily("agentrail_commits_total", "counter", "Commits to the journal.", of_tenant=False),
    MetricFamily("agentrail_journal_failures_total", "counter", "Calls to the journal that failed.", of_tenant=False),
    MetricFamily(
        "agentrail_limited_requests", "gauge", "Requests that wait for the limits of a provider.", of_tenant=False
    ),
)
"""The metrics of a supervisor, in order: first those of tenants."""

MILLISECONDS: Final = 1000

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

TIMES: Final[Mapping[str, Callable[[TenantFigures], Spread]]] = MappingProxyType(
    {
        "agentrail_abort_seconds": lambda figures: figures.abort_times,
        "agentrail_turn_seconds": lambda figures: figures.turn_times,
        "agentrail_first_word_seconds": lambda figures: figures.first_words,
    }
)
"""Histograms with the label of the tenant alone."""

_TOKENS: Final = ("input", "output", "cached", "cache_write", "reasoning")


def tenant_samples(name: str, tenants: Mapping[str, TenantFigures], now: int) -> list[Sample]:
    """Return the samples of a metric that is no histogram, for each of *tenants*.

    Mappings are copied before they are looked at: this may run in a thread, beside the sessions, which change them. No
    code in Python runs while one is copied, so that no other thread does.
    """
    if name in _PLAIN:
        return [((tenant,), _PLAIN[name](figures)) for tenant, figures in tenants.items()]
    if name in _BY_LABEL:
        return [
            ((tenant, label), figure)
            for tenant, figures in tenants.items()
            for label, figure in dict(_BY_LABEL[name](figures)).items()
        ]
    if name == "agentrail_held_oldest_seconds":
        return [((tenant,), _oldest(figures, now)) for tenant, figures in tenants.items()]
    models = [
        (tenant, model, used) for tenant, figures in tenants.items() for model, used in dict(figures.models).items()
    ]
    if name in _OF_MODEL:
        return [((tenant, model), _OF_MODEL[name](used)) for tenant, model, used in models]
    return [
        ((tenant, model, kind), getattr(figures.used, f"{kind}_tokens"))
        for tenant, model, figures in models
        for kind in _TOKENS
    ]


def _oldest(figures: TenantFigures, now: int) -> float:
    return max(0, now - min(list(figures.held.values()), default=now)) / MILLISECONDS


def figure_of_supervisor(name: str, figures: Figures) -> int:
    """Return a figure that no tenant has: of the journal, or of the limits of providers."""
    match name:
        case "agentrail_commits_total":
            return figures.commits
        case "agentrail_journal_failures_total":
            return figures.failures
        case _:
            return figures.limited


class SupervisorMetrics:
    """The metrics of a supervisor, for telemetry; they have no samples before it is open."""

    families: Sequence[MetricFamily] = SUPERVISOR_FAMILIES
    """The metrics."""

    def __init__(self) -> None:
        self.figures: Figures | None = None
        """What is counted; set once the supervisor is open."""

    def samples(self, family: MetricFamily) -> Iterable[Sample]:
        """Return what a metric that is no histogram is now. It may be called in any thread."""
        figures = self.figures
        if figures is None:
            return ()
        if family.of_tenant:
            return tenant_samples(family.name, dict(figures.tenants), figures.now_ms)
        return [((), figure_of_supervisor(family.name, figures))]
