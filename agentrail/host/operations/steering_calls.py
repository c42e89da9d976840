"""Calls that change the course of a session: abort, approve, reject, respond, compact, another model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar, cast

from agentrail.errors import BadOptions, FourEyesWanted, NotRegistered, PluginRefused, UnknownApproval
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.http11.http_messages import HttpResponse
from agentrail.host.operations.call_request import CallRequest
from agentrail.host.plugins.host_context import HostContext
from agentrail.host.plugins.host_tools import HostTools
from agentrail.runtime.commands import attached_as
from agentrail.runtime.handle import SessionHandle
from agentrail.values.json import Json, JsonObject
from agentrail.values.secrets import named_secret
from agentrail.wire.bodies import (
    AbortBody,
    ApproveBody,
    AttachPluginBody,
    CallBody,
    CompactBody,
    DetachPluginBody,
    ModelBody,
    PluginsBody,
    RejectBody,
    RespondBody,
    ToolsBody,
)
from agentrail.wire.public_ids import SessionName, held_id

OWN_PARAMETERS: Final = frozenset({"self", "model", "command"})
"""Names that `SessionHandle.switch_model` has for itself, so that no option can have them."""

OWN_OPTIONS: Final = frozenset({"self", "plugin", "command", "pin"})
"""Names that `SessionHandle.update_plugin` has for itself."""

OF_THE_PROGRAM: Final = frozenset({"api_key", "base_url", "headers"})
"""Options that say where requests to a model go, and with which secret: who gave both would be sent the secret."""

PROGRAM_SAYS: Final = "the program of the host alone says which secrets are used, and where requests go"

OF_THE_HOST: Final = frozenset({HostContext.__name__, HostTools.__name__})
"""Keys of the session plugins by which those of the host reach into turns: who could take them away would go unseen."""

PLUGIN_CHANGE: Final = "another option of a plugin, or a plugin less,"
ASK_PROGRAM: Final = "attach another plugin, or have the operator change the profile of the session"

STAYS: Final = "it is part of the host, and stays as it is"

T = TypeVar("T")


class SteeringCalls:
    """Carries out the calls by which people steer a session and decide about its calls."""

    def __init__(self, sessions: HostedSessions, *, four_eyes: bool) -> None:
        self._sessions = sessions
        self._four_eyes = four_eyes

    async def _found(self, exchange: CallRequest) -> tuple[SessionHandle, SessionName]:
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        session = await self._sessions.running(name, exchange.watch)
        return session.by(exchange.who.user, four_eyes=self._four_eyes), name

    async def _session(self, exchange: CallRequest) -> SessionHandle:
        return (await self._found(exchange))[0]

    async def _deciding(self, exchange: CallRequest, waits: str) -> tuple[SessionHandle, str]:
        """Return the session of the request, and the id in the journal of what *waits* there for a person."""
        session, name = await self._found(exchange)
        found = held_id(name, exchange.who.user, waits)
        if found is None:
            raise UnknownApproval.among(waits, [one.id for one in session.status().held])
        return session, found

    async def abort(self, exchange: CallRequest) -> HttpResponse:
        """End the open turn."""
        body = await exchange.body(AbortBody)
        session = await self._session(exchange)
        await session.abort(
            body.reason, kill_tools=body.kill_tools, clear_queue=body.clear_queue, command=exchange.command
        )
        return exchange.done()

    async def approve(self, exchange: CallRequest) -> HttpResponse:
        """Let a held call run."""
        body = await exchange.body(ApproveBody)
        session, approval = await self._deciding(exchange, body.approval)
        await session.approve(
            approval, body.args, always=body.always, auto_resume=body.auto_resume, command=exchange.command
        )
        return exchange.done()

    async def reject(self, exchange: CallRequest) -> HttpResponse:
        """Refuse a held call."""
        body = await exchange.body(RejectBody)
        session, approval = await self._deciding(exchange, body.approval)
        await session.reject(approval, body.reason, auto_resume=body.auto_resume, command=exchange.command)
        return exchange.done()

    async def respond(self, exchange: CallRequest) -> HttpResponse:
        """Answer a question."""
        body = await exchange.body(RespondBody)
        session, ref = await self._deciding(exchange, body.ref)
        await session.respond(ref, body.answer, command=exchange.command)
        return exchange.done()

    async def compact(self, exchange: CallRequest) -> HttpResponse:
        """Make the context shorter."""
        body = await exchange.body(CompactBody)
        session = await self._session(exchange)
        await session.compact(body.reason, command=exchange.command)
        return exchange.done()

    async def switch_model(self, exchange: CallRequest) -> HttpResponse:
        """Use another model, or a chain of them, from the next turn on."""
        body = await exchange.body(ModelBody)
        session = await self._session(exchange)
        model = body.model if isinstance(body.model, str) else list(body.model)
        taken = OWN_PARAMETERS & body.options.keys()
        if taken:
            raise BadOptions(str(model), f"there is no option {_listed(taken)}")
        _check_options(str(model), body.options)
        known = (await self._sessions.offered(session)).models
        for name in (body.model,) if isinstance(body.model, str) else body.model:
            if name not in known:
                raise NotRegistered.among("model", name, known)
        await session.switch_model(model, command=exchange.command, **body.options)
        return exchange.done()

    async def change_tools(self, exchange: CallRequest) -> HttpResponse:
        """Attach or replace tools that the profile of the session knows by name, or detach tools of the session."""
        body = await exchange.body(ToolsBody)
        session = await self._session(exchange)
        if body.do == "detach":
            await session.detach_tools(*body.tools, command=exchange.command)
            return exchange.done()
        known = (await self._sessions.offered(session)).tools
        tools = [_registered("tool", known, name) for name in dict.fromkeys(body.tools)]
        change = session.attach_tools if body.do == "attach" else session.replace_tools
        await change(*tools, command=exchange.command)
        return exchange.done()

    async def change_plugins(self, exchange: CallRequest) -> HttpResponse:
        """Attach a plugin that the profile of the session knows by its key, or detach or change one of the session."""
        body = cast("PluginsBody", await exchange.body(CallBody))
        session = await self._session(exchange)
        if body.plugin in OF_THE_HOST:
            raise PluginRefused(STAYS, body.plugin)
        if self._four_eyes and not isinstance(body, AttachPluginBody):
            raise FourEyesWanted(PLUGIN_CHANGE, ASK_PROGRAM)
        if isinstance(body, AttachPluginBody):
            known = (await self._sessions.offered(session)).plugins
            plugin = _registered("plugin", known, body.plugin)
            await session.attach_plugin(plugin, command=exchange.command)
        elif isinstance(body, DetachPluginBody):
            await session.detach_plugin(body.plugin, command=exchange.command)
        else:
            attached_as(session.inspect(), body.plugin)
            taken = OWN_OPTIONS & body.options.keys()
            if taken:
                raise BadOptions(body.plugin, f"there is no option {_listed(taken)}")
            _check_options(body.plugin, body.options)
            _check_offered(body.plugin, body.options, (await self._sessions.offered(session)).options)
            await session.update_plugin(body.plugin, command=exchange.command, pin=body.pin, **body.options)
        return exchange.done()


def _registered(kind: str, known: Mapping[str, T], name: str) -> T:
    """Return what is known by *name*; raise `NotRegistered` if nothing is."""
    if name not in known:
        raise NotRegistered.among(kind, name, known)
    return known[name]


def _check_options(whose: str, options: JsonObject) -> None:
    """Raise `BadOptions` for options by which a client would get at secrets, or at other servers."""
    taken = OF_THE_PROGRAM.intersection(_keys_in(options))
    if taken:
        raise BadOptions(whose, f"clients may not give {_listed(taken)}: {PROGRAM_SAYS}")
    secret = named_secret(options)
    if secret is not None:
        raise BadOptions(whose, f"clients may not name secrets, such as `{secret}`: {PROGRAM_SAYS}")


def _keys_in(found: Json) -> Iterator[str]:
    """Yield the keys in *found*, however deep: an option of a plugin may be a model with its options."""
    if isinstance(found, Mapping):
        yield from found
        for inner in found.values():
            yield from _keys_in(inner)
    elif isinstance(found, tuple | list):
        for inner in found:
            yield from _keys_in(inner)


def _check_offered(plugin: str, options: JsonObject, known: Mapping[str, Sequence[str]]) -> None:
    """Raise `BadOptions` for options that clients may not change."""
    names = known.get(plugin, ())
    taken = options.keys() - names
    if taken:
        alone = f"{_listed(names)} alone" if names else "none"
        raise BadOptions(plugin, f"clients may not change {_listed(taken)}, but {alone}, as the profile says")


def _listed(names: Iterable[str]) -> str:
    return " and ".join([f"`{name}`" for name in sorted(names)])
