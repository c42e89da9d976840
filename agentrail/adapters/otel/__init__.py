"""OpenTelemetry: spans folded from records, metrics, and their export. It needs the extra `otel`."""
