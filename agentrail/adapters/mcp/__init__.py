"""Tools of servers that speak the Model Context Protocol (MCP); they need the extra `mcp`."""

from agentrail.adapters.mcp.server import McpServer

__all__ = ["McpServer"]
