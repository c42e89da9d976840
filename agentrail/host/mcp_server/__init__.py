"""A session as a tool of an MCP server, over HTTP and over standard input and output."""
