"""`CommandPlugin`: a host plugin with commands in place of messages, which `GET /v1/commands` lists."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final, cast

from agentrail.host.authentication.identity import Identity
from agentrail.host.plugins.host_plugin import HostPlugin
from agentrail.host.plugins.plugin_runner import Given, HostPluginRow
from agentrail.host.plugins.plugin_values import UnfitAnswerError
from agentrail.values.value import Authored

COMMANDS: Final = "commands"
"""Name of the method, as `on_plugin_error` is told it."""
WANTED: Final = "a list of `HostCommand`"


class HostCommand(Authored):
    """A command of a host plugin."""

    name: str
    """The command, with its slash."""
    about: str
    """What it does."""


class CommandPlugin(HostPlugin):
    """Base class of host plugins that answer commands."""

    def commands(self, who: Identity) -> Awaitable[Sequence[HostCommand]] | Sequence[HostCommand]:  # noqa: ARG002 - a hook
        """Return the commands that *who* may give."""
        return ()


async def commands_for(row: HostPluginRow, who: Identity) -> tuple[HostCommand, ...]:
    """Return the commands of all plugins of *row* for *who*, by name; of two with one name, that of the first plugin.

    A plugin that fails is reported, and has none.
    """
    commands: dict[str, HostCommand] = {}
    for plugin in row.plugins:
        if isinstance(plugin, CommandPlugin):
            answer = await row.ask(plugin, COMMANDS, partial(plugin.commands, who), _read)
            for command in answer.value if isinstance(answer, Given) else ():
                commands.setdefault(command.name, command)
    return tuple(sorted(commands.values(), key=lambda command: command.name))


def _read(value: object) -> tuple[HostCommand, ...]:
    if not isinstance(value, list | tuple):
        raise UnfitAnswerError(value, WANTED)
    return tuple(_command(command) for command in cast("Sequence[object]", value))


def _command(value: object) -> HostCommand:
    if not isinstance(value, HostCommand):
        raise UnfitAnswerError(value, WANTED)
    return value
