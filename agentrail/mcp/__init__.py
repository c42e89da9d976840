"""Tools of servers that speak the Model Context Protocol; it needs the extra `mcp`."""

from agentrail.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, extra="mcp")
