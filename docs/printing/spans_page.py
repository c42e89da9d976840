"""The tables of the page on tracing: attributes of spans, and metrics."""

from __future__ import annotations

from agentrail.adapters.otel.conventions import OPERATIONS, ROWS
from agentrail.adapters.otel.metric_export import instrument_name
from agentrail.runtime.diagnosis.metric_families import SUPERVISOR_FAMILIES
from docs.printing.markdown import code, table

_CONTENT = "with content"


def attributes() -> list[str]:
    """Return the table of attributes, and on which spans each may be."""
    columns = ("attribute", *map(code, OPERATIONS.values()), "what it says")
    rows = [
        (
            code(row.name),
            *(_mark(is_there=kind in row.kinds, is_content=row.is_content) for kind in OPERATIONS),
            row.about,
        )
        for row in ROWS
    ]
    return table(columns, rows)


def _mark(*, is_there: bool, is_content: bool) -> str:
    return (_CONTENT if is_content else "yes") if is_there else ""


def metrics() -> list[str]:
    """Return the table of metrics that Prometheus has too."""
    rows = [
        (code(name), unit, code(family.name))
        for family in SUPERVISOR_FAMILIES
        if family.kind != "histogram"
        for name, unit in (instrument_name(family),)
    ]
    return table(("metric", "unit", "for Prometheus"), rows)
