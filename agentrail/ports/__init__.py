"""Protocols of journals, models, sandboxes, tools and the web, which adapters implement for the runtime.

The runtime implements two for tools: `Agents` and `Jobs`. Failpoints are here too.
"""
