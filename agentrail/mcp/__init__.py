"""Tools of servers that speak the Model Context Protocol; it needs the extra `mcp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.adapters.mcp import McpServer as McpServer

_HOMES = {
    "McpServer": "agentrail.adapters.mcp",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the names are the keys of `_HOMES`
__getattr__, __dir__ = lazily(__name__, _HOMES)
