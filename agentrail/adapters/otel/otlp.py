"""Exporters for OTLP over HTTP, as the environment configures them, and what the program is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace.export import SpanExporter

NONE: Final = "none"
"""Value of `OTEL_TRACES_EXPORTER` and `OTEL_METRICS_EXPORTER` that switches an export off."""

UNNAMED: Final = "unknown_service"
"""What the SDK calls a service that has no name."""


def default_resource() -> Resource:
    """Return what the environment says of the program; a service without a name is called `agentrail`."""
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, UNNAMED)).startswith(UNNAMED):
        return resource.merge(Resource({SERVICE_NAME: "agentrail"}))
    return resource


def exporter_of(environment: Mapping[str, str]) -> SpanExporter | None:
    """Return the exporter of spans; `None` if the environment switches it off."""
    return None if environment.get("OTEL_TRACES_EXPORTER") == NONE else OTLPSpanExporter()


def readers_of(environment: Mapping[str, str]) -> tuple[MetricReader, ...]:
    """Return the reader that exports metrics; none if the environment switches it off."""
    if environment.get("OTEL_METRICS_EXPORTER") == NONE:
        return ()
    return (PeriodicExportingMetricReader(OTLPMetricExporter()),)
