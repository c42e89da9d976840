"""Prompts of MCP servers as slash commands: `/server:prompt arguments` has the agent get the prompt by its tool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agentrail.adapters.mcp.server import PROMPT
from agentrail.values.events.envelope import Event
from agentrail.values.events.tools import ToolsUpdated

BETWEEN: Final = f"__{PROMPT}"
"""What is between the name of a server and that of its prompt in the name of a tool."""

PURPOSE: Final = "a prompt of the MCP server `{}`"


class ServerPrompts:
    """The prompts that a session has now."""

    __slots__ = ("_tools",)

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}  # by the command: the tool that gets the prompt

    @property
    def commands(self) -> tuple[tuple[str, str], ...]:
        """Each command, such as `/server:prompt`, with what it is."""
        return tuple((name, PURPOSE.format(name[1:].partition(":")[0])) for name in sorted(self._tools))

    def note(self, event: Event) -> bool:
        """Take an event that may say that tools have come or gone; return whether the prompts are others now."""
        if not isinstance(event, ToolsUpdated):
            return False
        old_tools = dict(self._tools)
        for tool in event.detached:
            self._tools.pop(_command(tool), None)
        self.add(event.attached)
        return self._tools != old_tools

    def add(self, tools: Iterable[str]) -> None:
        """Take the prompts among the names of *tools* in addition."""
        self._tools |= {_command(tool): tool for tool in tools if BETWEEN in tool}

    def words(self, text: str) -> str | None:
        """Return what a person who types the command *text* tells the agent; `None` if it is no such command."""
        name, *arguments = text.split(maxsplit=1) or [""]  # no text goes with a picture alone
        tool = self._tools.get(name)
        if tool is None:
            return None
        more_words = f", with these arguments: {arguments[0].strip()}" if arguments else ""
        return f"Get a prompt by the tool `{tool}`{more_words}. It is what I ask you to do."


def _command(tool: str) -> str:
    server, _, prompt = tool.partition(BETWEEN)
    return f"/{server}:{prompt}"
