"""Tools of servers that speak the Model Context Protocol; it needs the extra `mcp`."""

from agentrail.adapters.mcp.server import McpServer

__all__ = ["McpServer"]
