"""Exports what sessions do to OpenTelemetry; it needs the extra `otel`."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, "otel")
