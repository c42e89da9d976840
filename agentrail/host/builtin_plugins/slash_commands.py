"""`SlashCommands`: a host plugin that carries out messages such as `/compact` by calls of the host, without a model."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias, cast

import msgspec

from agentrail.api.operation_table import CALLS
from agentrail.api.problems import MEDIA_TYPE, problem_of
from agentrail.api.views import DetailView, ReplyView, UsageView, to_plain, view
from agentrail.errors import AgentrailError, BadChoice, BadOptions, UsageError, WrongType
from agentrail.errors.agentrail_error import advice, cut
from agentrail.host.authentication.identity import Identity
from agentrail.host.hosted_sessions import may
from agentrail.host.plugins.host_plugin import PluginHost
from agentrail.host.plugins.plugin_runner import CommandPlugin, HostCommand
from agentrail.host.plugins.plugin_values import HandledResponse, Request, UnfitAnswerError
from agentrail.values.argument_checks import checked
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.untrusted_values import brief, is_time, plain_text
from agentrail.values.usage import NOTHING_USED, Usage, cost_text
from agentrail.values.value import Authored, learned

LONGEST: Final = 64
"""The most characters of a command's name."""

_NAME: Final = re.compile(r"/[a-z][a-z0-9_-]*(?: [a-z][a-z0-9_-]*)*", re.ASCII)
_LIKE: Final = re.compile(r"(/[A-Za-z][A-Za-z0-9_-]*)(?:\s|\Z)", re.ASCII)

PLUGIN: Final = "SlashCommands"


class Invocation(Authored, gc=True):
    """A command that a user has sent in place of a message, as the command's function gets it."""

    name: str
    """Name of the command, with its slash."""
    arguments: str
    """What follows the name, without spaces around it; empty if nothing does."""
    request: Request
    """The request: who said it, and in `request.context.session_id` to which session."""
    host: PluginHost
    """The host."""

    async def call(self, name: str, body: JsonObject = EMPTY) -> HandledResponse:
        """Carry out the host's call *name* for the session, with the scopes of the user; see `PluginHost.call`."""
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


def check_command(command: object) -> None:
    """Raise `BadOptions` if *command* is no `SlashCommand`, or its name or a field is invalid."""
    if not isinstance(command, SlashCommand):
        raise BadOptions(PLUGIN, f"`commands` has {brief(command)}; give objects of `SlashCommand`")
    name, about = plain_text(cast("object", command.name)) or "", plain_text(cast("object", command.about))
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        expected = f"a slash and words of lower-case letters, digits, `-` and `_`, at most {LONGEST} characters"
        raise BadOptions(PLUGIN, f"{brief(command.name)} is no name of a command: it has {expected}")
    if not about or not about.isprintable():
        raise BadOptions(PLUGIN, f"`about` of `{name}` must be one line of text")
    if not all(map(callable, (command.run, command.available))):
        raise BadOptions(PLUGIN, f"`run` and `available` of `{name}` must be functions")


class CommandTable:
    """Finds the command with which a message begins."""

    def __init__(self, commands: Sequence[SlashCommand]) -> None:
        by_name: dict[str, SlashCommand] = {}
        for command in cast("Sequence[object]", commands):
            check_command(command)
        for command in commands:
            if command.name in by_name:
                advice = "call yours differently, or leave the other out of `shipped`"
                raise BadOptions(PLUGIN, f"there are two commands `{command.name}`; {advice}")
            by_name[command.name] = command
        self._by_name = {name: by_name[name] for name in sorted(by_name)}
        self._longest_first = sorted(by_name, key=len, reverse=True)

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
    match = _LIKE.match(message)
    return None if match is None else match[1]


STOP_REASON: Final = "command"
"""The stop reason of the answer to a command."""

FIRST_ERROR_STATUS: Final = 400
"""Statuses from here on say that a call was not carried out."""


def reply(text: str, session: str, answer: JsonObject | None = None) -> HandledResponse:
    """Return a response that looks like the reply of an agent."""
    reply_view = ReplyView("", STOP_REASON, text, answer, view(UsageView, NOTHING_USED), (), session)
    return HandledResponse(body=to_plain(reply_view))


async def _compact(invocation: Invocation) -> CommandAnswer:
    response = await invocation.call("compact", {"reason": invocation.arguments or None})
    if response.status >= FIRST_ERROR_STATUS:
        return response
    return "The context is compacted: now, or before the next request of the turn that is open."


async def _fork(invocation: Invocation) -> CommandAnswer:
    response = await invocation.call("fork", {"session": invocation.arguments or None})
    if response.status >= FIRST_ERROR_STATUS:
        return response
    body = cast("Mapping[str, str]", response.body)
    return reply(f"The session goes on as `{body['session']}`, too.", body["session"], cast("JsonObject", body))


