"""Over the wire: OTLP from a program and from `agentrail serve`, read by the messages of OpenTelemetry."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agentrail import SessionSpec, connect, open_supervisor
from agentrail.host import Host, Profile
from agentrail.host.serve_command import NothingToServeError, find_host, parsed
from agentrail.telemetry import OpenTelemetry
from agentrail.testing import ScriptedModel


class Collector(ThreadingHTTPServer):
    """A collector at a port of its own."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def services(self) -> set[str]:
        resources = [resource.resource for request in self.traces for resource in request.resource_spans]
        resources += [resource.resource for request in self.metrics for resource in request.resource_metrics]
        return {
            pair.value.string_value
            for resource in resources
            for pair in resource.attributes
            if pair.key == "service.name"
        }

    @property
    def metric_names(self) -> set[str]:
        return {
            metric.name
            for request in self.metrics
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        collector = self.server
        assert isinstance(collector, Collector)
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path == "/v1/traces":
            collector.traces.append(ExportTraceServiceRequest.FromString(body))
        else:
            assert self.path == "/v1/metrics"
            collector.metrics.append(ExportMetricsServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    server = Collector()
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


async def test_one_line_exports_spans_and_metrics_to_where_the_environment_says(collector: Collector) -> None:
    telemetry = OpenTelemetry()
    async with open_supervisor(telemetry=telemetry) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["done"]), name="clerk"), "s")
        await session.ask("go")
    assert telemetry.counts == (2, 0, 0)
    request, turn = sorted(collector.spans, key=lambda span: span.name)
    assert (turn.name, request.name) == ("invoke_agent clerk", "chat scripted")
    assert request.parent_span_id == turn.span_id
    assert request.trace_id == turn.trace_id
    assert collector.services == {"agentrail"}
    assert {"agentrail.sessions", "gen_ai.client.operation.duration", "agentrail.spans"} <= collector.metric_names


async def test_exports_can_be_switched_off_by_the_environment(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "desk")
    async with open_supervisor(telemetry=OpenTelemetry()) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["done"])))
        await session.ask("go")
    assert len(collector.spans) == 2
    assert collector.services == {"desk"}
    assert not collector.metrics
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    async with open_supervisor(telemetry=OpenTelemetry()) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["done"])))
        await session.ask("go")
    assert len(collector.spans) == 2


@pytest.mark.long
async def test_serve_exports_with_an_option(collector: Collector) -> None:
    host, _ = find_host(parsed(["--otel", "--port", "0"]))
    async with host.serving() as serving:
        url, _, token = serving.entry.partition("/#token=")
        async with connect(url, token) as supervisor:
            session = await supervisor.open("s", "demo")
            await session.ask("hello")
    assert {span.name.partition(" ")[0] for span in collector.spans} >= {"invoke_agent", "chat"}
    assert "agentrail.turns" in collector.metric_names


def test_a_host_with_telemetry_of_its_own_is_not_given_another(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(
        "from agentrail import SessionSpec\nfrom agentrail.host import Host, Profile\n"
        "from agentrail.telemetry import OpenTelemetry\n"
        "host = Host([Profile('demo', SessionSpec(model='demo'))], telemetry=OpenTelemetry())\n"
    )
    with pytest.raises(NothingToServeError, match="--otel: it has a `telemetry` of its own"):
        find_host(parsed([str(file), "--otel"]))
    host, _ = find_host(parsed([str(file)]))
    assert isinstance(host.telemetry, OpenTelemetry)


async def test_a_host_exports_too(collector: Collector) -> None:
    host = Host([Profile("demo", SessionSpec(model=ScriptedModel(["done"]), name="desk"))], telemetry=OpenTelemetry())
    async with host.serving() as serving, httpx.AsyncClient() as client:
        assert (await client.get(f"{serving.url}/healthz")).status_code == 200
        session = await serving.supervisor.spawn(SessionSpec(model=ScriptedModel(["done"]), name="desk"))
        await session.ask("go")
    assert {span.name for span in collector.spans} == {"invoke_agent desk", "chat scripted"}
