from agentrail.adapters.otel.open_telemetry import OpenTelemetry as OpenTelemetry
from agentrail.adapters.otel.span_export import SpanCounts as SpanCounts
from agentrail.ports.instrumentation import MetricFamily as MetricFamily
from agentrail.ports.instrumentation import MetricSource as MetricSource
from agentrail.ports.instrumentation import RecordListener as RecordListener
from agentrail.ports.instrumentation import Sample as Sample
from agentrail.ports.instrumentation import Telemetry as Telemetry
