"""`SlashCommand`, one command of `SlashCommands`, and the table that finds the one that a message means."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, cast

from agentrail.errors import BadOptions
from agentrail.host.access.identity import Identity
from agentrail.host.plugins.command_plugin import HostCommand
from agentrail.host.plugins.host_plugin import PluginHost
from agentrail.host.plugins.plugin_values import HandledResponse, Request
from agentrail.values.foreign import plain_text, shown
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.value import Authored

LONGEST: Final = 64
"""The most characters of a command's name."""

_NAME: Final = re.compile(r"/[a-z][a-z0-9_-]*(?: [a-z][a-z0-9_-]*)*", re.ASCII)
_LIKE: Final = re.compile(r"(/[A-Za-z][A-Za-z0-9_-]*)(?:\s|\Z)", re.ASCII)

PLUGIN: Final = "SlashCommands"


class Invocation(Authored, gc=True):
    """A command that somebody has said."""

    name: str
    """Name of the command, with its slash."""
    arguments: str
    """What follows the name, without spaces around it; empty if nothing does."""
    request: Request
    """The request: who said it, and in `request.context.session_id` to which session."""
    host: PluginHost
    """The host."""

    async def call(self, name: str, body: JsonObject = EMPTY) -> HandledResponse:
        """Carry out the call *name* of the host about the session, with what the person may do: see `PluginHost`."""
        return await self.host.call(name, self.request, body)


CommandAnswer: TypeAlias = str | HandledResponse
"""What a command answers: a text, which looks like the reply of an agent, or a response of its own."""
RunCommand: TypeAlias = Callable[[Invocation], CommandAnswer | Awaitable[CommandAnswer]]


def for_everybody(_: Identity) -> bool:
    """Return true: the command is there for all."""
    return True


class SlashCommand(HostCommand, gc=True):
    """A command that is said in place of a message.

    Its name has a slash and words of lower-case letters, digits, `-` and `_`, such as `/ping` or `/memory clear`;
    `about` is one line, for `/help` and `GET /v1/commands`.
    """

    run: RunCommand
    """Function that carries it out; it may be async."""
    available: Callable[[Identity], bool] = for_everybody
    """Function that says who has the command; for others, it is as if it were not there."""


def check_command(found: object) -> None:
    """Raise `BadOptions` if *found* is no command that can be used."""
    if not isinstance(found, SlashCommand):
        raise BadOptions(PLUGIN, f"`commands` has {shown(found)}; give objects of `SlashCommand`")
    name, about = plain_text(cast("object", found.name)) or "", plain_text(cast("object", found.about))
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        wanted = f"a slash and words of lower-case letters, digits, `-` and `_`, at most {LONGEST} characters"
        raise BadOptions(PLUGIN, f"{shown(found.name)} is no name of a command: it has {wanted}")
    if not about or not about.isprintable():
        raise BadOptions(PLUGIN, f"`about` of `{name}` must be one line of text")
    if not all(map(callable, (found.run, found.available))):
        raise BadOptions(PLUGIN, f"`run` and `available` of `{name}` must be functions")


class CommandTable:
    """Finds the command that a message means."""

    def __init__(self, commands: Sequence[SlashCommand]) -> None:
        known: dict[str, SlashCommand] = {}
        for command in cast("Sequence[object]", commands):
            check_command(command)
        for command in commands:
            if command.name in known:
                advice = "call yours differently, or leave the other out of `shipped`"
                raise BadOptions(PLUGIN, f"there are two commands `{command.name}`; {advice}")
            known[command.name] = command
        self._by_name = {name: known[name] for name in sorted(known)}
        self._longest_first = sorted(known, key=len, reverse=True)

    def available(self, who: Identity) -> tuple[SlashCommand, ...]:
        """Return the commands that *who* has, by name."""
        return tuple([command for command in self._by_name.values() if command.available(who)])

    def find(self, message: str, who: Identity) -> tuple[SlashCommand, str] | None:
        """Return the command at the beginning of *message* with the longest name, and what follows it.

        Return `None` if there is none that *who* has.
        """
        for name in self._longest_first:
            rest = message.removeprefix(name)
            if len(rest) < len(message) and (not rest or rest[0].isspace()):
                command = self._by_name[name]
                if command.available(who):
                    return command, rest.strip()
        return None


def looked_like(message: str) -> str | None:
    """Return the word at the beginning of *message* that looks like the name of a command; `None` if none does.

    A path, such as `/etc/hosts`, does not.
    """
    found = _LIKE.match(message)
    return None if found is None else found[1]
