"""Metrics of OpenTelemetry are those that a host shows to Prometheus, and those of the conventions."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    PeriodicExportingMetricReader,
)
from trio import open_nursery

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.otel.metric_export import instrument_name
from agentrail.models import Usage
from agentrail.runtime.diagnosis.metric_families import SUPERVISOR_FAMILIES, SupervisorMetrics
from agentrail.telemetry import MetricFamily, OpenTelemetry
from agentrail.testing import ScriptedModel, call, say, transient
from tests.adapters.otel.test_conventions import remove
from tests.adapters.otel.test_spans import asking, held, idle, removing
from tests.adapters.otel.watched import Spans, attributes, watched
from tests.kit import Element
from tests.runtime.world import until


def points(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, object], float]]]:
    """Return the points of all metrics: attributes, and the value, or of a histogram the count."""
    data = reader.get_metrics_data()
    assert isinstance(data, MetricsData)
    found: dict[str, list[tuple[dict[str, object], float]]] = {}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.data.data_points:
            value: float
            if isinstance(point, HistogramDataPoint):
                value = point.count
            else:
                assert isinstance(point, NumberDataPoint)
                value = point.value
            found.setdefault(metric.name, []).append((dict(point.attributes or {}), value))
    return found


async def test_figures_are_those_of_prometheus_under_the_names_that_a_collector_gives_back() -> None:
    reader, spans = InMemoryMetricReader(), Spans()
    async with watched(spans, reader=reader) as supervisor:
        session = await supervisor.spawn(asking(removing("a"), "done"), "s", tenant="acme")
        await session.prompt("go")
        await held(session)
        now = points(reader)
        assert now["agentrail.held_calls"] == [({"tenant": "acme"}, 1)]
        await session.approve(await held(session))
        await idle(session)
        figures = supervisor.figures()
        source = SupervisorMetrics()
        source.figures = figures
        now = points(reader)
        for family in SUPERVISOR_FAMILIES:
            if family.kind == "histogram":
                assert instrument_name(family)[0] not in now
                continue
            shown = now.get(instrument_name(family)[0], [])
            expected = [
                (dict(zip(family.labels, labels, strict=True)), value) for labels, value in source.samples(family)
            ]
            if family.name != "agentrail_held_oldest_seconds":
                assert shown == expected, family.name
    assert now["agentrail.turns"] == [({"tenant": "acme", "end": "end"}, 1)]


async def test_the_time_to_the_first_chunk_is_a_figure_of_the_span_and_of_all_requests() -> None:
    reader, spans = InMemoryMetricReader(), Spans()
    async with watched(spans, reader=reader) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([say(chunks=["a", "b"], delay=0.02)])))
        await session.ask("go")
        await until(lambda: spans.named("chat"))
        data = reader.get_metrics_data()
        assert data is not None
        metrics = {metric.name: metric for metric in data.resource_metrics[0].scope_metrics[0].metrics}
        (point,) = metrics["gen_ai.client.operation.time_to_first_chunk"].data.data_points
        assert isinstance(point, HistogramDataPoint)
        assert point.count == 1
        assert point.sum >= 0.02
    assert attributes(spans.only("chat"))["gen_ai.response.time_to_first_chunk"] == point.sum


def prometheus_name(name: str, unit: str, kind: str) -> str:
    """Return the name that a collector shows to Prometheus, by the rules of OpenTelemetry's specification."""
    words = {"s": "_seconds", "By": "_bytes"}
    total = "_total" if kind == "counter" else ""
    return name.replace(".", "_") + words.get(unit, "") + total


def test_a_collector_gives_each_metric_the_name_that_the_host_has_for_it() -> None:
    for family in (*SUPERVISOR_FAMILIES, MetricFamily("agentrail_resident_memory_bytes", "gauge", "…")):
        name, unit = instrument_name(family)
        assert prometheus_name(name, unit, family.kind) == family.name


async def test_durations_and_tokens_are_counted_by_the_names_of_the_conventions() -> None:
    reader, spans = InMemoryMetricReader(), Spans()
    used = Usage(input_tokens=10, output_tokens=5)
    script: list[Element] = [
        transient(),
        say(calls=[call("remove", {"path": "a"})], usage=used),
        say("done", usage=used),
    ]
    async with watched(spans, reader=reader) as supervisor:
        spec = SessionSpec(model=ScriptedModel(script), name="clerk", tools=[remove], retry_base=0.0)
        session = await supervisor.spawn(spec)
        await session.ask("go")
        await until(lambda: len(list(spans)) == 5)
        now = points(reader)
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
    }
    good = {**chat, "gen_ai.response.model": "scripted"}
    assert now["gen_ai.client.operation.duration"] == [({**chat, "error.type": "transient"}, 1), (good, 2)]
    assert now["gen_ai.client.token.usage"] == [
        ({**good, "gen_ai.token.type": "input"}, 2),
        ({**good, "gen_ai.token.type": "output"}, 2),
    ]
    assert now["gen_ai.client.operation.time_to_first_chunk"] == [(good, 1)]  # a call alone comes at once
    turn = {"gen_ai.agent.name": "clerk", "gen_ai.request.model": "scripted"}
    assert now["gen_ai.invoke_agent.duration"] == [(turn, 1)]
    tool = {"gen_ai.tool.name": "remove", "gen_ai.tool.type": "function", "gen_ai.agent.name": "clerk"}
    assert now["gen_ai.execute_tool.duration"] == [(tool, 1)]
    assert dict(outcome(point) for point in now["agentrail.spans"]) == {"exported": 5, "failed": 0, "dropped": 0}


def outcome(point: tuple[Mapping[str, object], float]) -> tuple[object, float]:
    return point[0]["outcome"], point[1]


class Broken(MetricExporter):
    """An exporter of metrics that raises."""

    def export(self, *_: object, **__: object) -> MetricExportResult:
        raise ConnectionError("refused")

    def force_flush(self, timeout_millis: float = 0) -> bool:
        return False

    def shutdown(self, timeout_millis: float = 0, **__: object) -> None:
        raise RuntimeError("never opened")


async def test_metrics_that_cannot_be_exported_disturb_nobody() -> None:
    telemetry = OpenTelemetry(metrics=[PeriodicExportingMetricReader(Broken(), 3_600_000)], flush_within=1)
    async with open_supervisor(telemetry=telemetry) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["done"])))
        assert (await session.ask("go")).text == "done"


@pytest.mark.long
async def test_metrics_may_be_read_while_sessions_change_them() -> None:
    reader, spans = InMemoryMetricReader(), Spans()
    async with watched(spans, reader=reader) as supervisor, open_nursery() as nursery:
        for number in range(30):
            model = ScriptedModel(["done"], repeat_last=True)
            session = await supervisor.spawn(SessionSpec(model=model), tenant=f"t{number}")
            nursery.start_soon(session.ask, "go")
            assert isinstance(points(reader)["agentrail.sessions"], list)
