"""Over the wire: OTLP from a program and from `agentrail serve`, read by the messages of OpenTelemetry."""

from __future__ import annotations

import asyncio
import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
import trio
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agentrail import SessionSpec, aio, connect, open_supervisor
from agentrail.host import Host, Profile
from agentrail.host.served_file import NothingToServeError, ServedFile, find_host
from agentrail.journals import SqliteJournal
from agentrail.telemetry import OpenTelemetry
from agentrail.testing import ScriptedModel
from tests.adapters.otel.test_conventions import remove
from tests.patience import PATIENCE
from tests.runtime.world import until


class Collector(ThreadingHTTPServer):
    """A collector at a port of its own."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

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


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector."""
    server = Collector()
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server


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
    host, _ = find_host(ServedFile(otel=True))
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
        find_host(ServedFile(file, otel=True))
    host, _ = find_host(ServedFile(file))
    assert isinstance(host.telemetry, OpenTelemetry)


async def test_a_host_exports_too(collector: Collector) -> None:
    host = Host([Profile("demo", SessionSpec(model=ScriptedModel(["done"]), name="desk"))], telemetry=OpenTelemetry())
    async with host.serving() as serving, httpx.AsyncClient(timeout=PATIENCE) as client:
        assert (await client.get(f"{serving.url}/healthz")).status_code == 200
        session = await serving.supervisor.spawn(SessionSpec(model=ScriptedModel(["done"]), name="desk"))
        await session.ask("go")
    assert {span.name for span in collector.spans} == {"invoke_agent desk", "chat scripted"}


VICTIM = """
import asyncio
import sys
import trio
from agentrail import SessionSpec, open_supervisor
from agentrail.journals import SqliteJournal
from agentrail.telemetry import OpenTelemetry
from agentrail.testing import ScriptedModel, stall
from tests.adapters.otel.test_conventions import remove
from tests.adapters.otel.test_spans import removing


async def main():
    async with open_supervisor(journal=SqliteJournal(sys.argv[1]), telemetry=OpenTelemetry(delay=0)) as supervisor:
        model = ScriptedModel([removing("a"), stall(text="I had begun")])
        session = await supervisor.spawn(SessionSpec(model=model, name="clerk", tools=[remove]), "s")
        await session.prompt("go")
        await trio.sleep_forever()


trio.run(main)
"""


@pytest.mark.long
async def test_a_turn_whose_process_is_killed_is_one_trace_in_which_no_span_is_twice(
    collector: Collector, tmp_path: Path
) -> None:
    path = tmp_path / "kept.db"
    command = [sys.executable, "-c", VICTIM, str(path)]
    async with trio.open_nursery() as nursery:
        victim = await nursery.start(partial(trio.run_process, command, check=False, cwd=Path(__file__).parents[3]))
        await until(lambda: len(collector.spans) == 2)
        victim.kill()
    async with open_supervisor(journal=SqliteJournal(path), telemetry=OpenTelemetry()) as supervisor:
        spec = SessionSpec(model=ScriptedModel(["done"]), name="clerk", tools=[remove])
        session = await supervisor.resume("s", spec)
        await until(lambda: session.status().phase == "idle")
    spans = collector.spans
    assert sorted(span.name for span in spans) == [
        *["chat scripted"] * 3,
        "execute_tool remove",
        *["invoke_agent clerk"] * 2,
    ]
    assert len({span.span_id for span in spans}) == len(spans)
    assert len({span.trace_id for span in spans}) == 1
    first, second = [span for span in spans if span.name == "invoke_agent clerk"]
    assert [link.span_id for link in second.links] == [first.span_id]
    parents = [span.parent_span_id for span in spans if span.name != "invoke_agent clerk"]
    assert parents == [first.span_id] * 3 + [second.span_id]


def test_a_program_on_asyncio_exports_too(collector: Collector) -> None:
    async def main() -> None:
        async with aio.open_supervisor(telemetry=OpenTelemetry()) as supervisor:
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["done"]), name="desk"))
            await session.ask("go")

    asyncio.run(main())
    assert sorted(span.name for span in collector.spans) == ["chat scripted", "invoke_agent desk"]
