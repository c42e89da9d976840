"""`Forwarding`: passes a request for a session that another host runs on to that host, and its answer back.

The journal says which host that is: `SessionHeld` has its address. If that host is dead, its lease is waited for, and
the session comes back here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar, cast
from urllib.parse import quote
from weakref import WeakSet

import trio
from attrs import evolve

from agentrail.api.ag_ui_bodies import RunBody
from agentrail.api.bodies import ChatBody, ForkBody, OpenBody
from agentrail.api.operation_table import BYTES, SESSION, HostCall
from agentrail.api.problems import TYPES, Problem, code_of
from agentrail.api.public_ids import SessionName, named, new_name
from agentrail.api.sse_frames import MEDIA_TYPE
from agentrail.errors import (
    AgentrailError,
    ClusterFault,
    Fenced,
    HostClosing,
    KeyWithdrawn,
    SessionHeld,
    UnknownCursor,
    UnknownSession,
)
from agentrail.host.authentication.identity import ForwardedIdentity
from agentrail.host.cluster.cluster_identity import SignedCall, signature
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.host.cluster.held_sessions import PAUSE, HeldSessions
from agentrail.host.cluster.holder_connection import (
    HolderConnection,
    HolderGoneError,
    HolderRefusedError,
    HolderUnfitError,
    connect,
)
from agentrail.host.cluster.kept_body import KeptBody
from agentrail.host.cluster.passed_headers import passed_headers, sent_headers
from agentrail.host.cluster.whole_frames import WholeFrames
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.answers import Answer, received
from agentrail.host.operations.call_request import CallFunction, CallRequest
from agentrail.host.operations.client_streams import ClientStreams
from agentrail.host.requests.access_log import REQUEST_ID
from agentrail.host.requests.http_messages import WITHOUT_CONTENT, Headers, HttpRequest, PeerGone, Send
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.ids import new_id
from agentrail.runtime.shared.leases import RENEWALS

T = TypeVar("T")
U = TypeVar("U")

MAX_HOPS: Final = 3
"""How often a request is passed on: a session may change hands while it is under way, but not again and again."""

MOMENT: Final = 0.02
"""Seconds until it is tried again whether a session has left this host that another has taken over."""

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at where the hosts listen to which requests are under way."""

LATE: Final = 300
"""Milliseconds by which a holder that lives may be late with the renewal of its lease."""

COMMAND: Final = "idempotency-key"

FORWARDED_FOR: Final = "x-forwarded-for"

TALKS: Final = frozenset({"ag_ui_run", "ask", "chat", "prompt", "steer", "stream"})
"""Calls by which plugins of the host hear of a request."""

ANSWERS: Final = range(200, 600)
"""The statuses of answers of hosts."""

STOPPING: Final = 503
CLOSING: Final = f"{TYPES}{code_of(HostClosing)}".encode()
"""Status of a host that stops, and what its answer then contains: another will have its sessions in a moment."""

KEY_WITHDRAWN: Final = f"{TYPES}{code_of(KeyWithdrawn)}".encode()
"""What a 401 contains that is about the key of the user: the host that runs the session does not have it."""

DISTRUST: Final = f"{TYPES}{code_of(ClusterFault)}".encode()
"""What a 503 contains if the other host does not believe this one."""

UNFIT: Final = "what listens at {}, where the journal says that a host is, answers as no host does"
NOT_TRUSTED: Final = "the host at {} does not take what this one signs; its log says why"


