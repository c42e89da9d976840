"""Metrics for OpenTelemetry: durations and tokens from spans, and the figures that a host shows to Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.resources import Resource

from agentrail.adapters.otel.conventions import Attribute, attributes_of
from agentrail.adapters.otel.span_export import SpanCounts
from agentrail.adapters.otel.spans import CallSpan, RequestSpan, Span, TurnSpan
from agentrail.ports.instrumentation import MetricFamily, MetricSource
from agentrail.version import __version__

SECONDS_OF_REQUESTS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
SECONDS_TO_FIRST: Final = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
SECONDS_OF_TURNS: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
TOKENS: Final = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
"""Bounds of the ranges of histograms, as the conventions say them."""

OF_REQUEST: Final = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "error.type",
)
OF_TURN: Final = ("gen_ai.agent.name", "gen_ai.request.model", "error.type")
OF_CALL: Final = ("gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.agent.name", "error.type")
"""Attributes of spans that their metrics have too: those of which there are few values."""

KIND_OF_TOKENS: Final = "gen_ai.token.type"
MILLISECONDS: Final = 1000

_UNITS: Final = {"_seconds": "s", "_bytes": "By", "_usd": "{USD}"}


def instrument_name(family: MetricFamily) -> tuple[str, str]:
    """Return the name and the unit of a metric of ours: what a collector shows to Prometheus has the family's name."""
    name = family.name.removesuffix("_total").replace("agentrail_", "agentrail.", 1)
    for suffix, unit in _UNITS.items():
        if name.endswith(suffix):
            return (name if suffix == "_usd" else name.removesuffix(suffix)), unit
    return name, ""


class SpanMetrics:
    """Histograms of the conventions, filled when a span ends."""

    def __init__(self, meter: Meter) -> None:
        self._operations = _histogram(
            meter, "gen_ai.client.operation.duration", "s", "Duration of requests to models.", SECONDS_OF_REQUESTS
        )
        self._tokens = _histogram(
            meter, "gen_ai.client.token.usage", "{token}", "Tokens that requests have read and written.", TOKENS
        )
        self._first_chunks = _histogram(
            meter,
            "gen_ai.client.operation.time_to_first_chunk",
            "s",
            "Time from the sending of requests to the first chunk of their responses.",
            SECONDS_TO_FIRST,
        )
        self._turns = _histogram(meter, "gen_ai.invoke_agent.duration", "s", "Duration of turns.", SECONDS_OF_TURNS)
        self._calls = _histogram(
            meter, "gen_ai.execute_tool.duration", "s", "Duration of tool calls, without holds.", SECONDS_OF_REQUESTS
        )

    def add(self, span: Span) -> None:
        """Count a span that has ended; one that was interrupted is counted with what goes on after it."""
        if span.is_interrupted and not isinstance(span, RequestSpan):
            return
        attributes = attributes_of(span, has_content=False)
        seconds = max(0, span.end - span.start) / MILLISECONDS
        match span:
            case TurnSpan():
                self._turns.record(seconds, _chosen(attributes, OF_TURN))
            case CallSpan(held_ms=held_ms) if span.attempts:
                self._calls.record(max(0.0, seconds - held_ms / MILLISECONDS), _chosen(attributes, OF_CALL))
            case RequestSpan(message=message, first_chunk_ms=first_chunk_ms):
                chosen = _chosen(attributes, OF_REQUEST)
                self._operations.record(seconds, chosen)
                if first_chunk_ms is not None:
                    self._first_chunks.record(first_chunk_ms / MILLISECONDS, chosen)
                if message is not None:
                    self._tokens.record(message.usage.input_tokens, {**chosen, KIND_OF_TOKENS: "input"})
                    self._tokens.record(message.usage.output_tokens, {**chosen, KIND_OF_TOKENS: "output"})
            case _:
                pass


def _chosen(attributes: Mapping[str, Attribute], names: Iterable[str]) -> dict[str, str]:
    """Return the attributes of these names; all of them are texts."""
    return {name: str(attributes[name]) for name in names if name in attributes}


def _histogram(meter: Meter, name: str, unit: str, about: str, bounds: Sequence[float]) -> Histogram:
    return meter.create_histogram(name, unit, about, explicit_bucket_boundaries_advisory=bounds)


class MetricSink:
    """All metrics of a supervisor, for the readers of OpenTelemetry."""

    def __init__(
        self,
        resource: Resource,
        readers: Sequence[MetricReader],
        source: MetricSource,
        counts: Callable[[], SpanCounts],
    ) -> None:
        self._provider = MeterProvider(readers, resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("agentrail", __version__)
        self.spans = SpanMetrics(meter)
        """The histograms that are made from spans."""
        for family in source.families:
            if family.kind == "histogram":
                continue  # OpenTelemetry has no histograms that are observed: those of turns are made from spans
            make = meter.create_observable_counter if family.kind == "counter" else meter.create_observable_gauge
            name, unit = instrument_name(family)
            make(name, [partial(_observe, source, family)], unit, family.about)
        meter.create_observable_counter(
            "agentrail.spans", [partial(_observe_counts, counts)], "{span}", "Spans, by what has become of them."
        )

    def close(self, within: float) -> None:
        """Export the metrics a last time, within *within* seconds. It blocks, and may raise what the readers raise."""
        self._provider.shutdown(within * MILLISECONDS)


def _observe(source: MetricSource, family: MetricFamily, _: CallbackOptions) -> Iterable[Observation]:
    """Return what a metric of ours is now. It is called in the thread of a reader."""
    return [
        Observation(value, dict(zip(family.labels, labels, strict=True))) for labels, value in source.samples(family)
    ]


def _observe_counts(counts: Callable[[], SpanCounts], _: CallbackOptions) -> Iterable[Observation]:
    return [Observation(value, {"outcome": name}) for name, value in counts()._asdict().items()]
