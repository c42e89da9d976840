from agentrail.adapters.mcp import McpServer as McpServer
