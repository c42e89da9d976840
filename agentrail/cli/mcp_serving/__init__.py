"""An MCP client as the face of a session: the Model Context Protocol over standard input and output."""
