"""`HostedSpecs`: builds the specifications of a host's sessions: new, resumed and forked ones."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from agentrail.api.public_ids import read_internal
from agentrail.app.spec import SessionSpec, SpecWanted
from agentrail.app.supervisor import Supervisor
from agentrail.core.vocabulary.state import State
from agentrail.errors import UnknownAgent, UsageError
from agentrail.host.hosted_turns import Turns, no_request
from agentrail.host.plugins.host_context import providers_of
from agentrail.host.plugins.plugin_runner import HostPluginRow
from agentrail.host.plugins.plugin_values import ContextProvider, RequestContext
from agentrail.host.plugins.session_bridge import reaching
from agentrail.host.profiles import Offered, Profile, ProfileTable, offered, with_given
from agentrail.ports.sandbox import Sandbox
from agentrail.runtime.handle import SessionHandle
from agentrail.values.messages import Message


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

    async def offered(self, session: SessionHandle) -> Offered:
        """Return the tools, plugins and models that a session may be given by name while it runs."""
        context = no_request(session.id, session.inspect().setup.spec)
        profile = await self._profiles.find(context)
        return offered(profile, await self._profiles.spec_of(profile, context))

    def _with_bridge(self, profile: Profile, spec: SessionSpec, stored: State | None = None) -> SessionSpec:
        providers = providers_of(self._row, self._context_providers, profile.context_providers, profile.id)
        keys = () if stored is None else [seat.key for seat in stored.plugins]
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

    def _context_of(self, session_id: str) -> RequestContext:
        return self._turns.current(self.supervisor.session(session_id))

    def _messages_of(self, session_id: str) -> tuple[Message, ...]:
        return self.supervisor.session(session_id).messages()
