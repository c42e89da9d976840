"""`Host`: serves the sessions of one supervisor to people and programs, over HTTP.

`ReadingAnew`: reads its certificate and its keys again at SIGHUP, while it serves.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio
from attrs import frozen

from agentrail.adapters.extras import need_extra
from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.api.command_checks import check_flag
from agentrail.api.limits import DEFAULTS, METRIC_TENANTS, HostLimits
from agentrail.api.operation_table import CALLS, ROUTES
from agentrail.app.build import check_journal, check_telemetry
from agentrail.app.supervisor import (
    Supervisor,
    journal_of,
    look_at_slots,
    open_supervisor,
    others_of,
    share,
    tell_deaths,
)
from agentrail.app.supervisor_options import SupervisorOptions
from agentrail.errors import BadChoice, WrongType
from agentrail.hooks.plugin import Attachable
from agentrail.host.ag_ui.ag_ui_calls import AgUiCalls
from agentrail.host.asgi.asgi_app import AsgiApp
from agentrail.host.asgi.asgi_service import AsgiService
from agentrail.host.authentication.api_keys import ApiKeys
from agentrail.host.authentication.authenticators import LocalToken, SocketOwner, guarded
from agentrail.host.authentication.identity import Authenticator
from agentrail.host.authentication.key_watch import KeyWatch
from agentrail.host.cluster.cluster_options import LOOPBACK, Cluster
from agentrail.host.cluster.forwarding import Forwarding
from agentrail.host.cluster.members import (
    FAREWELL,
    REPORT,
    farewell_call,
    report_call,
    say_farewell,
    server_for_members,
    with_member_calls,
)
from agentrail.host.cluster.other_hosts import OtherHosts
from agentrail.host.cluster.signatures import SignedRequests, program_text, signed_only
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.faces.face import Face
from agentrail.host.faces.hosted_faces import HostedFaces, check_faces
from agentrail.host.health.health_parts import (
    NO_CHECKS,
    PROFILES,
    HealthParts,
    HostChecks,
    Readiness,
    WatchCalls,
    check_checks,
    check_models,
    check_usable,
)
from agentrail.host.health.prometheus import MetricCalls
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.hosted_turns import Turns
from agentrail.host.http11.http_server import OTHER_FILES, HttpServer, files_needed
from agentrail.host.http11.listening import Certificate, Inherited, ListenAddress, Tcp, UnixSocket, inherited
from agentrail.host.operations.call import CallFunction
from agentrail.host.operations.command_calls import CommandCalls
from agentrail.host.operations.evaluation_calls import EvaluationCalls, check_folder
from agentrail.host.operations.event_frames import ClientStreams, EventFrames
from agentrail.host.operations.file_calls import WrittenFileCalls
from agentrail.host.operations.host_calls import ConsoleCalls, HostCalls
from agentrail.host.operations.host_operations import (
    Application,
    FaceAnswer,
    HostDrain,
    HostOperations,
    PluginCalls,
    functions_of,
)
from agentrail.host.operations.knowledge_calls import KnowledgeCalls, check_knowledge, closed_after
from agentrail.host.operations.record_calls import RecordCalls
from agentrail.host.operations.session_calls import ListingCalls, SessionLifeCalls
from agentrail.host.operations.talk_calls import FileCalls, TalkCalls
from agentrail.host.operations.view_calls import QueryCalls, SubagentCalls, ViewCalls
from agentrail.host.operations.what_if_calls import NO_CANDIDATES, WhatIfCalls, check_candidates
from agentrail.host.plugins.host_plugin import HostPlugin, check_providers, name_of
from agentrail.host.plugins.plugin_runner import HostPluginRow, OnPluginError
from agentrail.host.plugins.plugin_values import ContextProvider
from agentrail.host.profiles import HostedSpecs, Profile, Profiles, ProfileTable
from agentrail.host.requests.http_messages import Handler, HttpRequest, HttpResponse
from agentrail.host.requests.proxies import Proxies
from agentrail.host.requests.site_policy import SitePolicy, screened
from agentrail.host.tenant_money import keep_money, keeping_money, warn_of_prices
from agentrail.host.uploads.session_files import SessionFiles
from agentrail.host.uploads.written_files import WrittenPaths
from agentrail.host.websocket.socket_calls import SocketParts
from agentrail.host.websocket.socket_connection import Sockets
from agentrail.nurseries import open_shielded_nursery
from agentrail.open_context import OpenContext, Way
from agentrail.ports.instrumentation import Telemetry
from agentrail.ports.journal import Journal
from agentrail.ports.protocol_checks import why_unfit
from agentrail.runtime.shared import collector
from agentrail.runtime.shared.clock import Clock

if TYPE_CHECKING:
    from agentrail import aio
    from agentrail.knowledge import KnowledgeFolder


from agentrail.app.process import hangup
from agentrail.errors import CannotListen
from agentrail.runtime.shared.untrusted_calls import Contained, tell

log = logging.getLogger("agentrail.host")

NO_TLS: Final = "none with `unix`: only this machine can reach the socket"
NEEDS_PEOPLE: Final = "False, or give the host an `authenticator`: without one, there is only one user"
SERVING: Final = Way("serve a host", "host.serving", "serving")
KEYS_WANTED: Final = "an object with `async def identify(self, headers)`, such as `ApiKeys(path)`, or None"
LAST_ANSWERS: Final = 1.0
"""The fewest seconds that answers have to be sent when all sessions are parked."""

NEEDS_KEYS_AS_APP: Final = "`ApiKeys(path)` or another one: an app does not know who can reach its server"
ONE_JOURNAL: Final = "None, or one for a host without a `journal`: sessions are kept in the supervisor's"
ONE_MACHINE: Final = "None, or hosts of one machine: `knowledge` is in files, which hosts on other machines do not see"
NEEDS_BOTH: Final = (
    "None, or give the host the `journal` and the `authenticator` that the others have too; "
    "for the command, `--keys PATH`"
)
NEEDS_KEYS: Final = (
    "`127.0.0.1`, `::1` or `localhost`, or give the host an `authenticator`: for the command, `--keys PATH`"
)


@frozen
class Serving:
    """A host that serves."""

    url: str
    """Its address, such as `http://127.0.0.1:8765`."""
    entry: str
    """The address for the person at this machine: with the token, if the host has no authenticator."""
    supervisor: Supervisor
    """The supervisor of its sessions."""


@frozen
class Opened:
    """A host that runs without an HTTP server."""

    application: Application
    """Answers its requests."""
    supervisor: Supervisor
    """The supervisor of its sessions."""
    turns: Turns
    """The turns of its sessions."""
    frames: EventFrames
    """The frames of all its streams of events."""
    metrics: MetricCalls
    """The figures of its sessions."""
    drain: HostDrain
    """Tells its parts that it ends."""
    is_guest: bool = False
    """Whether somebody else has opened the supervisor, who parks its sessions."""


class Host:
    """Serves agents: profiles say which, plugins what else happens, an authenticator to whom.

    *profiles* are a list, the first of which serves requests that name no agent, or a function that finds the profile
    of a request. *context_providers* add context to each turn, in front of what those of a profile and of plugins add.
    *on_plugin_error* is called with a plugin's name, the hook and the error; without it, a warning is
    logged. Without an *authenticator*, a token is made at each start, for this machine alone. Without a *journal*,
    sessions are gone when the host ends. *checks* are functions by name, plain or async, that `GET /readyz` asks too:
    each raises or returns `False` if something that the program needs is not there.
    """

    def __init__(  # noqa: PLR0913 - each is an option of its own
        self,
        profiles: Profiles,
        plugins: Sequence[HostPlugin] = (),
        *,
        on_plugin_error: OnPluginError | None = None,
        context_providers: Sequence[ContextProvider] = (),
        authenticator: Authenticator | None = None,
        journal: Journal | None = None,
        limits: HostLimits = DEFAULTS,
        checks: HostChecks = NO_CHECKS,
        four_eyes: bool = False,
        telemetry: Telemetry | None = None,
        supervisor: SupervisorOptions | None = None,
        cluster: Cluster | None = None,
        evaluations: str | PathLike[str] | None = None,
        candidates: Mapping[str, Sequence[Attachable]] = NO_CANDIDATES,
        mcp: bool = False,
        faces: Sequence[Face] = (),
        knowledge: KnowledgeFolder | None = None,
    ) -> None:
        """Make a host; *supervisor* has options of `open_supervisor`, which runs its sessions.

        With a *cluster*, other hosts work on the same *journal*, and each answers for the sessions of all.

        With *four_eyes*, nobody decides about a held call that they have asked for, nor about the later ones of its
        family, and nobody takes away or changes the plugins of a session, which may hold its calls.

        *telemetry* exports what the sessions do, such as `agentrail.telemetry.OpenTelemetry()`.

        *evaluations* is a folder with results of experiments, which a key with the scope `operate` sees.

        *candidates* are plugins, by a name, that may be tried on what happened in sessions.

        With *mcp*, it is an MCP server too, at `/v1/mcp`: its sessions are a tool, `prompt`, for who has a key.

        *faces* answer other protocols at paths of their own, such as `agentrail.a2a.A2aFace()`.

        *knowledge* is the folder with the documents of each tenant, which come and go at `/v1/knowledge`. Give its
        stores to `knowledge_tools` in the function of a profile.
        """
        check_flag("mcp", mcp)
        check_folder(evaluations)
        if four_eyes and authenticator is None:
            raise BadChoice("four_eyes", "True", NEEDS_PEOPLE)
        check_knowledge(knowledge)
        check_candidates(candidates)
        check_checks(checks)
        check_journal(journal)
        check_telemetry(telemetry)
        check_providers("Host", context_providers)
        problem = None if authenticator is None else why_unfit(authenticator, Authenticator)
        if problem is not None:
            raise WrongType("authenticator", problem, KEYS_WANTED)
        self._checks = checks
        self._profiles = ProfileTable(profiles)
        self._rows = HostPluginRow(plugins, on_plugin_error)
        self._context_providers = tuple(context_providers)
        self._authenticator = authenticator
        self.token: str | None = None
        """The token for this machine, if there is no authenticator; `None`: one is made at each start."""
        self.journal = journal
        """Where its sessions are kept; `None` if they are gone when the host ends."""
        self.limits = limits
        self._four_eyes = four_eyes
        self._is_mcp_server = bool(mcp)
        self._faces = check_faces(faces)
        self.telemetry = telemetry
        """What exports what the sessions do; `None` if nothing does."""
        self.evaluations = None if evaluations is None else Path(evaluations)
        """Folder with results of experiments; `None` if it shows none."""
        self._candidates = dict(candidates)
        self._knowledge = knowledge
        self._supervisor_options = supervisor or SupervisorOptions()
        self._signed: SignedRequests
        """Admits what other hosts sign; there if there is a cluster."""
        self.cluster: Cluster | None = None
        """How other hosts on the same journal reach it; `None` if there are none."""
        if cluster is not None:
            self.join(cluster)

    @property
    def needs_token(self) -> bool:
        """Whether it has no authenticator, so that a token lets in who is at this machine."""
        return self._authenticator is None

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The agents that it offers; empty if a function finds them for each request."""
        return tuple(self._profiles)

    def _agents(self) -> tuple[str, ...]:
        return tuple([profile.id for profile in self._profiles])

    def change_profiles(self, profiles: Sequence[Profile]) -> None:
        """Offer *profiles* in place of those that it was made with; before it serves."""
        self._profiles = ProfileTable(profiles)

    def join(self, cluster: Cluster) -> None:
        """Make the host one of *cluster*, before it serves; raise `BadChoice` if it lacks what all of them share."""
        self._authenticator = self._authenticator or cluster.authenticator
        if self.journal is None or (self._authenticator is None and not cluster.is_local):
            raise BadChoice("cluster", cluster, NEEDS_BOTH)
        if self._knowledge is not None and not cluster.is_local:
            raise BadChoice("cluster", cluster, ONE_MACHINE)
        self.cluster = cluster
        cluster.program = program_text(self._profiles)
        keys = self._authenticator if isinstance(self._authenticator, ApiKeys) else None
        self._signed = SignedRequests(cluster, keys)

    def serving(
        self,
        port: int | None = None,
        host: str = "127.0.0.1",
        *,
        unix: Path | None = None,
        descriptor: int | None = None,
        tls: tuple[Path, Path] | None = None,
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
        proxies: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[Serving]:
        """Serve until the `async with` is left; then requests end, plugins stop, and sessions are parked.

        Without a *port*, it is any that is free. At a *unix* socket, there is a port only if one is given (0: any that
        is free), besides the socket, which browsers cannot open.
        *tls* are the files of a certificate with its chain and of its key, as PEM; a *unix* socket takes none. In a
        program of `agentrail.run`, they and the keys of `ApiKeys` are read anew at SIGHUP.
        *descriptor* is that of a listening socket which another process has opened, in place of an address.
        *hosts* are names under which the host is reached besides this address, *origins* those of pages of other sites
        that may use it. *proxies* are addresses and networks of proxies in front of the host, or `unix`: what they say
        of a client is believed, in `X-Forwarded-For`, `Forwarded` and `X-Request-Id`. Without an authenticator, only
        this machine can reach it.
        """
        if unix is not None and tls is not None:
            raise BadChoice("tls", tls, NO_TLS)
        named = Proxies.named(proxies)
        serving = self._serving(port, host, unix, descriptor, tls, hosts, origins, named)
        return OpenContext(serving, Serving, SERVING)

    @asynccontextmanager
    async def _serving(
        self,
        port: int | None,
        host: str,
        unix: Path | None,
        descriptor: int | None,
        tls: tuple[Path, Path] | None,
        hosts: Sequence[str],
        origins: Sequence[str],
        proxies: Proxies,
    ) -> AsyncGenerator[Serving, None]:
        """Check the parts of the host, start them, and serve until the `async with` is left. See `serving`."""
        await self._check()
        certificate = None if tls is None else Certificate(*tls)
        addresses = _addresses(port, host, unix, certificate)
        if descriptor is not None:
            listener = inherited(descriptor, certificate)
            addresses, host = (listener,), listener.host or LOOPBACK[0]
        authenticator, fragment = self._authenticator, ""
        if authenticator is None:
            if host not in LOOPBACK and not isinstance(addresses[0], UnixSocket):
                if isinstance(addresses[0], Inherited):
                    addresses[0].socket.close()
                raise BadChoice("host", host, NEEDS_KEYS)
            shared = None if self.cluster is None else self.cluster.local_token
            authenticator = token = LocalToken(token=self.token or shared)
            fragment = f"/{token.fragment}"
        policy = SitePolicy(
            hosts=frozenset({_in_url(name) for name in (*LOOPBACK, host, *self._cluster_names)}.union(hosts)),
            origins=frozenset(origins),
            https=tls is not None,
        )
        anew = ReadingAnew(certificate, self._authenticator)
        async with anew.listening(), self.opened(authenticator) as opened, open_shielded_nursery() as nursery:
            nursery.start_soon(anew.run)
            answer = self._hearing(opened, opened.application.answer)
            server = HttpServer(screened(policy, answer), Clock().now_ms, self.limits, proxies, self._other_files)
            if isinstance(authenticator, SocketOwner):
                server.handler, server.admits = authenticator.admitting(server.handler), authenticator.admits
            opened.metrics.connections = server.__len__
            server.on_answer = opened.metrics.requests.add
            collector.count(server)
            try:
                servers = (server, *await self._serve_members(opened, nursery))
                listening, *_ = await nursery.start(server.serve, addresses)
                self._log_address(listening.url)
                try:
                    yield Serving(listening.url, listening.url + fragment, opened.supervisor)
                finally:
                    await self._end(servers, opened)  # noqa: ASYNC102 - it is shielded, and bounds its own time
            finally:
                collector.discount(server)

    def _hearing(self, opened: Opened, handler: Handler, *, members_only: bool = False) -> Handler:
        """Return *handler*, which in a cluster also answers what hosts ask each other; *members_only*: it alone."""
        if self.cluster is None:
            return handler
        farewell = farewell_call(partial(look_at_slots, opened.supervisor))
        handler = with_member_calls(handler, {FAREWELL: farewell, REPORT: report_call(self.cluster)})
        return self._signed.admitting(signed_only(handler) if members_only else handler)

    async def _serve_members(self, opened: Opened, nursery: trio.Nursery) -> tuple[HttpServer, ...]:
        """Listen for the other hosts of the cluster alone, if there is a socket for that."""
        if self.cluster is None or self.cluster.descriptor is None:
            await trio.lowlevel.checkpoint()
            return ()
        handler = self._hearing(opened, opened.application.answer, members_only=True)
        server = server_for_members(self.cluster, handler, self.limits)
        await nursery.start(server.serve, (inherited(self.cluster.descriptor),))
        return (server,)

    @property
    def _other_files(self) -> int:
        """Descriptors besides those for clients: other hosts connect, and each request may be passed on to one."""
        most = self.limits.connections
        return OTHER_FILES if self.cluster is None else OTHER_FILES + files_needed(most) + most

    def asgi(
        self,
        supervisor: Supervisor | aio.Supervisor | None = None,
        *,
        routes: Sequence[str] = (),
        plugins: Sequence[HostPlugin] = (),
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
        proxies: Sequence[str] = (),
    ) -> AsgiApp:
        """Return an ASGI 3 app that answers as this host does, for a server on Trio or asyncio.

        Its sessions run in an open *supervisor*, which parks them at its own end, or else in one that the app opens.
        *routes* are names of operations, such as `stream`: others are not there. The app of a single route answers it
        wherever it is mounted. *plugins* are added to those of the host. *hosts* are names under which the app is
        reached besides those of this machine; for *origins* and *proxies* see `serving`. TLS, addresses and the
        parsing of HTTP are the server's own.
        """
        if self._authenticator is None:
            raise BadChoice("authenticator", "None", NEEDS_KEYS_AS_APP)
        unknown = [name for name in routes if name not in CALLS]
        if unknown:
            raise BadChoice.among("routes", unknown[0], CALLS)
        if supervisor is not None and self.journal is not None:
            raise BadChoice("supervisor", supervisor, ONE_JOURNAL)
        row = self._rows.with_plugins(plugins) if plugins else self._rows
        policy = SitePolicy(
            frozenset({*(_in_url(name) for name in (*LOOPBACK, *self._cluster_names)), *hosts}), frozenset(origins)
        )
        named = Proxies.named(proxies)
        open_service = partial(self._app_service, self._authenticator, policy, named, row, routes)
        return AsgiApp(open_service, self.limits, supervisor)

    @asynccontextmanager
    async def _app_service(
        self,
        authenticator: Authenticator,
        policy: SitePolicy,
        proxies: Proxies,
        row: HostPluginRow,
        routes: Collection[str],
        supervisor: Supervisor | None,
    ) -> AsyncGenerator[AsgiService, None]:
        """Check the parts of the host, start them, and answer requests until the `async with` is left. See `asgi`."""
        await self._check()
        route = CALLS[min(routes)].route.partition(" ")[2] if len(routes) == 1 else None
        async with self._opened(authenticator, row, supervisor) as opened, open_shielded_nursery() as nursery:
            application, figures = opened.application, opened.metrics.requests
            answering = application.with_routes(routes) if routes else application
            answer = self._hearing(opened, answering.answer)
            end = opened.drain.end
            service = AsgiService(answer, policy, proxies, route, self.limits, figures, opened.supervisor, end)
            nursery.start_soon(service.late.run)
            opened.metrics.connections = service.__len__
            self._log_address("the address of its ASGI server")
            try:
                yield service
            finally:
                await self._end((service,), opened)  # noqa: ASYNC102 - it is shielded, and bounds its own time

    @property
    def _cluster_names(self) -> tuple[str, ...]:
        """The names under which other hosts reach this one, if there are others."""
        return () if self.cluster is None else self.cluster.names

    async def _check(self) -> None:
        """Raise an error if the models, the keys or the journal cannot be used."""
        check_models(self._profiles)
        if self.limits.usd_per_day is not None:
            warn_of_prices(self._profiles, self.limits.usd_per_day)
        if isinstance(self._authenticator, ApiKeys):
            self._authenticator.check_there()
        if self.journal is not None:
            await check_usable(self.journal, self.limits.check_seconds)

    async def _end(self, servers: Sequence[HttpServer | AsgiService], opened: Opened) -> None:
        """Refuse requests, park the sessions (without a journal, let open turns end first), then end connections.

        Sessions in the supervisor of somebody else go on: only the open turns are waited for, and plugins.
        """
        within, waits = self.limits.drain_seconds, "open turns have" if self.journal is None else "calls have"
        log.info("the host takes no more requests; %s %g s to end", waits, within)
        until = trio.current_time() + within
        opened.drain.begin()
        for server in servers:
            if isinstance(server, HttpServer):
                server.begin_drain()
        # Shielded: a host that is cancelled lets its turns end too. It bounds its own time.
        # tests/host/test_signals.py::test_a_host_that_is_told_to_end_finishes_its_turns
        with trio.CancelScope(shield=True):
            if opened.is_guest:
                with trio.move_on_at(until):
                    await opened.turns.wait_rest(opened.supervisor)
                    await opened.turns.wait_heard()  # also of turns of sessions that have ended
            else:
                await self._park(opened, until)
            opened.drain.end()
            async with trio.open_nursery() as nursery:  # noqa: TID251 - each task bounds its own time
                for server in servers:
                    nursery.start_soon(server.drain, max(until - trio.current_time(), LAST_ANSWERS))

    async def _park(self, opened: Opened, until: float) -> None:
        """Park the sessions, and let plugins hear of their turns; without a journal, open turns end first."""
        if self.journal is None:
            with trio.move_on_at(until):
                await opened.turns.wait_rest(opened.supervisor)
        others = others_of(opened.supervisor)
        await opened.supervisor.drain(max(until - trio.current_time(), 0))
        if self.cluster is not None:
            await say_farewell(self.cluster, others)
        # Plugins must hear of a finished turn now: the next process does not tell them of it.
        # tests/host/test_host_trouble.py::test_plugins_hear_to_the_end_of_a_turn_that_is_over_when_the_host_ends
        with trio.move_on_after(max(until - trio.current_time(), LAST_ANSWERS)):
            await opened.turns.wait_heard()

    def opened(self, authenticator: Authenticator) -> AbstractAsyncContextManager[Opened]:
        """Start the plugins and the supervisor, and answer requests until the `async with` is left.

        No server listens. At the end, sessions are parked, then requests end that have not ended yet, then plugins
        stop.
        """
        return self._opened(authenticator, self._rows, None)

    @asynccontextmanager
    async def _opened(
        self, authenticator: Authenticator, row: HostPluginRow, supervisor: Supervisor | None
    ) -> AsyncGenerator[Opened, None]:
        """Do as `opened`, with the plugins of *row*, and in *supervisor*, if there is one, which parks the sessions."""
        async with closed_after(self._knowledge), row.running(), open_shielded_nursery() as nursery:
            turns = Turns(row, nursery)
            specs = HostedSpecs(self._profiles, row, turns, self._context_providers)
            async with self._supervised(specs, turns, nursery, supervisor) as (root, journal):
                specs.serve(root)
                await specs.check()
                with HealthParts.watching(root, "" if self.cluster is None else self.cluster.address) as health:
                    nursery.start_soon(health.tree.run)
                    nursery.start_soon(health.tree.forget)
                    nursery.start_soon(health.lag.measure)
                    frames, drain = EventFrames(self.limits, health.figures), HostDrain()
                    nursery.start_soon(frames.shed)
                    checks = {PROFILES: specs.can_start, **self._checks}
                    readiness = Readiness(journal, health, row, checks, self.limits, nursery)
                    who = guarded(authenticator)
                    application = self._application(
                        specs, turns, nursery, who, frames, health, readiness, drain, journal
                    )
                    yield Opened(application, root, turns, frames, health.metrics, drain, supervisor is not None)

    @asynccontextmanager
    async def _supervised(
        self, specs: HostedSpecs, turns: Turns, nursery: trio.Nursery, supervisor: Supervisor | None
    ) -> AsyncGenerator[tuple[Supervisor, Journal], None]:
        """Open a supervisor, or share *supervisor*; yield it with its journal. *turns* hears of its sessions."""
        if supervisor is not None:
            shared = share(supervisor, specs.returning)
            nursery.start_soon(shared.bring_back)
            keeping = keeping_money(shared.supervisor, self.limits.usd_per_day)
            with shared.supervisor.figures(METRIC_TENANTS).telling(turns), keeping:
                yield shared.supervisor, shared.journal
            return
        journal = self.journal or MemoryJournal()
        opening = partial(open_supervisor, journal=journal, specs=specs.returning, telemetry=self.telemetry)
        if self.cluster is not None:
            slots = True if self.cluster.slots is None else self.cluster.slots
            opening = partial(opening, address=self.cluster.address, lease=self.cluster.lease, cluster=slots)
        async with opening(**self._supervisor_options) as root:
            keep_money(root, self.limits.usd_per_day)
            root.figures(METRIC_TENANTS).tell(turns)  # also while it closes, as turns may end then
            yield root, journal

    def _application(  # noqa: PLR0913, PLR0917 - each is a part of its own
        self,
        specs: HostedSpecs,
        turns: Turns,
        nursery: trio.Nursery,
        authenticator: Authenticator,
        frames: EventFrames,
        health: HealthParts,
        readiness: Readiness,
        drain: HostDrain,
        journal: Journal,
    ) -> Application:
        limits, supervisor, row = self.limits, specs.supervisor, turns.rows
        sessions = HostedSessions(supervisor, specs, turns, limits)
        keys = KeyWatch(authenticator, limits)
        nursery.start_soon(keys.run)
        late = DelayedTasks()
        nursery.start_soon(late.run)
        streams = ClientStreams(keys, late, limits)
        drain.when_over.append(streams.end_sessions)
        stored = SessionFiles(limits)
        files = FileCalls(sessions, stored)
        talking = TalkCalls(sessions, files, row, turns, frames, streams, nursery)
        written_paths = WrittenPaths(journal, limits.session_files)
        erased = (frames.erase, written_paths.forget, *health.when_erased)
        looking = ViewCalls(sessions, frames, streams, journal_of(supervisor))
        commands = CommandCalls(sessions, four_eyes=self._four_eyes, limits_money=limits.usd_per_day is not None)
        functions: Mapping[str, CallFunction] = {
            **{name: commands.carry_out for name, call in CALLS.items() if call.commands},
            **functions_of(
                talking,
                SessionLifeCalls(sessions, supervisor, stored, journal, erased),
                files,
                *_reading_calls(sessions, journal, written_paths, self._candidates),
                KnowledgeCalls(sessions, self._knowledge),
                ListingCalls(row, sessions, supervisor, four_eyes=self._four_eyes),
                looking,
                AgUiCalls(talking, commands.carry_out, commands.check, sessions, frames, streams),
                WatchCalls(health),
                EvaluationCalls(self.evaluations),
                HostCalls(readiness.look, drain, self._profiles),
                health.metrics,
            ),
        }
        functions, forwarding, others = self._forwarded(functions, sessions, supervisor, streams, late, nursery)
        operations = HostOperations(functions, drain, limits)
        row.carry_out = PluginCalls(operations).carry_out
        shared = (keys, limits, looking, frames, streams, health.metrics.requests, health.tree, health.held_changes)
        parts = SocketParts(operations, authenticator, *shared, sessions, forwarding, others)
        application = Application(operations, _pages(Sockets(parts)), authenticator, keys)
        application.find_face = self._hosted_faces(operations, looking, late, nursery).find
        return application

    def _hosted_faces(
        self, operations: HostOperations, views: ViewCalls, late: DelayedTasks, nursery: trio.Nursery
    ) -> HostedFaces:
        """Return what finds the face that answers a request."""
        faces = HostedFaces(self._faces, operations, self._agents, late, nursery)
        if self._is_mcp_server:
            faces.mcp = self._mcp_answer(operations, views, nursery)
        return faces

    def _mcp_answer(self, operations: HostOperations, views: ViewCalls, nursery: trio.Nursery) -> FaceAnswer:
        """Start the MCP server, and return what answers its requests."""
        need_extra("mcp", "mcp", "serve MCP")
        from agentrail.host.mcp_server.mcp_endpoint import McpEndpoint  # noqa: PLC0415 - only hosts that are one pay

        endpoint = McpEndpoint(operations, views, () if self.cluster is None else self.cluster.keys, nursery)
        nursery.start_soon(endpoint.run)
        return endpoint.answer

    def _forwarded(
        self,
        functions: Mapping[str, CallFunction],
        sessions: HostedSessions,
        supervisor: Supervisor,
        streams: ClientStreams,
        late: DelayedTasks,
        nursery: trio.Nursery,
    ) -> tuple[Mapping[str, CallFunction], Forwarding | None, OtherHosts | None]:
        """Return *functions* that pass on what is for other hosts, if there are any, and what they do it with."""
        if self.cluster is None:
            return functions, None, None
        forwarding = Forwarding(self.cluster, sessions, streams, late)
        _tell_of_ends(self.cluster, supervisor, forwarding, nursery)
        others = OtherHosts(self.cluster.address, forwarding, partial(_others, self.cluster, supervisor))
        return forwarding.forwarded(others.adding(functions)), forwarding, others

    def _log_address(self, url: str) -> None:
        plugins = ", ".join([f"{name_of(plugin)} {plugin.version}".strip() for plugin in self._rows.plugins])
        profiles = ", ".join([profile.id for profile in self._profiles])
        log.info("serving at %s: %d routes; profiles: %s; plugins: %s", url, len(ROUTES), profiles, plugins or "none")


def _reading_calls(
    sessions: HostedSessions,
    journal: Journal,
    written_paths: WrittenPaths,
    candidates: Mapping[str, Sequence[Attachable]],
) -> tuple[object, ...]:
    """Return the calls that read one session, or wait for its sub-agents."""
    return (
        QueryCalls(sessions),
        SubagentCalls(sessions),
        RecordCalls(sessions, journal),
        WrittenFileCalls(sessions, written_paths),
        WhatIfCalls(sessions, journal, candidates),
    )


def _pages(sockets: Sockets) -> Mapping[str, Handler]:
    """Return what there is over HTTP alone, by the name of its operation."""
    console = ConsoleCalls()
    return {
        "page": _settled(console.page),
        "console_file": _settled(console.file),
        "openapi": _settled(console.openapi),
        "socket": sockets.open,
    }


def _settled(page: Handler) -> Handler:
    """Return *page*, which needs no key, for requests whose connections have a slot or can get one."""

    async def answer(request: HttpRequest) -> HttpResponse:
        request.slot.settle()
        return await page(request)

    return answer


def _tell_of_ends(cluster: Cluster, supervisor: Supervisor, forwarding: Forwarding, nursery: trio.Nursery) -> None:
    """Have *forwarding* know which hosts have gone."""
    tell_deaths(supervisor, forwarding.cut)
    nursery.start_soon(forwarding.watch_silent)
    if cluster.members is not None:  # then no lease tells of it
        nursery.start_soon(forwarding.watch)


def _others(cluster: Cluster, supervisor: Supervisor) -> frozenset[str]:
    """Return the addresses of the other hosts of *cluster*."""
    return others_of(supervisor) if cluster.members is None else cluster.members


def _addresses(
    port: int | None, host: str, unix: Path | None, certificate: Certificate | None
) -> tuple[ListenAddress, ...]:
    """Return where a host listens; the first address is the one that it tells."""
    tcp = Tcp(host, port or 0, certificate)
    if unix is None:
        return (tcp,)
    return (UnixSocket(unix),) if port is None else (tcp, UnixSocket(unix))


def _in_url(name: str) -> str:
    """Return the name or address of a host as it stands in a URL."""
    return f"[{name}]" if ":" in name else name


NOTHING: Final = "SIGHUP: there is neither a certificate nor a file of keys to read anew"


class ReadingAnew:
    """Reads the *certificate*, and the keys of the *authenticator* if it has them in a file, again at each SIGHUP."""

    def __init__(self, certificate: Certificate | None, authenticator: Authenticator | None) -> None:
        self._certificate = certificate
        self._keys = authenticator if isinstance(authenticator, ApiKeys) and authenticator.may_change else None
        self._signalled = trio.Event()

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Catch SIGHUP, which would otherwise end the program, until the `async with` is left."""
        with hangup().listening(self._note):
            yield

    def _note(self) -> None:
        self._signalled.set()

    async def run(self) -> None:
        """Read the files at each signal, and log whether that succeeded.

        An unfit certificate changes nothing, and neither does a file of keys with a line that is not valid. If there is
        no file of keys, or it cannot be read, no key is taken until it can be. A failure does not end the host.
        """
        while True:
            await self._signalled.wait()
            self._signalled = trio.Event()
            if self._certificate is not None:
                with Contained(_failed):
                    await self._read_certificate(self._certificate)
            if self._keys is not None:
                with Contained(_failed):
                    await self._read_keys(self._keys)
            if self._certificate is None and self._keys is None:
                log.warning(NOTHING)

    async def _read_keys(self, keys: ApiKeys) -> None:
        keys.read_anew()
        await keys.refresh()  # `refresh` itself logs what is wrong with the file
        if not keys.problem:
            log.info("SIGHUP: the keys are read anew")

    async def _read_certificate(self, certificate: Certificate) -> None:
        try:
            await trio.to_thread.run_sync(certificate.read_anew)
        except CannotListen as problem:
            log.error(
                "SIGHUP: the earlier certificate and key stay in use, because the new ones are unfit: %s", problem
            )
        else:
            log.info("SIGHUP: the certificate and key are read anew; new connections use them")


def _failed(error: BaseException) -> None:
    tell(log, error, "SIGHUP: files could not be read anew", words=False)
