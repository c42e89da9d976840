"""The table of the metrics that a host has for Prometheus."""

from __future__ import annotations

from agentrail.host.health.prometheus import FAMILIES
from docs.printing.markdown import code, codes, table


def families() -> list[str]:
    """Return the table of metrics."""
    rows = [
        (code(family.name), family.kind, codes(family.labels), "" if family.of_tenant else "yes", family.about)
        for family in FAMILIES.values()
    ]
    return table(("metric", "kind", "labels", "of the host", "what it is"), rows)
