"""All phrasings that the demo understands, by kind of tool."""

from __future__ import annotations

from collections.abc import Mapping

from agentrail.adapters.models.demo.phrasings import changing, doing, looking
from agentrail.adapters.models.demo.phrasings.phrasing import Phrasing
from agentrail.adapters.models.demo.tool_kinds import ToolKind

PHRASINGS: Mapping[ToolKind, tuple[Phrasing, ...]] = {
    ToolKind.EDIT: changing.EDIT,
    ToolKind.REMEMBER: doing.REMEMBER,
    ToolKind.WRITE: changing.WRITE,
    ToolKind.READ: looking.READ,
    ToolKind.LIST: looking.LIST,
    ToolKind.RUN: doing.RUN,
    ToolKind.SEARCH: looking.SEARCH,
    ToolKind.COUNT: doing.COUNT,
}
"""The phrasings that ask for each kind of tool. They are tried in this order, and the first that matches counts."""
