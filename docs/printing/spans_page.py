"""The tables of the page on tracing: attributes of spans, and metrics."""

from __future__ import annotations

from agentrail.adapters.otel.conventions import OPERATIONS, ROWS, AttributeRow
from agentrail.adapters.otel.metric_export import instrument_name
from agentrail.runtime.diagnosis.metric_families import SUPERVISOR_FAMILIES
from docs.printing.markdown import code


def attributes() -> list[str]:
    """Return the attributes, and on which spans each may be."""
    return [
        f"- {code(row.name)} ({', '.join(_spans(row))}{'; with content' if row.is_content else ''}): {row.about}."
        for row in ROWS
    ]


def _spans(row: AttributeRow) -> list[str]:
    """Return the names of the spans that may have an attribute; `all` if each may."""
    names = [name for kind, name in OPERATIONS.items() if kind in row.kinds]
    return ["all"] if len(names) == len(OPERATIONS) else [code(name) for name in names]


def metrics() -> list[str]:
    """Return the metrics that Prometheus has too, in one line."""
    named = (instrument_name(family) for family in SUPERVISOR_FAMILIES if family.kind != "histogram")
    return [f"{', '.join(f'{code(name)} (in {unit})' if unit else code(name) for name, unit in named)}."]
