"""The lists of the metrics that a host has for Prometheus."""

from __future__ import annotations

from typing import Final

from agentrail.host.health.prometheus import FAMILIES
from agentrail.ports.instrumentation import MetricFamily
from docs.printing.markdown import code, codes, joined

OF_TENANTS: Final = "Of tenants, each with the label `tenant`:"
OF_THE_HOST: Final = "Of the host:"


def families() -> list[str]:
    """Return a line about each metric, those of tenants first: its kind, its labels and what it is."""
    of_tenants = [_line(family) for family in FAMILIES.values() if family.of_tenant]
    of_host = [_line(family) for family in FAMILIES.values() if not family.of_tenant]
    return joined(([OF_TENANTS, "", *of_tenants], [OF_THE_HOST, "", *of_host]))


def _line(family: MetricFamily) -> str:
    labels = codes(label for label in family.labels if label != "tenant")
    return f"- {code(family.name)} ({family.kind}{f': {labels}' if labels else ''}): {family.about}"
