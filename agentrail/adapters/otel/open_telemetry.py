"""`OpenTelemetry`: exports what the sessions of a supervisor do, as spans and metrics."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from agentrail.adapters.extras import need_extra
from agentrail.adapters.otel.conventions import wants_content
from agentrail.adapters.otel.follower import Follower
from agentrail.adapters.otel.spans import Span
from agentrail.errors import WrongType
from agentrail.nurseries import open_shielded_nursery
from agentrail.ports.instrumentation import MetricSource, RecordListener
from agentrail.ports.journal import Journal
from agentrail.values.untrusted_values import as_seconds, brief, error_text, number

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import SpanExporter

    from agentrail.adapters.otel.metric_export import MetricSink
    from agentrail.adapters.otel.span_export import SpanCounts, SpanQueue

log = logging.getLogger("agentrail.otel")

EXTRA: Final = "otel"
PURPOSE: Final = "to export spans and metrics"


class Sinks:
    """What takes the spans and metrics of one supervisor, until it is closed."""

    def __init__(self, queue: SpanQueue | None, metrics: MetricSink | None) -> None:
        self._queue = queue
        self._metrics = metrics

    def add(self, span: Span) -> None:
        """Export a span that has ended, and count it. It neither waits nor raises."""
        if self._queue is not None:
            self._queue.add(span)
        if self._metrics is not None:
            self._metrics.spans.add(span)

    async def close(self, until: float) -> None:
        """Export what waits, until a moment of Trio's clock; half of the time is for spans, the rest for metrics."""
        if self._queue is not None:
            within = max(0.0, until - trio.current_time()) / (1 if self._metrics is None else 2)
            await trio.to_thread.run_sync(self._queue.close, within)  # it bounds its own time
        if self._metrics is None:
            return
        within = max(0.0, until - trio.current_time())
        with trio.move_on_at(until):
            await trio.to_thread.run_sync(self._close_metrics, self._metrics, within, abandon_on_cancel=True)

    def _close_metrics(self, metrics: MetricSink, within: float) -> None:
        try:
            metrics.close(within)
        except Exception as error:  # noqa: BLE001 - readers are code of others
            log.warning("the last metrics were not exported: %s", error_text(error))


class OpenTelemetry:
    """Exports what the sessions of a supervisor do to OpenTelemetry: spans of turns, requests and calls; and metrics.

    *spans* is an exporter of spans, and *metrics* are readers of metrics. Without both, they are exported by OTLP over
    HTTP, to the endpoint that the environment says (`OTEL_EXPORTER_OTLP_ENDPOINT`). *resource* says what the program
    is; by default that is what the environment says (`OTEL_SERVICE_NAME`).

    No session waits for an export: at most *max_queue* spans wait for one, others are dropped and counted (`counts`).
    Spans are exported every *delay* seconds, and at the end of the supervisor for at most *flush_within* seconds.
    """

    def __init__(
        self,
        spans: SpanExporter | None = None,
        metrics: Sequence[MetricReader] = (),
        *,
        resource: Resource | None = None,
        max_queue: int = 8192,
        delay: float = 1.0,
        flush_within: float = 3.0,
    ) -> None:
        need_extra(EXTRA, "opentelemetry.sdk", PURPOSE)
        plain = number(max_queue)
        if type(plain) is not int or plain < 1:
            raise WrongType("max_queue", brief(max_queue), "a number of spans, from 1 on")
        self._exporter = spans
        self._readers = tuple(metrics)
        self._resource = resource
        self._room = plain
        self._delay = _seconds("delay", delay)
        self._flush_within = _seconds("flush_within", flush_within)
        self._queue: SpanQueue | None = None  # made when a supervisor is watched; that of the last one stays

    @property
    def counts(self) -> SpanCounts:
        """How many spans were exported, could not be exported, and were dropped, of the last supervisor."""
        from agentrail.adapters.otel.span_export import SpanCounts  # noqa: PLC0415 - it imports the SDK

        return SpanCounts(0, 0, 0) if self._queue is None else self._queue.counts

    def watching(self, journal: Journal | None, source: MetricSource) -> AbstractAsyncContextManager[RecordListener]:
        """Export the spans and metrics of one supervisor; see `agentrail.ports.instrumentation.Telemetry`."""
        return self._watching(journal, source)

    @asynccontextmanager
    async def _watching(self, journal: Journal | None, source: MetricSource) -> AsyncGenerator[RecordListener, None]:
        """Fold records and export for the time of the `async with`."""
        sinks = self._opened(source)
        follower = Follower(journal, sinks.add)
        async with open_shielded_nursery() as nursery:
            nursery.start_soon(follower.run)
            try:
                yield follower.listen
            finally:
                # Shielded: what a program that is cancelled has done is exported too. It bounds its own time.
                until = trio.current_time() + self._flush_within
                with trio.CancelScope(shield=True):
                    with trio.move_on_at(until):
                        await follower.finish()  # noqa: ASYNC102 - as above
                    await sinks.close(until)  # noqa: ASYNC102 - as above

    def _opened(self, source: MetricSource) -> Sinks:
        """Make what takes the spans and metrics."""
        from agentrail.adapters.otel import otlp  # noqa: PLC0415 - it imports the SDK
        from agentrail.adapters.otel.metric_export import MetricSink  # noqa: PLC0415 - as above
        from agentrail.adapters.otel.span_export import SpanMaker, SpanQueue  # noqa: PLC0415 - as above

        resource = self._resource or otlp.default_resource()
        exporter, readers = self._exporter, self._readers
        if exporter is None and not readers:
            exporter, readers = otlp.exporter_of(os.environ), otlp.readers_of(os.environ)
        self._queue = None
        if exporter is not None:
            self._queue = SpanQueue(
                exporter, SpanMaker(resource, has_content=wants_content(os.environ)), self._room, self._delay
            )
        metric_sink = MetricSink(resource, readers, source, lambda: self.counts) if readers else None
        return Sinks(self._queue, metric_sink)


def _seconds(name: str, value: object) -> float:
    plain = as_seconds(value)
    if plain is None or not math.isfinite(plain):
        raise WrongType(name, brief(value), "seconds, 0 or more")
    return plain
