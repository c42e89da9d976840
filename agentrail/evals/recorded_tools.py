"""Tools that answer as they did in a real session, or by a fixed text, and never run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

import trio

from agentrail import SessionSpec
from agentrail.errors import BadTool, UsageError
from agentrail.evals.calls import RecordedCall, is_same_json
from agentrail.evals.cases import Case
from agentrail.models import JsonObject
from agentrail.tools import NotStarted, Probed, Tool, ToolContext, ToolResult, ToolSpec, as_tool, err, ok

UNRECORDED: Final = "no answer to this call is recorded"
"""Text of the result of a call that the real session never made."""


class _StandIn:
    """What stands in for a tool that is never to run."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec
        """What the model is told: the same as of the real tool."""

    async def probe(self, key: str) -> Probed:
        """Tell that an interrupted call never ran."""
        del key
        await trio.lowlevel.checkpoint()
        return NotStarted()


class RecordedTool(_StandIn):
    """Answers as the tool of a real session did, in the order of then; the tool itself never runs."""

    def __init__(self, spec: ToolSpec, calls: Sequence[RecordedCall]) -> None:
        super().__init__(spec)
        self._calls = [call for call in calls if call.name == spec.name and call.result is not None]
        """The recorded calls that have a result."""
        self._used = set[int]()
        """Indices of the recorded calls that have answered."""

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Answer as the first call with these arguments that has not answered yet, else as the last one."""
        del ctx
        await trio.lowlevel.checkpoint()
        same = [index for index, call in enumerate(self._calls) if is_same_json(call.ran_with, args)]
        if not same:
            return err(UNRECORDED)
        index = next((index for index in same if index not in self._used), same[-1])
        self._used.add(index)
        call = self._calls[index]
        return (err if call.is_error else ok)(call.result or "")


class FixedTool(_StandIn):
    """Answers each call by the same text; the tool itself never runs."""

    def __init__(self, spec: ToolSpec, text: str) -> None:
        super().__init__(spec)
        self._text = text
        """The answer."""

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Answer the call."""
        del args, ctx
        await trio.lowlevel.checkpoint()
        return ok(self._text)


def with_case_tools(spec: SessionSpec, case: Case) -> SessionSpec:
    """Return *spec* with tools that answer as *case* says; raise `UsageError` if it lacks one of the case."""
    if case.tools == "live":
        return spec
    if isinstance(case.tools, dict):
        return spec.but(tools=_fixed(spec, case, case.tools))
    if spec.agents:
        problem = "its tools are to answer as recorded, and sub-agents would really run; give it `tools` of `live`"
        raise UsageError("bad-case", case.name, problem)
    tools, sources = _split(spec.tools)
    names = {tool.spec.name for tool in tools}
    missing = sorted({call.name for call in case.recorded if call.result is not None} - names)
    if missing and not sources and not spec.plugins:
        raise UsageError("bad-case", case.name, f"the agent has no tool `{missing[0]}`, which its session called")
    specs = [tool.spec for tool in tools]
    if sources:  # a server is not started: of its tools, the called ones are there, with whatever arguments
        specs += [ToolSpec(name, "", {"type": "object"}) for name in missing]
    return spec.but(tools=[RecordedTool(tool_spec, case.recorded) for tool_spec in specs])


def _fixed(spec: SessionSpec, case: Case, texts: Mapping[str, str]) -> list[object]:
    """Return the tools of *spec*, those that *texts* name in a form that answers by its text."""
    tools, sources = _split(spec.tools)
    missing = sorted(texts.keys() - {tool.spec.name for tool in tools})
    if missing:
        raise UsageError("bad-case", case.name, f"the agent has no tool `{missing[0]}`, whose answer the case gives")
    fixed = [FixedTool(tool.spec, texts[tool.spec.name]) if tool.spec.name in texts else tool for tool in tools]
    return [*fixed, *sources]


def _split(items: Sequence[object]) -> tuple[list[Tool], list[object]]:
    """Return the tools among *items*, and the rest: sources of tools, such as MCP servers."""
    tools, sources = list[Tool](), list[object]()
    for item in items:
        try:
            tools.append(as_tool(item))
        except BadTool:
            if not hasattr(item, "supply"):
                raise
            sources.append(item)
    return tools, sources


def shown_call(name: str, args: Mapping[str, object]) -> str:
    """Return a call as people read it, cut to one line."""
    return f"{name}({json.dumps(args, default=str)})"[:200]
