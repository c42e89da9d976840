"""`agentrail tools`: the tools of an agent, what a second run of each would do, and about which a person is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agentrail.app.handoff_agents import transfer_specs
from agentrail.app.session_code import attachments, brought_by, sources_of, tools_of
from agentrail.app.spec import SessionSpec, agents_of
from agentrail.cli.agents.chosen_agent import spec_of
from agentrail.cli.chat_options import ChatOptions
from agentrail.cli.command_options import NamedAgent
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import DONE, json_line
from agentrail.cli.output.screen import clean
from agentrail.cli.output.text_table import aligned
from agentrail.cli.settings.default_agent import Mode
from agentrail.errors.agentrail_error import advice
from agentrail.hooks.attachments import implemented
from agentrail.plugins.approval import HumanApproval
from agentrail.values.json import JsonObject
from agentrail.values.tools import ToolSpec
from agentrail.values.value import Value

WIDTH: Final = 110
"""Columns of a line."""

READS: Final = "unless it reads"
"""In place of `yes`, for a tool whose commands pass without a question if they only read."""


class ListedTool(Value, gc=True):
    """A tool of an agent."""

    spec: ToolSpec
    """Its description."""
    asks: str
    """Whether a person is asked before a call runs: `yes`, `no`, or `READS`."""
    source: str = ""
    """Key of the plugin that may attach it while a session runs; empty if each session has it."""
    agent: str = ""
    """Name of the agent that has it, if a session can be handed over to others; empty if it has no name."""

    @property
    def summary(self) -> str:
        """The first line of its description."""
        return self.spec.description.strip().partition("\n")[0]

    @property
    def as_json(self) -> JsonObject:
        """All facts about the tool, as JSON."""
        spec = self.spec
        return {
            "name": spec.name,
            "effect": spec.effect.value,
            "asks": self.asks,
            "description": spec.description,
            "parameters": spec.parameters,
            "requires": sorted(spec.requires),
            "timeout": spec.timeout,
            "attached_by": self.source or None,
            "agent": self.agent or None,
        }


def main(agent: NamedAgent | None, folder: Path | None, mode: Mode | None, tool: str | None, *, as_json: bool) -> int:
    """Print the tools of the agent, or all of one *tool*, and return the exit status."""
    spec = spec_of(ChatOptions(agent, folder=folder, mode=mode))
    tools = listed_tools(spec)
    if tool is not None:
        names = [listed.spec.name for listed in tools]
        tools = [listed for listed in tools if listed.spec.name == tool]
        if not tools:
            raise BadInputError(f"--tool: there is no tool `{tool}`; {advice(tool, names, 'there are')}")
    if as_json:
        for listed in tools:
            print(json_line(listed.as_json))
    elif tool is not None:
        for listed in tools:
            _show(listed)
    else:
        _list(spec, tools)
    return DONE


def listed_tools(spec: SessionSpec) -> list[ListedTool]:
    """Return the tools of sessions of *spec*, with those that plugins may attach; no MCP server is started.

    Those of agents to which a session can be handed over follow those of the first agent.
    """
    agents = agents_of(spec)
    tools_by_agent = {name: tools_of(agent) for name, agent in agents.items()}
    approvals = [plugin for _, plugin in attachments(spec) if isinstance(plugin, HumanApproval)]
    listed: list[ListedTool] = []
    for name, agent in agents.items():
        specs = (*[tool.spec for tool in tools_by_agent[name].values()], *transfer_specs(agent, agents).values())
        shown_name = name if len(agents) > 1 else ""
        listed += [ListedTool(tool, _asks(tool, approvals), agent=shown_name) for tool in specs]
    for key, plugin in attachments(spec):
        brought = brought_by([plugin], tools_by_agent[spec.name])
        listed += [ListedTool(tool.spec, _asks(tool.spec, approvals), key) for tool in brought.values()]
    return listed


def _asks(spec: ToolSpec, approvals: Sequence[HumanApproval]) -> str:
    asking = [plugin for plugin in approvals if plugin.asks_about(spec.name)]
    if not asking:
        return "no"
    return READS if "shell" in spec.requires and all(plugin.safe_commands for plugin in asking) else "yes"


def _list(spec: SessionSpec, tools: Sequence[ListedTool]) -> None:
    rows: list[tuple[str, ...]] = [("TOOL", "EFFECT", "ASKS", "WHAT IT DOES")]
    rows += [(tool.spec.name, tool.spec.effect.value, tool.asks, tool.summary) for tool in tools]
    if spec.handoffs:
        agents = ("AGENT", *[tool.agent or "-" for tool in tools])
        rows = [(agent, *row) for agent, row in zip(agents, rows, strict=True)]
    for line in aligned(rows, WIDTH):
        print(line)
    for note in _notes(spec, tools):
        print(f"\n{clean(note)}")


def _notes(spec: SessionSpec, tools: Sequence[ListedTool]) -> list[str]:
    notes = [f"From `{source.name}` come more tools, when a session is connected to it." for source in sources_of(spec)]
    notes += [f"`{tool.spec.name}` is attached by `{tool.source}` when it is wanted." for tool in tools if tool.source]
    notes += [f"Sub-agents have tools of their own: {', '.join(spec.agents)}."] if spec.agents else []
    guards = [
        key
        for key, plugin in attachments(spec)
        if "before_tool" in implemented(plugin) and not isinstance(plugin, HumanApproval)
    ]
    if guards:
        notes.append(f"Beside ASKS, these plugins may stop a call or ask about it: {', '.join(guards)}.")
    return notes


def _show(tool: ListedTool) -> None:
    spec = tool.spec
    name = f"{spec.name} of {tool.agent}" if tool.agent else spec.name
    print(f"{name}: {spec.effect.value}, asks: {tool.asks}, at most {spec.timeout:g} seconds a call")
    print(f"\n{clean(spec.description.strip())}\n")
    print(json_line(spec.parameters))
