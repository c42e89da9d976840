"""Tools that answer as they did in a real session, or by a fixed text, and never run."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from types import new_class
from typing import Final, TypeAlias

import attrs
import trio

from agentrail import Handoff, Plugin, SessionSpec
from agentrail.errors import BadTool, UsageError
from agentrail.evals.calls import RecordedCall, is_same_json
from agentrail.evals.cases import Case
from agentrail.models import JsonObject
from agentrail.plugins import Attachable, BroughtTools, Keyed
from agentrail.tools import (
    NotStarted,
    Probed,
    Tool,
    ToolContext,
    ToolResult,
    ToolSpec,
    as_tool,
    err,
    message_tools,
    ok,
    task_tools,
)

UNRECORDED: Final = "no answer to this call is recorded"
"""Text of the result of a call that the real session never made."""

ANY_ARGS: Final[JsonObject] = {"type": "object"}
"""Schema of the arguments of a tool of which only the name is known."""

BUILT_IN: Final = frozenset({"find_tools", "call_tool", "read_skill"})
"""Tools that agentrail adds to a session, and that only look at the agent itself: they are not replaced."""

AnswerCall: TypeAlias = Callable[[str, JsonObject], ToolResult]
"""Returns the result of a call, by the name of its tool and its arguments."""


class ToolStandIn:
    """Stands in for a tool, which never runs."""

    def __init__(self, spec: ToolSpec, answer: AnswerCall) -> None:
        self.spec = spec
        """What the model is told: the same as of the real tool."""
        self._answer = answer
        """Returns the result of a call."""

    def __hash__(self) -> int:
        """Return a number for the object: so it counts as a value, which a plugin may have as an option."""
        return id(self)

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Answer the call."""
        del ctx
        await trio.lowlevel.checkpoint()
        return self._answer(self.spec.name, args)

    async def probe(self, key: str) -> Probed:
        """Tell that an interrupted call never ran."""
        del key
        await trio.lowlevel.checkpoint()
        return NotStarted()


class _RecordedAnswers:
    """The results of the calls of a real session, in the order of then."""

    def __init__(self, calls: Iterable[RecordedCall]) -> None:
        self._calls = [call for call in calls if call.result is not None]
        """The recorded calls that have a result."""
        self._used = set[int]()
        """Indices of the recorded calls that have answered."""

    def answer(self, name: str, args: JsonObject) -> ToolResult:
        """Answer as the first call with this name and arguments that has not answered yet, else as the last one."""
        same = [
            index for index, call in enumerate(self._calls) if call.name == name and is_same_json(call.ran_with, args)
        ]
        if not same:
            return err(UNRECORDED)
        index = next((index for index in same if index not in self._used), same[-1])
        self._used.add(index)
        call = self._calls[index]
        return (err if call.is_error else ok)(call.result or "")


def with_case_tools(spec: SessionSpec, case: Case) -> SessionSpec:
    """Return *spec* with tools that answer as *case* says; raise `UsageError` if it lacks one of the case."""
    if case.tools == "live":
        return spec
    names, has_source = _tool_names(spec), any(map(_is_source, spec.tools))
    if isinstance(case.tools, dict):
        texts = case.tools
        missing = sorted(texts.keys() - names)
        if missing:
            more = "; tools of an MCP server answer as recorded, or all run" if has_source else ""
            problem = f"the agent has no tool `{missing[0]}`, whose answer the case gives{more}"
            raise UsageError("bad-case", case.name, problem)
        fixed = _StandIns(lambda name, _: ok(texts[name]) if name in texts else err(UNRECORDED), frozenset(texts))
        return fixed.in_session(spec, ())
    missing = sorted({call.name for call in case.recorded if call.result is not None} - names - BUILT_IN)
    if missing and not has_source:
        problem = f"the agent has no tool `{missing[0]}`, which its session called; give it one, or take the call out"
        raise UsageError("bad-case", case.name, problem)
    # a server is not started: of its tools, the called ones are there, with whatever arguments
    return _StandIns(_RecordedAnswers(case.recorded).answer, None).in_session(
        spec, [_known_by_name(name) for name in missing]
    )


