"""The table of metrics that `/metrics` has, and how they are written as Prometheus text (version 0.0.4)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from agentrail.catalog.markdown import code, codes, table
from agentrail.runtime.diagnosis.figures import Spread
from agentrail.values.foreign import mended
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
    """Return the lines of a histogram: of each, the values of its labels, and how often a time was in which range."""
    found: list[str] = []
    for labels, spread in spreads:
        below = 0
        for bound, count in zip((*spread.bounds, math.inf), spread.counts, strict=True):
            below += count
            found.append(_line(f"{family.name}_bucket", (*family.labels, "le"), (*labels, _number(bound)), below))
        found.append(_line(f"{family.name}_sum", family.labels, labels, spread.total))
        found.append(_line(f"{family.name}_count", family.labels, labels, below))
    return "".join(found)


def _line(name: str, labels: Sequence[str], values: Sequence[str], figure: float) -> str:
    pairs = ",".join([f'{label}="{_quoted(value)}"' for label, value in zip(labels, values, strict=True)])
    return f"{name}{{{pairs}}} {_number(figure)}\n" if pairs else f"{name} {_number(figure)}\n"


def _quoted(value: str) -> str:
    return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], mended(value))


def _number(figure: float) -> str:
    return "+Inf" if figure == math.inf else repr(figure)


def reference() -> list[str]:
    """Return the table of metrics for the page about them."""
    rows = [
        (code(family.name), family.kind, codes(family.labels), "" if family.of_tenant else "yes", family.about)
        for family in FAMILIES.values()
    ]
    return table(("metric", "kind", "labels", "of the host", "what it is"), rows)