class Deadline:
    """The end of some seconds, which begin when it is asked for first.

    So they begin with the first refusal: before that, a request may have waited for a journal that was away.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._at: float | None = None

    def has_passed(self) -> bool:
        """Whether the seconds are over."""
        now = trio.current_time()
        if self._at is None:
            self._at = now + self._seconds
        return now > self._at


class Forwarding:
    """Passes requests on to the hosts of *cluster* that run their sessions."""

    def __init__(self, cluster: Cluster, sessions: HostedSessions, streams: ClientStreams, late: DelayedTasks) -> None:
        self._patience = 2 * cluster.lease  # for so many seconds a host that cannot be reached is asked again
        self._cluster = cluster
        self._sessions = sessions
        self._streams = streams
        self._late = late
        self._missed = cluster.lease * 1000 * (1 - 1 / RENEWALS) - LATE
        self._refusals = HeldSessions()
        self._connections = WeakSet[HolderConnection]()

    def forwarded(self, functions: Mapping[str, CallFunction]) -> Mapping[str, CallFunction]:
        """Return the functions of calls, each of which passes a request on if another host runs the session."""
        return {name: partial(self._carry_out, function) for name, function in functions.items()}

    async def _carry_out(self, function: CallFunction, request: CallRequest) -> Answer:
        request = _with_command(evolve(request, http=evolve(request.http, body=KeptBody(request.http.body))))
        here, elsewhere = partial(self._answered_here, function, request), partial(self._answered, request)
        return await self.served(request, here, elsewhere)

    async def served(
        self, request: CallRequest, here: Callable[[], Awaitable[T]], elsewhere: Callable[[str], Awaitable[U]]
    ) -> T | U:
        """Return what *here* returns, or *elsewhere*, with the address of the host that has the session of *request*.

        A host that cannot be reached is asked again for two leases, from the first refusal on; then `SessionHeld` is
        raised. If it is dead, the session comes here.
        """
        deadline, name = Deadline(self._patience), await _name(request)
        home, refusal = self._home(request, name), None
        while True:
            _rewind(request)
            holder = home
            if holder is None:
                try:
                    if refusal is not None and name is not None and self._sessions.here(name.root) is None:
                        self._refusals.check(name.root.internal)
                    return await self._served_here(request, name, here, deadline)
                except SessionHeld as held:
                    if not self.may(request, held) or deadline.has_passed():
                        raise
                    refusal, holder = held, held.holder
            _rewind(request)
            try:
                return await elsewhere(holder)
            except HolderUnfitError:
                raise ClusterFault(UNFIT.format(holder)) from None
            except HolderGoneError as gone:
                if home is not None and deadline.has_passed():
                    raise HostClosing from None
                await self._outlive(request, name, refusal, gone)

    async def _served_here(
        self, request: CallRequest, name: SessionName | None, here: Callable[[], Awaitable[T]], deadline: Deadline
    ) -> T:
        """Return what *here* returns; again, up to the *deadline*, if another host has just taken over the session.

        It then raises `SessionHeld`, as soon as the session has left this host.
        """
        is_own = False
        while True:
            try:
                answer = await here()
                if not _is_fenced(answer) or deadline.has_passed():
                    return answer
            except SessionHeld as refusal:
                if name is not None:
                    self._refusals.add(name.root.internal, refusal)
                raise
            except Fenced:
                if deadline.has_passed():
                    raise
            except UnknownCursor:  # the client may have heard it from the host that has the session
                if is_own or deadline.has_passed():
                    raise
                # the session may have left this host, and have come back: what it said before that is to be asked again
                is_own = name is None or await self._sessions.still_has(name.root)  # noqa: ASYNC120 - who cancels it wants no error
            except AgentrailError:
                if name is not None:
                    self._refusals.drop(name.root.internal)
                raise
            _rewind(request)
            await trio.sleep(MOMENT)

    async def _answered_here(self, function: CallFunction, request: CallRequest) -> Answer:
        await self._check_free(request)
        return await function(request)

    def _home(self, request: CallRequest, name: SessionName | None) -> str | None:
        """Return the address of the other host that is to run a session; `None` if it may be this one.

        What another host has passed on is answered here: it knows no less of homes than this one.
        """
        home = None if name is None or _hops(request) else self._cluster.home(name.root.internal)
        return None if home == self._cluster.address else home

    async def _outlive(
        self, request: CallRequest, name: SessionName | None, refusal: SessionHeld | None, gone: HolderGoneError
    ) -> None:
        """Wait a moment until it is tried again who has the session of *request*; take it if its holder is dead.

        It is dead if it has missed a renewal of its lease, and nobody listens at its address. One that lives but is
        taken for dead loses the session, and can do no harm: the journal refuses what it writes.
        """
        is_dead = refusal is not None and isinstance(gone, HolderRefusedError) and refusal.left < self._missed
        if is_dead and name is not None and refusal is not None:
            # its holder had died before it wrote anything, or another host takes it over at the same moment
            with suppress(UnknownSession, SessionHeld, Fenced):
                await self._sessions.running(name, request.watch, take_over=refusal.holder)
                self._refusals.drop(name.root.internal)
                return
        await trio.sleep(PAUSE if refusal is None else max(MOMENT, min(PAUSE, refusal.left / 1000)))

    def cut(self, holders: frozenset[str]) -> None:
        """End what is under way at *holders*, whose leases have ended: they may be stopped, or cut off."""
        for connection in tuple(self._connections):
            if connection.holder in holders:
                connection.cut()

    async def watch(self) -> None:
        """Body of a task: end what is under way where a host was that listens elsewhere now.

        It may be stopped, or cut off: nothing else tells that it will not answer. Nobody's lease ends, as another
        process has its name.
        """
        while True:
            await trio.sleep(LOOK_SECONDS)
            async with trio.open_nursery() as nursery:  # noqa: TID251 - each task ends with its look
                for holder in {connection.holder for connection in self._connections}:
                    nursery.start_soon(self._look, holder)

    async def _look(self, holder: str) -> None:
        """End what is under way at *holder* if it listens elsewhere now."""
        connections = [connection for connection in self._connections if connection.holder == holder]
        place = await self._cluster.find_again(holder)
        for connection in connections:
            if place not in {None, connection.place}:
                connection.cut()

    async def _check_free(self, request: CallRequest) -> None:
        """Raise `SessionHeld` if another host runs the session that a request to talk is for.

        So host plugins hear of the request on that host alone.
        """
        if request.call.name not in TALKS:
            return
        refusal: SessionHeld | None = None
        with suppress(AgentrailError):  # the call itself meets any other error
            visible = request.session or await _session_in(request)
            if visible:
                name = self._sessions.name(request.call, request.who, visible)
                try:
                    await self._sessions.running(name, request.watch)
                except SessionHeld as error:
                    refusal = error
        _rewind(request)
        if refusal is not None:
            raise refusal

    def may(self, request: CallRequest, refusal: SessionHeld) -> bool:
        """Whether *request* may be passed on: not if it goes round and round, nor to a program that is no host."""
        return _hops(request) < MAX_HOPS and self._cluster.has(refusal.holder)

    async def _answered(self, request: CallRequest, holder: str) -> Answer:
        """Return the answer of the host at *holder*; raise `HolderGoneError` if it has none."""
        if request.call.media == MEDIA_TYPE:
            self._streams.check(request.who)  # before the other host takes the prompt
        scope = trio.CancelScope()

        async def watch() -> None:
            await request.http.gone()
            scope.cancel()

        with scope:
            async with self._late.beside(watch):
                return await self._whole_answer(holder, request)
        raise PeerGone

    async def _whole_answer(self, holder: str, request: CallRequest) -> Answer:
        connection = await self.forward(holder, request)
        is_stream = request.call.media == MEDIA_TYPE == dict(connection.headers).get("content-type")
        try:
            if is_stream:
                opened = self._streams.session if request.call.name == "events" else self._streams.turn
                return opened(request, partial(_stream, connection))
            content = await connection.content()
        finally:
            if not is_stream:
                await connection.close()  # noqa: ASYNC102 - it waits for nothing
        if connection.status not in ANSWERS or (connection.status in WITHOUT_CONTENT and content):
            raise HolderUnfitError
        return received(connection.status, sent_headers(request.call, connection.headers), content)

    async def forward(self, holder: str, request: CallRequest, more: Headers = ()) -> HolderConnection:
        """Send *request* on to the host at *holder*; return the connection on which its answer begins.

        Raise `HolderGoneError` if it cannot be reached or is stopping.
        """
        body = await request.http.body.read(_most_bytes(request))
        connection, authority = await connect(self._cluster, holder)
        self._connections.add(connection)
        try:
            call = _signed_call(request.call, request.session, request.http.query, body)
            header = signature(self._cluster, request.who, holder, Clock().now_ms(), call)
            headers = (header, *_of_client(request.http), *passed_headers(request.http.headers), *more)
            await connection.ask(
                authority, call.method, _target(request.call, request.session, call.query), headers, body
            )
            await _check_trusted(connection)
            if connection.status == STOPPING and CLOSING in await connection.peek():
                raise HolderGoneError
        except BaseException as error:
            if isinstance(error, HolderGoneError):  # it was there, and somebody else may listen there now
                self._cluster.lose(holder)
            await connection.close()  # noqa: ASYNC102 - it waits for nothing
            raise
        return connection


def _is_fenced(answer: object) -> bool:
    """Whether a request to talk, whose errors become answers before they come here, met `Fenced`."""
    return isinstance(answer, Problem) and answer.error == Fenced.__name__


def _hops(request: CallRequest) -> int:
    return request.who.hops if isinstance(request.who, ForwardedIdentity) else 0


def _rewind(request: CallRequest) -> None:
    """Let the body of *request* be read again."""
    if isinstance(request.http.body, KeptBody):
        request.http.body.rewind()


async def _name(request: CallRequest) -> SessionName | None:
    """Return the session of *request*; `None` if there is none, or it is wrong, which the call itself meets."""
    with suppress(AgentrailError):
        return await _session_of(request)
    return None


async def _session_of(request: CallRequest) -> SessionName | None:
    """Return the session that *request* is for, or that it opens; `None` if it is for no single one."""
    who, kind = request.who, request.call.name
    if kind == "fork":
        origin = named(who.tenant, who.user, request.session)
        return new_name(who.tenant, origin.user, (await request.body(ForkBody)).session or request.made_name)
    if request.session:
        return named(who.tenant, who.user, request.session)
    if kind == "open_session":
        return new_name(who.tenant, who.user, (await request.body(OpenBody)).session or request.made_name)
    if kind in TALKS:
        return named(who.tenant, who.user, await _session_in(request) or request.made_name)
    return None


async def _session_in(request: CallRequest) -> str:
    """Return the session in the body of a request to talk; empty if it names none."""
    body = await request.body(object)
    return body.thread_id if isinstance(body, RunBody) else cast("ChatBody", body).session or ""


def _with_command(request: CallRequest) -> CallRequest:
    """Return *request* with a command id if it has none: sent again to another host, it is carried out once."""
    if not request.call.command or request.http.header(COMMAND) is not None:
        return request
    headers = (*request.http.headers, (COMMAND, new_id()))
    return evolve(request, http=evolve(request.http, headers=headers))


def _most_bytes(request: CallRequest) -> int:
    """Return how many bytes the body of *request* may have, as at the host that runs the session."""
    return request.limits.file_bytes if request.call.takes == BYTES else request.limits.body_bytes


def _of_client(http: HttpRequest) -> Headers:
    """Return what another host is told of the client, and believes if this one is named there as a proxy."""
    return (FORWARDED_FOR, http.peer), (REQUEST_ID, http.note.id)


def _signed_call(call: HostCall, session: str, query: str, body: bytes) -> SignedCall:
    """Return a request for *call* about *session*."""
    method, _, path = call.route.partition(" ")
    return SignedCall(method, path.replace(SESSION, session), query, body)


def _target(call: HostCall, session: str, query: str) -> str:
    """Return the target of a request for *call* about *session*."""
    _, _, path = call.route.partition(" ")
    target = path.replace(SESSION, quote(session, safe=""))
    return f"{target}?{query}" if query else target


async def _check_trusted(connection: HolderConnection) -> None:
    """Raise `ClusterFault` if the other host does not take the signature: the user's key counts at this one.

    An older version refuses it as if it were the user's key, and so does what is no host.
    """
    match connection.status:
        case 401 if KEY_WITHDRAWN not in await connection.peek():
            raise ClusterFault(NOT_TRUSTED.format(connection.holder))
        case 503 if DISTRUST in await connection.peek():
            raise ClusterFault(NOT_TRUSTED.format(connection.holder))
        case _:
            pass


async def _stream(connection: HolderConnection, send: Send) -> bytes | None:
    """Send the frames of another host's stream on, each whole; raise `HostClosing` if that host has gone."""
    frames = WholeFrames()
    try:
        while piece := await connection.piece():
            if whole := frames.add(piece):
                await send(whole)
    except HolderGoneError:
        raise HostClosing from None
    finally:
        await connection.close()  # noqa: ASYNC102 - it waits for nothing
    return frames.rest() or None
