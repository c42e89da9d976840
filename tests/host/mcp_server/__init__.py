"""The MCP server of a host."""
