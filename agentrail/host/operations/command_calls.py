"""`CommandCalls`: carries out the calls that send a command to a session, and says what clients may not send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar, cast

from agentrail.api.bodies import IdKind, Spelled
from agentrail.api.command_checks import AnyCommand, AttachPlugin, EditTools, UpdatePlugin, UseModel, labels_of
from agentrail.api.public_ids import SessionName, held_id, named
from agentrail.app.model_registry import FAMILIES
from agentrail.core.vocabulary.commands import (
    ApproveSent,
    DetachPluginSent,
    LabelSent,
    RejectSent,
    RespondSent,
)
from agentrail.errors import (
    BadOptions,
    PluginRefused,
    RefusedError,
    UnknownApproval,
    UnknownSession,
    UnknownTask,
    UsageError,
)
from agentrail.errors.agentrail_error import cut, listed
from agentrail.errors.usage import likely_model
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.call import Answer, OperationCall
from agentrail.host.plugins.host_context import HostContext
from agentrail.host.plugins.host_tools import HostTools
from agentrail.runtime.access.code_changes import attached_as
from agentrail.runtime.handle import SessionHandle, decision_problem, send_command
from agentrail.values.json import FrozenObject, Json, JsonObject
from agentrail.values.secrets import named_secret

OWN_PARAMETERS: Final = frozenset({"self", "model", "command"})
"""Names that `SessionHandle.switch_model` has for itself, so that no option can have them."""

OWN_OPTIONS: Final = frozenset({"self", "plugin", "command", "pin"})
"""Names that `SessionHandle.update_plugin` has for itself."""

OF_THE_PROGRAM: Final = frozenset({"api_key", "base_url", "headers"})
"""Options that say where requests to a model go, and with which secret: who gave both would be sent the secret."""

EXTRA: Final = "extra"
"""The option with fields for the provider: `n` answers, or tools that it bills, cost more than `max_tokens` says."""

COSTS_MORE: Final = "with it, a request may cost more than what is reserved of `usd_per_day` of the host"

PROGRAM_SAYS: Final = "the program of the host alone says which secrets are used, and where requests go"

OF_THE_HOST: Final = frozenset({HostContext.__name__, HostTools.__name__})
"""Keys of the session plugins by which those of the host reach into turns: who could take them away would go unseen."""

PLUGIN_CHANGE: Final = "another option of a plugin, or a plugin less,"
ASK_PROGRAM: Final = "attach another plugin, or have the operator change the profile of the session"

STAYS: Final = "it is part of the host, and stays as it is"

T = TypeVar("T")


class CommandCalls:
    """Carries out the calls that send a command to a session: the rows of the table with `commands`.

    Some classes of commands have a guard: it refuses a command, or returns the command that is sent in its place.
    """

    def __init__(self, sessions: HostedSessions, *, four_eyes: bool, limits_money: bool) -> None:
        self._sessions = sessions
        self._four_eyes = four_eyes
        self._limits_money = limits_money  # whether the host has a limit of what models cost a tenant

    async def carry_out(self, call: OperationCall) -> Answer:
        """Send the command of a request to its session."""
        session, command = await self._addressed(call)
        guarded = await self._guarded(session, command)
        await send_command(session, guarded, call.command if call.row.command else None)
        return call.empty_answer()

    async def check(self, call: OperationCall) -> None:
        """Raise why the decision or answer of a request would be refused now; nothing is carried out."""
        session, command = await self._addressed(call)
        if isinstance(command, ApproveSent | RejectSent | RespondSent):
            problem = decision_problem(session, command)
            if problem is not None:
                raise problem

    async def _addressed(self, call: OperationCall) -> tuple[SessionHandle, AnyCommand]:
        """Return the session of a request, and its command with the ids of the journal."""
        spelled, command = _read(call)
        name = self._sessions.name(call.row, call.who, call.session)
        session = (await self._sessions.running(name, call.watch)).by(call.who.user, four_eyes=self._four_eyes)
        for field, how in spelled.fields:
            if how.holds is not None:
                internal_id = _IDS[how.holds](session, name, call.who.user, getattr(command, field))
                command = command.but(**{field: internal_id})
        return session, command

    async def _guarded(self, session: SessionHandle, command: AnyCommand) -> AnyCommand:
        """Return the command to be sent in the place of a client's; raise an error if clients may not send it."""
        match command:
            # sorted, so that the same labels in another order are the same command
            case LabelSent(add=add, remove=remove):
                return command.but(add=labels_of("add", add), remove=labels_of("remove", remove))
            case UseModel():
                return await self._use_model(session, command)
            case EditTools(do=do) if do != "detach":
                names = cast("tuple[str, ...]", command.tools)
                registered = (await self._sessions.offered(session)).tools
                return command.but(
                    tools=tuple([_registered("tool", registered, name) for name in dict.fromkeys(names)])
                )
            case AttachPlugin(plugin=key):
                self._check_plugin(cast("str", key))
                registered = (await self._sessions.offered(session)).plugins
                return AttachPlugin(_registered("plugin", registered, cast("str", key)))
            case DetachPluginSent(key=key):
                self._check_plugin(key, is_less=True)
            case UpdatePlugin():
                await self._check_update(session, command)
            case _:
                pass
        return command

    async def _use_model(self, session: SessionHandle, command: UseModel) -> UseModel:
        model = command.model if isinstance(command.model, str) else list(cast("tuple[str, ...]", command.model))
        own_names = OWN_PARAMETERS & command.options.keys()
        if own_names:
            raise BadOptions(str(model), f"there is no option {_joined_names(own_names)}")
        self._check_options(str(model), command.options)
        offered = await self._sessions.offered(session)
        for name in [model] if isinstance(model, str) else model:
            if not offered.has_model(name):
                likely = likely_model(name, [model.replace("*", "…") for model in offered.models], FAMILIES)
                known_names = f"{listed(sorted(offered.models))}{likely}"
                raise UsageError("not-registered", "model", cut(name), known_names)
        # a copy: a field that is the default object itself would not be stored
        return command.but(options=FrozenObject(command.options))

    def _check_plugin(self, key: str, *, is_less: bool = False) -> None:
        """Raise an error if clients may not change plugin *key*; *is_less*: if they may not weaken it."""
        if key in OF_THE_HOST:
            raise PluginRefused(STAYS, key)
        if self._four_eyes and is_less:
            raise RefusedError("four-eyes-wanted", PLUGIN_CHANGE, ASK_PROGRAM)

    def _check_options(self, whose: str, options: JsonObject) -> None:
        """Raise `BadOptions` for options by which a client would get at secrets, at other servers, or at more money."""
        _check_options(whose, options)
        if self._limits_money and EXTRA in _keys_in(options):
            raise BadOptions(whose, f"clients may not give `{EXTRA}`: {COSTS_MORE}")

    async def _check_update(self, session: SessionHandle, command: UpdatePlugin) -> None:
        key, options = command.plugin, cast("JsonObject", command.options)
        self._check_plugin(key, is_less=True)
        attached_as(session.inspect(), key)
        own_names = OWN_OPTIONS & options.keys()
        if own_names:
            raise BadOptions(key, f"there is no option {_joined_names(own_names)}")
        self._check_options(key, options)
        _check_offered(key, options, (await self._sessions.offered(session)).options)


