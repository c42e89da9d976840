"""The call `metrics`: figures of the sessions and of the host, as Prometheus text (0.0.4).

`RequestFigures`: how many requests of each route were answered, how, and how fast; and the memory of the process.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

import trio

from agentrail.api.operation_table import OPERATE, PROMETHEUS
from agentrail.host.authentication.identity import Identity
from agentrail.host.operations.call import OperationCall, ShownText
from agentrail.host.requests.access_log import RequestNote
from agentrail.ports.instrumentation import MetricFamily, Sample
from agentrail.runtime.diagnosis.figures import Figures, Spread
from agentrail.runtime.diagnosis.metric_families import (
    SUPERVISOR_FAMILIES,
    TIMES,
    figure_of_supervisor,
    tenant_samples,
)
from agentrail.values.untrusted_values import mended

STATM: Final = Path("/proc/self/statm")
"""Has the memory of this process in pages, on Linux; the second number is what is resident."""

Route: TypeAlias = tuple[str, str]
"""Method and path of a route; both are empty for a request that means none."""


class RequestFigures:
    """The figures of the requests to a host: by route, not by a client's path, so their number is bounded."""

    def __init__(self) -> None:
        self.answers = Counter[tuple[str, str, int]]()
        """By method, path of the route, and status; 0 if the client had gone before its answer."""
        self.times: dict[Route, Spread] = {}
        """How long answers took to begin, by route."""

    def add(self, note: RequestNote, status: int, seconds: float) -> None:
        """Count a request whose answer began after *seconds*."""
        method, path = note.route
        self.answers[method, path, status] += 1
        times = self.times.get(note.route)
        if times is None:
            times = self.times[note.route] = Spread()
        times.add(seconds)


def resident_bytes() -> int | None:
    """Return how much memory of this process is resident; `None` where the system does not say so."""
    if sys.platform == "win32" or not hasattr(os, "sysconf"):
        return None
    try:
        return int(STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


_ROUTE: Final = ("method", "route")

_OF_HOST: Final = (
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
)

FAMILIES: Final[Mapping[str, MetricFamily]] = MappingProxyType(
    {family.name: family for family in (*SUPERVISOR_FAMILIES, *_OF_HOST)}
)
"""Each metric by its name."""

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


AT_ONCE: Final = 10
"""Tenants of which samples are written before other tasks may run."""

NOT_NAMED: Final = "# More tenants are there than are counted by name, and yours came later: it has no figures.\n"


class MetricCalls:
    """Carries out the call `metrics`."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self.connections: Callable[[], int] = lambda: 0
        """Counts the open connections: set by whoever listens."""
        self.requests = RequestFigures()
        """Counts requests, and calls on WebSockets."""

    async def metrics(self, call: OperationCall) -> ShownText:
        """Show the figures: of the user's tenant, or of all and of the host if the user may operate it."""
        pieces: list[str] = []
        for piece in self._render(call.who):
            pieces.append(piece)
            # not all at once: the lines of all tenants together may take a tenth of a second
            await trio.lowlevel.checkpoint()
        return ShownText("".join(pieces), PROMETHEUS)

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
            for start in range(0, len(names), AT_ONCE):
                some = {name: tenants[name] for name in names[start : start + AT_ONCE]}
                if family.kind == "histogram":
                    times = TIMES[family.name]
                    yield histogram_lines(family, [((name,), times(spread)) for name, spread in some.items()])
                else:
                    yield lines(family, tenant_samples(family.name, some, self._figures.now_ms))

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
            case name:
                figure = figure_of_supervisor(name, figures)
        return "" if figure is None else lines(family, [((), figure)])
