"""What an MCP server has beside its tools: its resources as text for the model, and its prompts."""

from __future__ import annotations

from typing import Final

from mcp import Client, MCPError
from mcp.types import CallToolResult, PaginatedRequestParams, Prompt, TextContent
from pydantic import ValidationError

MAX_LISTED: Final = 200
"""The most resources, templates or prompts of one list; others are left out."""

MAX_PAGES: Final = 20
"""The most pages of one list that are read: a server may page in a circle."""

MAX_LINE: Final = 500
"""The most characters that are shown of one resource."""


async def list_prompts(client: Client) -> tuple[list[Prompt], list[str]]:
    """Return the server's prompts, and why they could not be listed."""
    prompts: list[Prompt] = []
    if client.server_capabilities.prompts is None:
        return prompts, []
    cursor: str | None = None
    try:
        for _ in range(MAX_PAGES):
            page = await client.session.list_prompts(params=PaginatedRequestParams(cursor=cursor))
            prompts += page.prompts
            cursor = page.next_cursor
            if not cursor or len(prompts) > MAX_LISTED:
                break
    except (MCPError, ValidationError) as error:
        return [], [f"its prompts cannot be listed ({type(error).__name__})"]
    problems = [f"its prompts after the first {MAX_LISTED} are left out"] if len(prompts) > MAX_LISTED else []
    return prompts[:MAX_LISTED], problems


async def has_resources(client: Client) -> bool:
    """Whether the server has a resource or a template now; many servers say that they could have some."""
    if client.server_capabilities.resources is None:
        return False
    try:
        return bool((await client.session.list_resources()).resources or await _templates(client))
    except (MCPError, ValidationError):
        return False


async def list_resources(client: Client) -> CallToolResult:
    """Return the server's resources and templates of such, one on each line."""
    rows: list[str] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.session.list_resources(params=PaginatedRequestParams(cursor=cursor))
        rows += [
            _row(resource.uri, resource.name, resource.mime_type, resource.description) for resource in page.resources
        ]
        cursor = page.next_cursor
        if not cursor or len(rows) > MAX_LISTED:
            break
    lines = rows[:MAX_LISTED]
    if len(rows) > MAX_LISTED or cursor:
        lines.append("[there are more, which are left out]")
    lines += await _templates(client)
    return CallToolResult(content=[TextContent(type="text", text="\n".join(lines) or "there are no resources")])


async def _templates(client: Client) -> list[str]:
    """Return the templates of the first page; a server without any may say that it knows no such request."""
    try:
        page = await client.session.list_resource_templates()
    except MCPError:
        return []
    rows = [
        _row(entry.uri_template, entry.name, entry.mime_type, entry.description) for entry in page.resource_templates
    ]
    return ["Templates, whose {parts} are to be filled in:", *rows[:MAX_LISTED]] if rows else []


def _row(uri: str, name: str, kind: str | None, description: str | None) -> str:
    words = f": {description.strip()}" if description and description.strip() else ""
    return f"{uri} - {name}{f' ({kind})' if kind else ''}{words}".replace("\n", " ")[:MAX_LINE]