async def _model(invocation: Invocation) -> CommandAnswer:
    if not invocation.arguments:
        detail = await invocation.call("show_session")
        if detail.status >= FIRST_ERROR_STATUS:
            return detail
        status = _detail(detail).status
        return "The session does not run now." if status is None else f"The model is `{status.model}`."
    names = invocation.arguments.split()
    response = await invocation.call("switch_model", {"model": names[0] if len(names) == 1 else tuple(names)})
    if response.status >= FIRST_ERROR_STATUS:
        return response
    return f"From the next turn on, the model is {', else '.join([f'`{name}`' for name in names])}."


async def _status(invocation: Invocation) -> CommandAnswer:
    response = await invocation.call("show_session")
    if response.status >= FIRST_ERROR_STATUS:
        return response
    return reply(
        _detail_text(_detail(response)), invocation.request.context.session_id, cast("JsonObject", response.body)
    )


def _detail(response: HandledResponse) -> DetailView:
    return cast("DetailView", msgspec.convert(response.body, learned(DetailView)))


def _detail_text(detail: DetailView) -> str:
    status = detail.status
    if status is None:
        return f"`{detail.session}` does not run now{f': {detail.problem}' if detail.problem else ''}."
    usage = status.usage
    used = Usage(usage.input_tokens, usage.output_tokens, cost_usd=usage.cost_usd, estimated=usage.estimated)
    facts = [
        f"`{detail.session}` is {status.phase.replace('_', ' ')}",
        f"model `{status.model}`",
        f"{status.turn} turns, {usage.input_tokens} tokens read and {usage.output_tokens} written, {cost_text(used)}",
        *([f"{status.queued} prompts wait"] if status.queued else []),
        *([f"{len(status.held)} calls wait for a person"] if status.held else []),
    ]
    return f"{'; '.join(facts)}."


def _may(call: str, who: Identity) -> bool:
    return may(CALLS[call], who)


SHIPPED: Final[Mapping[str, SlashCommand]] = MappingProxyType(
    {
        command.name: command
        for command in (
            SlashCommand("/compact", "shorten the context: /compact [WHY]", _compact, partial(_may, "compact")),
            SlashCommand("/fork", "go on in a copy of the session, too: /fork [NAME]", _fork, partial(_may, "fork")),
            SlashCommand("/model", "switch the model: /model [NAME …]", _model, partial(_may, "switch_model")),
            SlashCommand("/status", "say what the session does", _status, partial(_may, "show_session")),
        )
    }
)
"""The commands by name; `/help` is that of the plugin itself."""


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
                raise BadChoice.among("shipped", plain_text(name) or brief(name), SHIPPED)
        if not is_time(deadline):
            raise WrongType("deadline", brief(deadline), "a number of seconds above 0")
        help_command = SlashCommand(HELP, "list the commands: /help [COMMAND]", self._help)
        self._table = CommandTable([*commands, *[SHIPPED[name] for name in SHIPPED if name in shipped], help_command])
        self._refuses = unknown == "refuse"
        self._host: PluginHost | None = None
        self.deadline = deadline

    def start(self, host: PluginHost) -> None:
        """Store *host*, so that commands can make its calls."""
        self._host = host

    async def intercept(self, request: Request) -> HandledResponse | None:
        """Carry out the command in the message and return its response; `None` if the message is no command."""
        match = self._table.find(request.message, request.identity)
        if match is None:
            return self._unknown(request)
        command, arguments = match
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
        return _refusal(
            UsageError("unknown-command", cut(word), advice(word, self._names(request.identity), "there are")), request
        )

    def _names(self, who: Identity) -> list[str]:
        return [command.name for command in self.commands(who)]

    def _help(self, invocation: Invocation) -> CommandAnswer:
        who, name = invocation.request.identity, invocation.arguments
        commands = self.commands(who)
        if name:
            commands = tuple(
                [command_ for command_ in commands if command_.name.removeprefix("/") == name.removeprefix("/")]
            )
            if not commands:
                return _refusal(
                    UsageError("unknown-command", cut(name), advice(name, self._names(who), "there are")),
                    invocation.request,
                )
        return "\n".join([f"{command.name}: {command.about}" for command in commands])


def _refusal(error: AgentrailError, request: Request) -> HandledResponse:
    problem = problem_of(error, "carry out the command", request.identity.tenant)
    return HandledResponse(problem.status, to_plain(problem.document), {"content-type": MEDIA_TYPE})
