"""Tools on demand in the form of a provider that has one: which requests use it, and what results of it define."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrail.adapters.models.history import Result
from agentrail.adapters.models.settings import Settings
from agentrail.core.tools_on_demand import finder_of
from agentrail.errors import BadModelOptions
from agentrail.values.stream import ModelRequest
from agentrail.values.tools import ToolSpec
from agentrail.values.value import Value

NOT_THEIRS: Final = "`tool_search` is not known to this provider; leave it out, and tools are found without it"


class ToolSearch(Value, gc=True):
    """The provider's own form of tools on demand, for one request."""

    finder: str = ""
    """Name of the tool that finds others; empty if the request does not use the form."""
    tools: Mapping[str, ToolSpec] = {}
    """The deferred tools, by name."""

    def loaded(self, result: Result) -> tuple[ToolSpec, ...]:
        """Return those of the tools that *result* has defined; none if it is no result of the finder."""
        if result.name != self.finder:
            return ()
        return tuple(self.tools[name] for name in result.found if name in self.tools)


NONE: Final = ToolSearch()


def tool_search(request: ModelRequest, settings: Settings) -> ToolSearch:
    """Return the form that *request* uses: none if the option `tool_search` is off, or no tool is deferred."""
    finder = finder_of(request) if settings.tool_search else None
    return NONE if finder is None else ToolSearch(finder.name, {tool.name: tool for tool in request.deferred})


def refuse_tool_search(settings: Settings) -> None:
    """Raise `BadModelOptions` if *settings* want a form that the provider does not have."""
    if settings.tool_search:
        raise BadModelOptions(NOT_THEIRS)
