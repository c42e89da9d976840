"""What an export that hangs, fails or is slow does: nothing that a session notices."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import pytest
import trio
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.otel import follower
from agentrail.adapters.otel.otlp import default_resource
from agentrail.adapters.otel.span_export import BATCH, SpanMaker, SpanQueue
from agentrail.adapters.otel.spans import CallSpan, SpanRef, TurnSpan
from agentrail.errors import WrongType
from agentrail.journals import MemoryJournal
from agentrail.telemetry import OpenTelemetry
from agentrail.testing import ScriptedModel
from tests.adapters.otel.watched import Spans, trace_of


class Hanging(SpanExporter):
    """An exporter that hangs until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.hangs = threading.Event()
        self.exported = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.hangs.set()
        self.let_go.wait()
        self.exported += len(spans)
        return SpanExportResult.SUCCESS


class Failing(SpanExporter):
    def __init__(self, *, raises: bool) -> None:
        self.raises = raises

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self.raises:
            raise ConnectionError("100% refused")
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        raise RuntimeError("never opened")


async def turns(telemetry: OpenTelemetry, count: int) -> None:
    """Have a watched session answer *count* prompts."""
    async with open_supervisor(telemetry=telemetry) as supervisor:
        model = ScriptedModel(["done"], repeat_last=True)
        session = await supervisor.spawn(SessionSpec(model=model))
        for _ in range(count):
            assert (await session.ask("go")).text == "done"


async def test_a_session_does_not_notice_an_exporter_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    exporter = Hanging()
    telemetry = OpenTelemetry(exporter, max_queue=4, delay=0, flush_within=0.01)
    await turns(telemetry, 10)
    assert telemetry.counts.exported == 0
    assert telemetry.counts.dropped == 20
    assert "spans are lost" in caplog.text
    exporter.let_go.set()


class HangingMetrics(MetricExporter):
    """An exporter of metrics that hangs until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def export(self, *_: object, **__: object) -> MetricExportResult:
        self.let_go.wait()
        return MetricExportResult.FAILURE

    def force_flush(self, timeout_millis: float = 0) -> bool:
        return False

    def shutdown(self, timeout_millis: float = 0, **__: object) -> None:
        pass


async def test_the_end_of_a_supervisor_waits_no_longer_for_exporters_than_it_may() -> None:
    spans, metrics = Hanging(), HangingMetrics()
    readers = [PeriodicExportingMetricReader(metrics, 3_600_000)]
    telemetry = OpenTelemetry(spans, readers, delay=0, flush_within=0.2)
    with trio.fail_after(60):
        await turns(telemetry, 2)
    assert telemetry.counts.dropped == 4
    spans.let_go.set()
    metrics.let_go.set()


async def test_what_waits_is_exported_at_the_end_and_nothing_is_dropped() -> None:
    spans = Spans()
    telemetry = OpenTelemetry(spans.exporter, delay=3600)
    await turns(telemetry, 10)
    assert telemetry.counts == (20, 0, 0)
    assert len(list(spans)) == 20


def test_a_whole_batch_is_exported_at_once() -> None:
    exporter = Hanging()
    exporter.let_go.set()
    queue = SpanQueue(exporter, SpanMaker(default_resource(), has_content=False), 10 * BATCH, 3600)
    for number in range(1, BATCH + 1):
        queue.add(turn(number)[0])
    assert exporter.hangs.wait(60)
    queue.close(5)
    assert queue.counts == (BATCH, 0, 0)


@pytest.mark.parametrize("raises", [True, False])
async def test_an_exporter_that_fails_is_counted_and_told_once(
    caplog: pytest.LogCaptureFixture, *, raises: bool
) -> None:
    telemetry = OpenTelemetry(Failing(raises=raises), delay=0)
    with caplog.at_level(logging.WARNING, "agentrail.otel"):
        await turns(telemetry, 5)
    assert telemetry.counts == (0, 10, 0)
    assert caplog.text.count("could not be exported") == 1
    assert ("100% refused" in caplog.text) == raises
    assert "could not be shut down" in caplog.text


async def test_records_that_find_no_room_are_read_again_while_a_span_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "ROOM", 1)
    spans = Spans()
    async with open_supervisor(journal=MemoryJournal(), telemetry=OpenTelemetry(spans.exporter, delay=0)) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["done"], repeat_last=True)))
        for _ in range(20):
            await session.ask("go")
    ids = [trace_of(span) for span in spans.named("invoke_agent")]
    assert ids
    assert len(ids) == len(set(ids))
    assert all(span.parent is not None and trace_of(span) in ids for span in spans.named("chat"))


def turn(number: int) -> tuple[TurnSpan, CallSpan]:
    ref = SpanRef(number, 1)
    whose = {"session_id": "s", "agent": "", "tenant": "", "start": 1, "end": 2}
    root = TurnSpan(ref=ref, parent=None, turn=1, **whose)  # type: ignore[arg-type]
    return root, CallSpan(ref=SpanRef(number, 2), parent=ref, call_id="c", tool="t", turn=ref, **whose)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["always_off", "traceidratio", "parentbased_traceidratio"])
def test_a_trace_is_sampled_as_a_whole(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", name)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    spans = Spans()
    maker = SpanMaker(default_resource(), has_content=False)
    queue = SpanQueue(spans.exporter, maker, 1000, 0)
    for number in range(1, 2**64, 2**57):
        for span in reversed(turn(number)):
            queue.add(span)
    queue.close(5)
    traces = [trace_of(span) for span in spans]
    assert {traces.count(trace) for trace in traces} <= {2}
    if name == "always_off":
        assert not traces
    else:
        assert 0 < len(traces) < 256


@pytest.mark.parametrize(
    ("option", "value"),
    [("max_queue", 0), ("max_queue", True), ("delay", -1), ("delay", "soon"), ("flush_within", float("nan"))],
)
def test_options_that_make_no_sense_are_refused(option: str, value: object) -> None:
    with pytest.raises(WrongType, match=option):
        OpenTelemetry(**{option: value})  # type: ignore[arg-type]


async def test_what_cannot_watch_a_supervisor_is_refused() -> None:
    with pytest.raises(WrongType, match="telemetry"):
        open_supervisor(telemetry=object())  # type: ignore[arg-type]
