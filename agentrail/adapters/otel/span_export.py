"""Gives spans to the SDK of OpenTelemetry, and exports them in a thread of its own, from a bounded queue.

Nothing here is ambient: parents, links, ids and times are those of the span.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from agentrail.adapters.otel.conventions import attributes_of, name_of
from agentrail.adapters.otel.spans import RequestSpan, Span, SpanRef
from agentrail.values.untrusted_values import error_text
from agentrail.version import __version__

log = logging.getLogger("agentrail.otel")

NANOSECONDS: Final = 1_000_000
"""Nanoseconds of a millisecond."""

BATCH: Final = 512
"""The most spans that are exported at once."""

COMPLAIN_EVERY: Final = 60.0
"""The least seconds between two lines in the log about exports that failed, or spans that were dropped."""


class SpanCounts(NamedTuple):
    """What has become of the spans that were sampled."""

    exported: int
    """Spans that the exporter has taken."""
    failed: int
    """Spans of which the exporter said, or showed by an exception, that it could not export them."""
    dropped: int
    """Spans that found no room in the queue, or were still in it when the time to end was over."""


class NextIds(IdGenerator):
    """Gives the SDK the ids of the span that is about to be made."""

    def __init__(self) -> None:
        self.ref = SpanRef(1, 1)
        """The ids."""

    def generate_span_id(self) -> int:
        """Return the id of the span."""
        return self.ref.span_id

    def generate_trace_id(self) -> int:
        """Return the id of its trace, if it has no parent."""
        return self.ref.trace_id


class SampledSpans(SpanProcessor):
    """Keeps the spans that the SDK has made and sampled."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        """The spans, in the order of their making."""

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span, if it is sampled."""
        if span.context is not None and span.context.trace_flags.sampled:
            self.spans.append(span)


class SpanMaker:
    """Makes spans of the SDK from ours, when they have ended."""

    def __init__(self, resource: Resource, *, has_content: bool) -> None:
        self._has_content = has_content  # whether spans have texts of people, of the model and of tools
        self._ids = NextIds()
        self._sampled = SampledSpans()
        provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        provider.add_span_processor(self._sampled)
        self._sampler = provider.sampler
        self._tracer = provider.get_tracer("agentrail", __version__)

    def make(self, spans: Sequence[Span]) -> list[ReadableSpan]:
        """Return the spans of the SDK for those of *spans* that are sampled."""
        self._sampled.spans = []
        for span in spans:
            self._make(span)
        return self._sampled.spans

    def _make(self, span: Span) -> None:
        self._ids.ref = span.ref
        sdk_span = self._tracer.start_span(
            name_of(span),
            self._around(span),
            SpanKind.CLIENT if isinstance(span, RequestSpan) else SpanKind.INTERNAL,
            attributes_of(span, has_content=self._has_content),
            [Link(self._context(ref)) for ref in span.links],
            span.start * NANOSECONDS,
            record_exception=False,
            set_status_on_exception=False,
        )
        for note in span.notes:
            sdk_span.add_event(f"agentrail.{note.name}", timestamp=note.at * NANOSECONDS)
        if span.error:
            sdk_span.set_status(Status(StatusCode.ERROR, span.error))
        sdk_span.end(span.end * NANOSECONDS)

    def _around(self, span: Span) -> Context:
        """Return the context with the parent of *span*; without one, an empty context, never that of the caller."""
        if span.parent is None:
            return Context()
        return set_span_in_context(NonRecordingSpan(self._context(span.parent)), Context())

    def _context(self, ref: SpanRef) -> SpanContext:
        """Return the context of another span: whether it is sampled is decided by its trace, as for the root."""
        sampled = self._sampler.should_sample(Context(), ref.trace_id, "").decision is Decision.RECORD_AND_SAMPLE
        flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
        return SpanContext(ref.trace_id, ref.span_id, is_remote=False, trace_flags=flags)


