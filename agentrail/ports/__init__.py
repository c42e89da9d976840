"""Protocols that the runtime uses and adapters implement: journals, models, sandboxes, tools, web; and failpoints."""
