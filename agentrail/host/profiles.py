"""`Profile`: which specification serves a request; a host has a list of them, or a function that finds one.

`HostedSpecs`: builds the specifications of a host's sessions: new, resumed and forked ones.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, cast

import trio

from agentrail.adapters.sandboxes.globs import Glob
from agentrail.api.public_ids import read_internal
from agentrail.app.model_chain import chain_of
from agentrail.app.session_code import sandbox_for
from agentrail.app.spec import Built, SessionSpec, SpecWanted, check_spec, stored_as
from agentrail.app.supervisor import Supervisor, check_start
from agentrail.core.vocabulary.state import State
from agentrail.errors import AgentrailError, BadProfile, UnknownAgent, UsageError, WrongType
from agentrail.hooks.attachments import unkeyed
from agentrail.hooks.plugin import Attachable
from agentrail.host.hosted_turns import Turns, no_request
from agentrail.host.plugins.host_context import providers_of, reaching
from agentrail.host.plugins.plugin_runner import HostPluginRow
from agentrail.host.plugins.plugin_values import ContextProvider, RequestContext
from agentrail.ports.protocol_members import has_members
from agentrail.ports.sandbox import Sandbox
from agentrail.ports.tool import ToolSource
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.shared.code_loops import bind_function
from agentrail.runtime.shared.untrusted_calls import Contained
from agentrail.tools import as_tool
from agentrail.values.messages import Message
from agentrail.values.untrusted_values import described, type_name
from agentrail.values.value import Authored

log = logging.getLogger("agentrail.host")

NO_OPTIONS: Final[Mapping[str, Sequence[str]]] = MappingProxyType({})
MODELS_WANTED: Final = "its `models` must be a list of names, such as `demo`"
OPTIONS_WANTED: Final = "its `plugin_options` must be lists of names of options, by the key of their plugin"
OUTPUTS_WANTED: Final = "its `outputs` must be a list of patterns of files, such as `outputs/**`"
ONE_WANTED: Final = 'at least one `Profile`, such as `Profile("desk", SessionSpec(…))`'
SWAPPED: Final = 'its `id` must be a text, and comes first: `Profile("desk", SessionSpec(…))`'
PROFILES_WANTED: Final = "a list of `Profile`, or a function that returns one for a `RequestContext`"


class Profile(Authored, gc=True):
    """An agent that a host offers: its name, and the specification of its sessions."""

    id: str
    """Name of the agent, as requests say it."""
    spec: SessionSpec | Callable[[RequestContext], Built]
    """The specification, or a function that builds it for a request; the function may be async.

    It is called again when a stored session comes back, with a context of the kind `none`.
    """
    context_providers: Sequence[ContextProvider] = ()
    """Functions that add context to each turn of these sessions."""
    tools: Sequence[object] = ()
    """Tools that a session may be given by name while it runs, beside those of the specification."""
    plugins: Sequence[Attachable] = ()
    """Session plugins that a session may be given by key while it runs, beside those of the specification."""
    models: Sequence[str] = ()
    """Models that a session may be switched to by name while it runs, beside those of the specification.

    `openai:*` stands for all models of that provider.
    """
    plugin_options: Mapping[str, Sequence[str]] = NO_OPTIONS
    """By key of a session plugin: the names of its options that may be changed while a session runs."""
    outputs: Sequence[str] = ()
    """Patterns of files that users may list and fetch beside those that the file tools wrote, such as `outputs/**`."""


class Offered(NamedTuple):
    """What a session may be given by name."""

    tools: Mapping[str, object]
    """Tools and sources of tools, by name."""
    plugins: Mapping[str, Attachable]
    """Session plugins, by key."""
    models: tuple[str, ...]
    """Names of models."""
    options: Mapping[str, Sequence[str]]
    """Names of options, by the key of their plugin."""

    def has_model(self, name: str) -> bool:
        """Whether the session may be switched to the model *name*."""
        return name in self.models or f"{name.partition(':')[0]}:*" in self.models


def offered(profile: Profile, spec: SessionSpec) -> Offered:
    """Return what sessions with *spec* may be given by name: also what *spec* has, if it was taken away."""
    tools = {_tool_name(tool): tool for tool in (*spec.tools, *profile.tools)}
    plugins = {unkeyed(plugin)[0]: plugin for plugin in (*spec.plugins, *profile.plugins)}
    models = dict.fromkeys((*models_of(spec), *profile.models))
    return Offered(tools, plugins, tuple(models), profile.plugin_options)


def models_of(spec: SessionSpec) -> tuple[str, ...]:
    """Return the names of the models of *spec*, in the order of the chain."""
    chain = chain_of(spec.model, spec.model_options)
    return tuple([model if isinstance(model, str) else model.name for model, _ in chain])


def with_given(profile: Profile, spec: SessionSpec, stored: State) -> SessionSpec:
    """Return *spec* with the tools, plugins and models that the session *stored* was given by name while it ran."""
    changes = {change.key for change in stored.plugin_changes if change.attached is not None}
    keys = {*changes, *(attached.key for attached in stored.plugins)} - {unkeyed(plugin)[0] for plugin in spec.plugins}
    names = {*stored.tools, *(tool.source for tool in stored.tools.values())}
    names -= {_tool_name(tool) for tool in spec.tools}
    return spec.but(
        tools=(*spec.tools, *(tool for tool in profile.tools if _tool_name(tool) in names)),
        plugins=(*spec.plugins, *(plugin for plugin in profile.plugins if unkeyed(plugin)[0] in keys)),
    )


def _tool_name(tool: object) -> str:
    return tool.name if has_members(tool, ToolSource) else as_tool(tool).spec.name


ProfileOf: TypeAlias = Callable[[RequestContext], Profile | Awaitable[Profile | None] | None]
"""A function from the context of a request to the profile that serves it, or to `None`; it may be async."""
Profiles: TypeAlias = Sequence[Profile] | ProfileOf
"""The profiles of a host: a list, the first of which serves requests that name none; or a function that finds one."""


class ProfileTable:
    """Finds the profile of a request, and of a stored session that comes back."""

    def __init__(self, profiles: Profiles) -> None:
        self._resolve: ProfileOf | None = None
        self._by_id: dict[str, Profile] = {}
        if callable(profiles):
            self._resolve = profiles
            return
        value = cast("object", profiles)
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise WrongType.of("profiles", profiles, PROFILES_WANTED)
        if not profiles:
            raise WrongType("profiles", "an empty list", ONE_WANTED)
        for profile in profiles:
            _check(profile)
            if profile.id in self._by_id:
                raise BadProfile(profile.id, "there are two of this name; give one of them another `id`")
            self._by_id[profile.id] = profile

    def __iter__(self) -> Iterator[Profile]:
        return iter(self._by_id.values())

    async def find(self, context: RequestContext) -> Profile:
        """Return the profile that `context.agent_id` names; raise `UnknownAgent` if there is none.

        Without a name, it is the first one.
        """
        if self._resolve is None:
            profile = self._by_id.get(context.agent_id or next(iter(self._by_id)))
            if profile is None:
                raise UnknownAgent.among(context.agent_id, self._by_id)
            return profile
        answer = await _returned(context.agent_id, "the function for profiles", self._resolve, context)
        if answer is None:
            raise UnknownAgent(context.agent_id, "the host's function for profiles has found none")
        if not isinstance(answer, Profile):
            raise BadProfile(
                context.agent_id,
                f"the function for profiles returned a `{type_name(answer)}`; return a `Profile`, or None",
            )
        _check_found(context.agent_id, _check, answer)
        return answer

    async def spec_of(self, profile: Profile, context: RequestContext) -> SessionSpec:
        """Return the specification of a session, under the name of its profile."""
        spec: object = profile.spec
        if callable(spec):
            spec = await _returned(profile.id, "its function", spec, context)
        _check_found(profile.id, check_spec, spec)
        return stored_as(cast("SessionSpec", spec), profile.id)


async def _returned(
    profile: str, whose: str, function: Callable[[RequestContext], object], context: RequestContext
) -> object:
    """Return the result of a function of the program.

    Raise `BadProfile` with what the function raised, also if that would end the process, such as `SystemExit`: no
    request has made it. `UnknownAgent` is an answer, and what failed outside, such as a journal, is raised as it is.
    """
    failed = list[BaseException]()
    with Contained(failed.append):
        answer = bind_function(function)(context)
        return await cast("Awaitable[object]", answer) if isinstance(answer, Awaitable) else answer
    error = failed[0]
    is_misuse = isinstance(error, UsageError) and not isinstance(error, UnknownAgent)
    if isinstance(error, AgentrailError) and not is_misuse:
        raise error
    raise BadProfile(profile, f"{whose} raised {described(error)}") from error


def _check_found(profile: str, check: Callable[[object], None], value: object) -> None:
    """Raise `BadProfile` if *check* raises for what a function of the program returned: no request has made it."""
    try:
        check(value)
    except UsageError as unfit:
        raise BadProfile(profile, f"{unfit}") from unfit


def _check(value: object) -> None:
    if not isinstance(value, Profile):
        raise WrongType.of("profiles", value, PROFILES_WANTED)
    if not isinstance(cast("object", value.id), str):
        raise BadProfile(type_name(value.id), SWAPPED)
    if not value.id or not value.id.isprintable():
        raise BadProfile(repr(value.id), "its `id` must be a text that can be printed")
    if not _are_names(value.models):
        raise BadProfile(value.id, MODELS_WANTED)
    if not _are_patterns(value.outputs):
        raise BadProfile(value.id, OUTPUTS_WANTED)
    options = cast("object", value.plugin_options)
    if not isinstance(options, Mapping) or not all(map(_are_names, cast("Mapping[object, object]", options).values())):
        raise BadProfile(value.id, OPTIONS_WANTED)
    if not callable(value.spec):
        check_spec(value.spec)


def _are_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in cast("Sequence[object]", value))


def _are_patterns(value: object) -> bool:
    if not _are_names(value):
        return False
    with suppress(AgentrailError):
        for pattern in cast("Sequence[str]", value):
            Glob(pattern)
        return True
    return False


class HostedSpecs:
    """Builds the specifications of a host's sessions, each with the session plugins that call the host's plugins."""

    supervisor: Supervisor
    """The supervisor of the sessions: there from `serve` on."""

    def __init__(
        self,
        profiles: ProfileTable,
        row: HostPluginRow,
        turns: Turns,
        context_providers: Sequence[ContextProvider] = (),
    ) -> None:
        self._profiles = profiles
        self._row = row
        self._context_providers = context_providers
        self._turns = turns
        self._ready = trio.Event()
        self._last_problem = ""  # why no session could start when it was last tried

    def serve(self, supervisor: Supervisor) -> None:
        """Store the supervisor of the sessions, which was opened with `returning` of this object."""
        self.supervisor = supervisor
        self._ready.set()

    @property
    def first(self) -> str:
        """Name of the first profile; empty if a function finds them."""
        return next((profile.id for profile in self._profiles), "")

    async def new(self, context: RequestContext) -> SessionSpec:
        """Return the specification for a new session; raise `UnknownAgent` if no profile fits."""
        profile = await self._profiles.find(context)
        return self._with_bridge(profile, await self._profiles.spec_of(profile, context))

    async def check(self) -> None:
        """Raise `BadProfile` if a session of a profile could not start, for all whose specification no function builds.

        One that a function builds is checked when a request has it built.
        """
        for profile in self._profiles:
            if not callable(profile.spec):
                spec = await self._profiles.spec_of(profile, no_request("", profile.id))
                try:
                    await check_start(self.supervisor, self._with_bridge(profile, spec))
                except AgentrailError as error:
                    raise BadProfile(profile.id, str(error)) from error

    async def can_start(self) -> bool:
        """Whether sessions of all profiles can start; log why not, once for each reason."""
        try:
            await self.check()
        except BadProfile as error:
            if str(error) != self._last_problem:
                self._last_problem = str(error)
                log.error("no session can start: %s", error)
            return False
        self._last_problem = ""
        return True

    async def offered(self, session: SessionHandle) -> Offered:
        """Return the tools, plugins and models that a session may be given by name while it runs."""
        context = no_request(session.id, session.inspect().setup.spec)
        profile = await self._profiles.find(context)
        return offered(profile, await self._profiles.spec_of(profile, context))

    def _with_bridge(self, profile: Profile, spec: SessionSpec, stored: State | None = None) -> SessionSpec:
        providers = providers_of(self._row, self._context_providers, profile.context_providers, profile.id)
        keys = () if stored is None else [attached.key for attached in stored.plugins]
        return reaching(spec, self._row, providers, self._context_of, self._messages_of, keys)

    async def returning(self, request: SpecWanted) -> SessionSpec:
        """Return the specification for resuming a stored session.

        Raise `UsageError` if its profile is gone, or if no host has opened it.
        """
        if read_internal(request.session_id) is None:  # the journal may be that of a program with sessions of its own
            raise UsageError("spec-missing", request.session_id, request.name)
        await self._ready.wait()
        context = no_request(request.session_id, request.name)
        try:
            profile = await self._profiles.find(context)
        except UnknownAgent as gone:
            raise UsageError("spec-missing", request.session_id, request.name) from gone
        spec = self._with_bridge(profile, await self._spec_with_given(profile, context, request.state), request.state)
        self._turns.returning(request.session_id, request.state, spec)
        return spec

    async def forking(self, session_id: str, origin: str, agent: str) -> SessionSpec | None:
        """Return the specification for a fork of *origin*, built for the fork; `None` if no profile is *agent*.

        The profile is that of the origin: who may not bring it back may not go on with its past in a fork either.
        """
        try:
            profile = await self._profiles.find(no_request(origin, agent))
        except UnknownAgent:
            return None
        context = no_request(session_id, agent)
        stored = await self.supervisor.state(origin)
        return self._with_bridge(profile, await self._spec_with_given(profile, context, stored), stored)

    async def _spec_with_given(self, profile: Profile, context: RequestContext, stored: State) -> SessionSpec:
        """Return the specification of a session that continues from the state *stored*."""
        spec = await self._profiles.spec_of(profile, context)
        return with_given(profile, spec, stored) if profile.tools or profile.plugins else spec

    async def sandbox(self, session_id: str, agent: str) -> Sandbox | None:
        """Return the sandbox of a session of the profile *agent*; `None` if its specification gives none.

        For a session that does not run here, the specification is built again. Raise `UnknownAgent` if its profile is
        gone.
        """
        spec = self._turns.spec_of(session_id) or await self.new(no_request(session_id, agent))
        return spec.sandbox

    async def folder(self, session_id: str, agent: str) -> Sandbox:
        """Return a sandbox through which the files of a session of the profile *agent* are read, as its tools do.

        Raise `UnknownAgent` if its profile is gone.
        """
        spec = self._turns.spec_of(session_id) or await self.new(no_request(session_id, agent))
        return spec.sandbox or sandbox_for(spec)

    async def outputs(self, session_id: str, agent: str) -> Sequence[str]:
        """Return `Profile.outputs` of the profile *agent*; raise `UnknownAgent` if that is gone."""
        return (await self._profiles.find(no_request(session_id, agent))).outputs

    def _context_of(self, session_id: str) -> RequestContext:
        return self._turns.current(self.supervisor.session(session_id))

    def _messages_of(self, session_id: str) -> tuple[Message, ...]:
        return self.supervisor.session(session_id).messages()