def _read(call: OperationCall) -> tuple[Spelled, AnyCommand]:
    """Return how the command of a request is spelled in its body, and the command itself."""
    body: object = call.query(object) if call.row.body is None else call.body(object)
    spelled = next(spelled for spelled in call.row.commands if spelled.body is None or isinstance(body, spelled.body))
    return spelled, spelled.read(body)


def _waiting_id(session: SessionHandle, name: SessionName, user: str, waits: str) -> str:
    """Return the id in the journal of the call or question *waits*, which waits in the session for a person."""
    approval_id = held_id(name, user, waits)
    if approval_id is None:
        raise UnknownApproval.among(waits, [call.id for call in session.status().held])
    return approval_id


def child_id(parent: SessionName, user: str, name: str, children: Iterable[str]) -> str:
    """Return the id in the journal of the sub-agent of *parent* that the *user* means by *name*."""
    try:
        child = named(parent.tenant, user, name).internal
    except UnknownSession:
        child = ""
    if not child.startswith(f"{parent.internal}."):
        raise UnknownTask.among(name, children)
    return child


def _child(session: SessionHandle, name: SessionName, user: str, child: str) -> str:
    return child_id(name, user, child, [task.child for task in session.tasks()])


_IDS: Final[Mapping[IdKind, Callable[[SessionHandle, SessionName, str, str], str]]] = MappingProxyType(
    {"held": _waiting_id, "child": _child}
)
"""Functions that return the id in the journal which an id of a client stands for."""


def _registered(kind: str, table: Mapping[str, T], name: str) -> T:
    """Return the entry *name* of *table*; raise `UsageError`, which names its *kind*, if there is none."""
    if name not in table:
        raise UsageError("not-registered", kind, cut(name), listed(sorted(table)))
    return table[name]


def _check_options(whose: str, options: JsonObject) -> None:
    """Raise `BadOptions` for options by which a client would get at secrets, or at other servers."""
    refused = OF_THE_PROGRAM.intersection(_keys_in(options))
    if refused:
        raise BadOptions(whose, f"clients may not give {_joined_names(refused)}: {PROGRAM_SAYS}")
    secret = named_secret(options)
    if secret is not None:
        raise BadOptions(whose, f"clients may not name secrets, such as `{secret}`: {PROGRAM_SAYS}")


def is_of_the_program(options: JsonObject) -> bool:
    """Whether the program alone may give *options*, because they lead to secrets or to other servers."""
    return not OF_THE_PROGRAM.isdisjoint(_keys_in(options)) or named_secret(options) is not None


def _keys_in(value: Json) -> Iterator[str]:
    """Yield the keys in *value*, however deep: an option of a plugin may be a model with its options."""
    if isinstance(value, Mapping):
        yield from value
        for inner in value.values():
            yield from _keys_in(inner)
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from _keys_in(inner)


def _check_offered(plugin: str, options: JsonObject, changeable: Mapping[str, Sequence[str]]) -> None:
    """Raise `BadOptions` for options that clients may not change."""
    names = changeable.get(plugin, ())
    refused = options.keys() - names
    if refused:
        alone = f"{_joined_names(names)} alone" if names else "none"
        raise BadOptions(plugin, f"clients may not change {_joined_names(refused)}, but {alone}, as the profile says")


def _joined_names(names: Iterable[str]) -> str:
    return " and ".join([f"`{name}`" for name in sorted(names)])
