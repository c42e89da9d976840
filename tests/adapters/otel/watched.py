"""Supervisors whose spans are read back through the in-memory exporter of the SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from attrs import define, field
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentrail import Supervisor, open_supervisor
from agentrail.journals import Journal
from agentrail.telemetry import OpenTelemetry


@define
class Spans:
    """The spans that were exported."""

    exporter: InMemorySpanExporter = field(factory=InMemorySpanExporter)

    def __iter__(self) -> Iterator[ReadableSpan]:
        return iter(self.exporter.get_finished_spans())

    def named(self, beginning: str) -> list[ReadableSpan]:
        return [span for span in self if span.name.startswith(beginning)]

    def only(self, beginning: str) -> ReadableSpan:
        (span,) = self.named(beginning)
        return span

    @property
    def names(self) -> list[str]:
        return sorted(span.name for span in self)


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def links_of(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def milliseconds(span: ReadableSpan) -> tuple[int, int]:
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time // 1_000_000, span.end_time // 1_000_000


@asynccontextmanager
async def watched(
    spans: Spans, journal: Journal | None = None, reader: InMemoryMetricReader | None = None
) -> AsyncIterator[Supervisor]:
    """Open a supervisor whose spans are in *spans* when it is closed."""
    telemetry = OpenTelemetry(spans.exporter, () if reader is None else (reader,), delay=0)
    async with open_supervisor(journal=journal, telemetry=telemetry) as supervisor:
        yield supervisor
