"""The phrases that the demo understands, kind by kind."""

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
"""The phrasings of each kind; kinds and phrasings in the order in which they are tried."""
