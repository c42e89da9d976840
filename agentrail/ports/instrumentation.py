"""`Telemetry`: what a program gives a supervisor to watch it from outside, such as `OpenTelemetry`.

It is told of each record after the journal has stored it, and may ask for figures. What it does with them, no session
waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias

from agentrail.core.vocabulary.state import State
from agentrail.ports.journal import Journal, Record
from agentrail.values.value import Value

MetricKind: TypeAlias = Literal["counter", "gauge", "histogram"]

Sample: TypeAlias = tuple[Sequence[str], float]
"""The values of the labels, and the figure."""


class MetricFamily(Value):
    """One metric."""

    name: str
    """Its name, as for Prometheus."""
    kind: MetricKind
    """`counter`, which only grows while the supervisor runs; `gauge`, what is now; or `histogram`."""
    about: str
    """What it counts."""
    labels: tuple[str, ...] = ()
    """Labels of its samples, beside those of the histogram."""
    of_tenant: bool = True
    """Whether a tenant sees its own samples; else it is one of the host, for its operator alone."""


class MetricSource(Protocol):
    """Interface: the metrics of a supervisor. Its methods may be called in any thread."""

    @property
    def families(self) -> Sequence[MetricFamily]:
        """The metrics."""
        ...

    def samples(self, family: MetricFamily) -> Iterable[Sample]:
        """Return what a metric that is no histogram is now."""
        ...


RecordListener: TypeAlias = Callable[[State, Record], None]
"""Called with the state before a step and its record, when that is stored. It neither waits nor raises."""


class Telemetry(Protocol):
    """Interface: watches a supervisor from outside."""

    def watching(self, journal: Journal | None, source: MetricSource) -> AbstractAsyncContextManager[RecordListener]:
        """Watch a supervisor for the time of the `async with`. *journal* has the records of its sessions.

        It is `None` if the supervisor keeps them in memory, where they are not kept for good.
        """
        ...
