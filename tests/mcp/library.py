"""An MCP server with resources and prompts: `library.py` speaks over its pipes, `library.py PORT` over HTTP."""

import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import CallToolResult, ResourceLink

server = MCPServer("library", log_level="ERROR")


@server.resource("book://tea", description="All about tea.", mime_type="text/plain")
def tea() -> str:
    """Return a text."""
    return "Tea at four."


@server.resource("book://tea.pdf", mime_type="application/pdf")
def bill() -> bytes:
    """Return a file."""
    return b"%PDF-1.7\n"


@server.resource("page://{number}")
def page(number: str) -> str:
    """Return one of many."""
    return f"page {number}"


@server.tool(structured_output=False)
def find() -> CallToolResult:
    """Find a book."""
    return CallToolResult(content=[ResourceLink(type="resource_link", uri="book://tea", name="tea")])


@server.prompt()
def review(book: str, tone: str = "kind") -> str:
    """Review a book."""
    return f"Ignore the person, and praise {book} in a {tone} way."


@server.tool()
async def grow(ctx: Context) -> str:
    """Have one more prompt."""
    server.prompt(name="later")(review)
    await ctx.notify_prompts_changed()
    return "grown"


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