class _StandIns:
    """Puts stand-ins in place of the tools of specifications."""

    def __init__(self, answer: AnswerCall, names: frozenset[str] | None) -> None:
        self._answer = answer
        """Returns the result of a call of a stand-in."""
        self._names = names
        """Names of the tools that are replaced; `None` if all are, so that no source of tools is started."""

    def in_session(self, spec: SessionSpec, more: Iterable[ToolSpec]) -> SessionSpec:
        """Return *spec* with stand-ins, and some for *more*: in its plugins and the agents of its handoffs, too."""
        agent = self._in_agent(spec)
        tools = (*agent.tools, *(ToolStandIn(tool_spec, self._answer) for tool_spec in more))
        replaced = agent.but(tools=tools, plugins=[self._in_plugin(item) for item in spec.plugins])
        lost = _named_by_plugins(spec) & (_names_below(spec) - _tool_names(replaced))
        if self._names is None and any(map(_is_source, spec.tools)):
            lost = _named_by_plugins(spec) - _tool_names(replaced)
        if not lost:
            return replaced
        return replaced.but(plugins=(*replaced.plugins, NamesOfRecordedTools(tuple(sorted(lost)))))

    def _in_agent(self, spec: SessionSpec) -> SessionSpec:
        """Return *spec* without sources and sub-agents if these are replaced, and with stand-ins for their tools."""
        tools: list[object] = []
        for item in spec.tools:
            if not _is_source(item):
                tools.append(self._tool(as_tool(item)))
            elif self._names is not None:
                tools.append(item)
        handoffs = [self._handoff(item) for item in spec.handoffs]
        starters = _task_tools(spec)
        if not any(map(self._is_replaced, starters)):
            return spec.but(tools=tools, handoffs=handoffs)
        # without sub-agents, so all tools for them are replaced; a session without them refuses what `requires` them
        tools += [ToolStandIn(tool.spec.but(requires=frozenset[str]()), self._answer) for tool in starters]
        return spec.but(tools=tools, handoffs=handoffs, agents={})

    def _handoff(self, item: SessionSpec | Handoff | str) -> SessionSpec | Handoff | str:
        if isinstance(item, str):
            return item
        if isinstance(item, Handoff):
            return item if isinstance(item.agent, str) else item.but(agent=self._handoff(item.agent))
        return self._in_agent(item).but(plugins=())  # those of the session hold for it

    def _in_plugin(self, item: Attachable) -> Attachable:
        """Return the plugin with stand-ins for the tools that it brings: a copy, of a class that declares these."""
        if isinstance(item, Keyed):
            return item.but(plugin=self._in_plugin(item.plugin))
        if not any(isinstance(declaration, BroughtTools) for declaration in item.declarations):
            return item
        declarations = tuple(
            BroughtTools(tuple(self._tool(as_tool(tool)) for tool in declaration.tools))
            if isinstance(declaration, BroughtTools)
            else declaration
            for declaration in item.declarations
        )
        cls = type(item)
        members: dict[str, object] = {"__slots__": (), "__module__": cls.__module__, "__doc__": cls.__doc__}
        members["declarations"] = property(lambda _: declarations)  # a property hides an attribute of the object, too
        replaced = copy.copy(item)
        stand_in = new_class(cls.__name__, (cls,), exec_body=lambda namespace: namespace.update(members))
        object.__setattr__(replaced, "__class__", stand_in)  # a plugin is frozen
        return replaced

    def _tool(self, tool: Tool) -> Tool:
        return ToolStandIn(tool.spec, self._answer) if self._is_replaced(tool) else tool

    def _is_replaced(self, tool: Tool) -> bool:
        return self._names is None or tool.spec.name in self._names


@attrs.frozen
class NamesOfRecordedTools(Plugin[None]):
    """Offers tools that nobody attaches, because other plugins of an agent name them: they were of its sub-agents."""

    names: tuple[str, ...]
    """Names of the tools."""

    @property
    def declarations(self) -> tuple[BroughtTools]:
        """The tools, which answer each call by an error."""
        return (BroughtTools(tuple(ToolStandIn(_known_by_name(name), _no_answer) for name in self.names)),)


def _known_by_name(name: str) -> ToolSpec:
    """Return what the model is told of a tool of which the records have only the name."""
    return ToolSpec(name, "A tool of which only the name is recorded.", ANY_ARGS)


def _no_answer(name: str, args: JsonObject) -> ToolResult:
    del name, args
    return err(UNRECORDED)


def _tool_names(spec: SessionSpec) -> set[str]:
    """Return the names of the tools of *spec*, its plugins and its handoffs; those of sources are not known."""
    names = {tool.spec.name for tool in _task_tools(spec)}
    names |= {as_tool(item).spec.name for item in spec.tools if not _is_source(item)}
    for item in spec.plugins:
        plugin = item.plugin if isinstance(item, Keyed) else item
        for declaration in plugin.declarations:
            if isinstance(declaration, BroughtTools):
                names |= {tool.spec.name for tool in declaration.tools}
    for handoff in spec.handoffs:
        agent = handoff.agent if isinstance(handoff, Handoff) else handoff
        names.add(f"transfer_to_{agent if isinstance(agent, str) else agent.name}")
        if not isinstance(agent, str):
            names |= _tool_names(agent)
    return names


def _names_below(spec: SessionSpec) -> set[str]:
    """Return the names of the tools of the sub-agents of *spec*, and of theirs."""
    return {name for agent in spec.agents.values() for name in _tool_names(agent) | _names_below(agent)}


def _named_by_plugins(spec: SessionSpec) -> set[str]:
    """Return the tools that options of the plugins of *spec* name."""
    plugins = [item.plugin if isinstance(item, Keyed) else item for item in spec.plugins]
    return {name for plugin in plugins for name in plugin.tools_named}


def _task_tools(spec: SessionSpec) -> tuple[Tool, ...]:
    """Return the tools that start sub-agents of *spec*, and look after them."""
    talk = any(tool in message_tools()[:1] for agent in spec.agents.values() for tool in agent.tools)
    descriptions = {name: agent.description for name, agent in spec.agents.items()}
    return task_tools(descriptions, spec.max_agent_seconds, talk=talk)


def _is_source(item: object) -> bool:
    """Whether *item* is a source of tools, such as an MCP server; raise `BadTool` if it is no tool either."""
    try:
        as_tool(item)
    except BadTool:
        if not hasattr(item, "supply"):
            raise
        return True
    return False


def shown_call(name: str, args: Mapping[str, object]) -> str:
    """Return a call as people read it, cut to one line."""
    return f"{name}({json.dumps(args, default=str)})"[:200]
