"""`SlashCommands`: a host plugin that carries out messages such as `/compact` itself, so that no model gets them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence
from typing import Final

from agentrail.errors import AgentrailError, BadChoice, BadOptions, UnknownCommand, WrongType
from agentrail.host.access.identity import Identity
from agentrail.host.plugins.command_plugin import CommandPlugin
from agentrail.host.plugins.hook_answers import UnfitAnswerError
from agentrail.host.plugins.host_plugin import PluginHost
from agentrail.host.plugins.plugin_values import HandledResponse, Request
from agentrail.host.shipped.command_table import (
    PLUGIN,
    CommandAnswer,
    CommandTable,
    Invocation,
    SlashCommand,
    looked_like,
)
from agentrail.host.shipped.shipped_commands import SHIPPED, reply
from agentrail.values.foreign import is_time, plain_text, shown
from agentrail.values.spelling import checked
from agentrail.wire.problems import MEDIA_TYPE, problem_of

UNKNOWN: Final = ("refuse", "pass")
"""What may become of a message that looks like a command and is none: an error is the answer, or the agent gets it."""

DEADLINE: Final = 60.0
"""Seconds that a command may take, if the plugin is given nothing else."""

HELP: Final = "/help"


class SlashCommands(CommandPlugin):
    """Carries out commands that people say in place of a message: `/help`, `/status`, `/compact`, `/fork`, `/model`.

    Give it to the host, with commands of your own if you like, such as
    `SlashCommands([SlashCommand("/ping", "say pong", ping)])` with `def ping(said): return "pong"`. The command with
    the longest name that a message begins with is meant. Its answer looks like the reply of an agent with the stop
    reason `command`; no turn begins, and no model gets it.

    The shipped commands are calls of the host: whoever may not make the call, has not the command. It is critical: if a
    command fails or takes too long, the request is refused, and the message does not go to the agent.
    """

    name = "slash-commands"
    critical = True

    @checked
    def __init__(
        self,
        commands: Sequence[SlashCommand] = (),
        *,
        shipped: Sequence[str] = tuple(SHIPPED),
        unknown: str = "refuse",
        deadline: float = DEADLINE,
    ) -> None:
        """Have *commands*, those of the *shipped* ones that are named, and `/help`.

        A message that looks like a command and is none is answered by an error that names the nearest one; with
        *unknown* `"pass"`, the agent gets it. A path such as `/etc/hosts` does not look like one, and a message that
        begins with a space is never one. Each command may take *deadline* seconds.
        """
        if unknown not in UNKNOWN:
            raise BadChoice.among("unknown", unknown, UNKNOWN)
        for name in shipped:
            if name not in SHIPPED:
                raise BadChoice.among("shipped", plain_text(name) or shown(name), SHIPPED)
        if not is_time(deadline):
            raise WrongType("deadline", shown(deadline), "a number of seconds above 0")
        own = SlashCommand(HELP, "list the commands: /help [COMMAND]", self._help)
        self._table = CommandTable([*commands, *[SHIPPED[name] for name in SHIPPED if name in shipped], own])
        self._refuses = unknown == "refuse"
        self._host: PluginHost | None = None
        self.deadline = deadline

    def start(self, host: PluginHost) -> None:
        """Note the host, of which commands make calls."""
        self._host = host

    async def intercept(self, request: Request) -> HandledResponse | None:
        """Carry out the command that the message is, if it is one."""
        found = self._table.find(request.message, request.identity)
        if found is None:
            return self._unknown(request)
        command, arguments = found
        if self._host is None:
            raise BadOptions(PLUGIN, "it was not started")
        answer = command.run(Invocation(command.name, arguments, request, self._host))
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, HandledResponse):
            return answer
        text = plain_text(answer)
        if text is None:
            raise UnfitAnswerError(answer, f"a text or a `HandledResponse`, from `{command.name}`")
        return reply(text, request.context.session_id)

    def commands(self, who: Identity) -> Sequence[SlashCommand]:
        """Return the commands that *who* has, by name."""
        return self._table.available(who)

    def _unknown(self, request: Request) -> HandledResponse | None:
        word = looked_like(request.message) if self._refuses else None
        if word is None:
            return None
        return _refusal(UnknownCommand.among(word, self._names(request.identity)), request)

    def _names(self, who: Identity) -> list[str]:
        return [command.name for command in self.commands(who)]

    def _help(self, said: Invocation) -> CommandAnswer:
        who, wanted = said.request.identity, said.arguments
        commands = self.commands(who)
        if wanted:
            commands = tuple([each for each in commands if each.name.removeprefix("/") == wanted.removeprefix("/")])
            if not commands:
                return _refusal(UnknownCommand.among(wanted, self._names(who)), said.request)
        return "\n".join([f"{command.name}: {command.about}" for command in commands])


def _refusal(error: AgentrailError, request: Request) -> HandledResponse:
    problem = problem_of(error, "carry out the command", request.identity.tenant)
    return HandledResponse(problem.status, json.loads(problem.content), {"content-type": MEDIA_TYPE})