class SpanQueue:
    """A bounded queue of spans, and the thread that exports them; adding one neither waits nor raises.

    All that is not ours runs in that thread: samplers and the exporter may be slow, hang or raise.
    """

    def __init__(self, exporter: SpanExporter, maker: SpanMaker, room: int, delay: float) -> None:
        self._exporter = exporter
        self._maker = maker
        self._room = room
        self._delay = delay  # seconds for which the thread waits for more spans
        self._waiting: deque[Span] = deque()
        self._exporting = 0  # spans that the exporter has now
        self._exported = self._failed = self._dropped = 0
        self._woken = threading.Event()  # set when spans wait
        self._hurried = threading.Event()  # set when a whole batch waits, or the queue is closed
        self._stopping = threading.Event()
        self._is_abandoned = False  # set when the time to end is over and the exporter still has spans
        self._complained_at = -COMPLAIN_EVERY
        # A daemon: an exporter that hangs must not keep the program from ending.
        self._thread = threading.Thread(target=self._work, name="agentrail spans", daemon=True)
        self._thread.start()

    @property
    def counts(self) -> SpanCounts:
        """What has become of the spans so far."""
        return SpanCounts(self._exported, self._failed, self._dropped)

    def add(self, span: Span) -> None:
        """Add a span that has ended, or drop it if there is no room."""
        if len(self._waiting) >= self._room or self._stopping.is_set():
            self._dropped += 1
            self._complain(self._dropped, "were dropped so far: the exporter is slower than the sessions")
            return
        self._waiting.append(span)
        if not self._woken.is_set():
            self._woken.set()
        if len(self._waiting) >= BATCH and not self._hurried.is_set():
            self._hurried.set()

    def close(self, within: float) -> None:
        """Export what waits, for at most *within* seconds; what is left then is dropped. It blocks."""
        self._stopping.set()
        self._hurried.set()
        self._woken.set()
        self._thread.join(within)
        if self._thread.is_alive():
            self._is_abandoned = True
            lost = len(self._waiting) + self._exporting
            self._waiting.clear()
            self._dropped += lost
            log.error("%d spans are lost: the exporter did not take them within %g s", lost, within)

    def _work(self) -> None:
        """Export until the queue is closed, then what is left."""
        while not self._stopping.is_set():
            self._woken.wait()
            self._hurried.wait(self._delay)
            self._woken.clear()
            self._hurried.clear()
            self._export_all()
        self._export_all()  # what was added after the last look and before the queue was closed
        self._quietly_shut_down()

    def _export_all(self) -> None:
        while batch := self._next_batch():
            exported, problem = self._export(batch)
            self._exporting = 0
            if self._is_abandoned:  # they are counted as dropped
                return
            if problem:
                self._failed += len(batch)
                self._complain(len(batch), f"could not be exported: {problem}")
            else:
                self._exported += exported

    def _next_batch(self) -> list[Span]:
        """Take the oldest spans out of the queue."""
        batch: list[Span] = []
        while self._waiting and len(batch) < BATCH:
            try:
                batch.append(self._waiting.popleft())
            except IndexError:  # another thread has emptied the queue, whose time was over
                break
        self._exporting = len(batch)
        return batch

    def _export(self, batch: Sequence[Span]) -> tuple[int, str]:
        """Export those spans of *batch* that are sampled; return how many these are, and why that failed, if it did."""
        try:
            spans = self._maker.make(batch)
            result = self._exporter.export(spans) if spans else SpanExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001 - code of others, of which the session must not notice anything
            return 0, error_text(error)
        return len(spans), "" if result is SpanExportResult.SUCCESS else "the exporter says so"

    def _quietly_shut_down(self) -> None:
        try:
            self._exporter.shutdown()
        except Exception as error:  # noqa: BLE001 - as above
            log.warning("the exporter of spans could not be shut down: %s", error_text(error))

    def _complain(self, count: int, problem: str) -> None:
        now = time.monotonic()
        if now - self._complained_at >= COMPLAIN_EVERY:
            self._complained_at = now
            log.warning("%d spans %s", count, problem)
