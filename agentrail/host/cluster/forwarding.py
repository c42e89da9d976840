"""`Forwarding`: passes a request for a session that another host runs on to that host, and its answer back.

The journal says which host that is: `SessionHeld` has its address. If that host is dead, its lease is waited for, and
the session comes back here.

`HeldSessions`: what the journal said a moment ago of sessions that other hosts hold.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, TypeVar, cast
from urllib.parse import quote
from weakref import WeakSet

import trio
from attrs import evolve
from msgspec import Raw

from agentrail.api.bodies import ChatBody, ForkBody, OpenBody, RunBody
from agentrail.api.operation_table import SESSION, HostCall
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
from agentrail.errors.agentrail_error import fresh
from agentrail.host.authentication.identity import ForwardedIdentity
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.host.cluster.holder_connection import (
    HolderConnection,
    HolderGoneError,
    HolderRefusedError,
    HolderSilentError,
    HolderUnfitError,
    KeptBody,
    WholeFrames,
    connect,
    is_well,
    passed_content,
    passed_headers,
    passed_query,
    sent_headers,
)
from agentrail.host.cluster.signatures import SignedCall, signature
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.call import COMMAND, Answer, CallFunction, OperationCall, Shown, Upload
from agentrail.host.operations.event_frames import ClientStreams
from agentrail.host.requests.http_messages import WITHOUT_CONTENT, Headers, PeerGone, Send
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.ids import new_id
from agentrail.runtime.shared.leases import RENEWALS

PAUSE: Final = 0.25
"""Seconds until the journal is asked again who has a session."""


class Refusal(NamedTuple):
    """That a session is held."""

    error: SessionHeld
    until: float
    """Until when it counts."""


class HeldSessions:
    """The refusals of the last moment: of all requests that wait for a session, one asks the journal."""

    def __init__(self) -> None:
        self._refusals: dict[str, Refusal] = {}  # the oldest first

    def check(self, session_id: str) -> None:
        """Raise `SessionHeld` if the journal said so a moment ago; the first caller after that is to ask again."""
        refusal = self._refusals.get(session_id)
        if refusal is None:
            return
        now = trio.current_time()
        if now < refusal.until:
            raise fresh(refusal.error)
        self._keep(session_id, refusal._replace(until=now + PAUSE))

    def add(self, session_id: str, error: SessionHeld) -> None:
        """Note what the journal says."""
        now = trio.current_time()
        self._keep(session_id, Refusal(error, now + min(PAUSE, error.left / 1000)))

    def drop(self, session_id: str) -> None:
        """Forget what it said: it is not so any more."""
        self._refusals.pop(session_id, None)

    def _keep(self, session_id: str, refusal: Refusal) -> None:
        self.drop(session_id)
        self._refusals[session_id] = refusal
        while (first := next(iter(self._refusals))) and self._refusals[first].until < refusal.until - 2 * PAUSE:
            self.drop(first)


T = TypeVar("T")
U = TypeVar("U")

MAX_HOPS: Final = 3
"""How often a request is passed on: a session may change hands while it is under way, but not again and again."""

MOMENT: Final = 0.02
"""Seconds until it is tried again whether a session has left this host that another has taken over."""

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at where the hosts listen to which requests are under way."""

QUIET_SECONDS: Final = 2.0
"""Seconds without a byte of an answer after which its host is asked whether it is well, and from then on again."""

ASKED_TIMES: Final = 2
"""How often in a row a host has to leave that unanswered to be taken for silent."""

LATE: Final = 300
"""Milliseconds by which a holder that lives may be late with the renewal of its lease."""

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
SILENT: Final = "the host at {} takes requests, answers none, and does not say whether it is well; it may be stuck"
NOT_TRUSTED: Final = "the host at {} does not take what this one signs; its log says why"


class Deadline:
    """The end of some seconds, which begin when it is asked for first.

    So they begin with the first refusal: before that, a request may have waited for a journal that was away.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None

    def has_passed(self) -> bool:
        """Whether the seconds are over."""
        now = trio.current_time()
        if self._until is None:
            self._until = now + self._seconds
        return now > self._until


class Forwarding:
    """Passes requests on to the hosts of *cluster* that run their sessions."""

    def __init__(self, cluster: Cluster, sessions: HostedSessions, streams: ClientStreams, late: DelayedTasks) -> None:
        self._patience = 2 * cluster.lease  # for so many seconds a host that cannot be reached is asked again
        self._cluster = cluster
        self._sessions = sessions
        self._streams = streams
        self._late = late
        self._longest = cluster.lease * 1000 + LATE  # milliseconds for which a lease counts at most
        self._missed = cluster.lease * 1000 * (1 - 1 / RENEWALS) - LATE
        self._refusals = HeldSessions()
        self._connections = WeakSet[HolderConnection]()
        self._asked_at: dict[str, float] = {}
        """When each of the hosts was asked last whether it is well; infinity while it is."""

    def forwarded(self, functions: Mapping[str, CallFunction]) -> Mapping[str, CallFunction]:
        """Return the functions of calls, each of which passes a request on if another host runs the session."""
        return {name: partial(self._carry_out, function) for name, function in functions.items()}

    async def _carry_out(self, function: CallFunction, call: OperationCall) -> Answer:
        call = _with_command(_with_kept_file(call))
        here, elsewhere = partial(self._answered_here, function, call), partial(self._answered, call)
        return await self.served(call, here, elsewhere)

    async def served(
        self, call: OperationCall, here: Callable[[], Awaitable[T]], elsewhere: Callable[[str], Awaitable[U]]
    ) -> T | U:
        """Return what *here* returns, or *elsewhere*, with the address of the host that has the session of *call*.

        A host that cannot be reached is asked again for two leases, from the first refusal on; then `SessionHeld` is
        raised. If it is dead, the session comes here.
        """
        deadline, name = Deadline(self._patience), _name(call)
        home, refusal = self._home(call, name), None
        ends = silent_until = -math.inf  # when the lease of the holder ends, and when it did as the holder was silent
        while True:
            _rewind(call)
            holder = home
            if holder is None:
                try:
                    if refusal is not None and name is not None and self._sessions.here(name.root) is None:
                        self._refusals.check(name.root.internal)
                    return await self._served_here(call, name, here, deadline)
                except SessionHeld as held:
                    if not self.may(call, held) or deadline.has_passed():
                        raise
                    refusal, holder = held, held.holder
                    ends = trio.current_time() + held.left / 1000
            _rewind(call)
            try:
                return await elsewhere(holder)
            except HolderUnfitError:
                raise ClusterFault(UNFIT.format(holder)) from None
            except HolderSilentError as silent:
                # A host that is stopped does not renew its lease, so it is waited for until that has ended.
                is_lasting = refusal is not None and refusal.left > self._longest
                if is_lasting or -math.inf < silent_until < ends - PAUSE:
                    raise ClusterFault(SILENT.format(holder)) from None
                silent_until = ends
                await self._outlive(call, name, refusal, silent)
            except HolderGoneError as gone:
                if home is not None and deadline.has_passed():
                    raise HostClosing from None
                await self._outlive(call, name, refusal, gone)

    async def _served_here(
        self, call: OperationCall, name: SessionName | None, here: Callable[[], Awaitable[T]], deadline: Deadline
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
            _rewind(call)
            await trio.sleep(MOMENT)

    async def _answered_here(self, function: CallFunction, call: OperationCall) -> Answer:
        await self._check_free(call)
        return await function(call)

    def _home(self, call: OperationCall, name: SessionName | None) -> str | None:
        """Return the address of the other host that is to run a session; `None` if it may be this one.

        What another host has passed on is answered here: it knows no less of homes than this one.
        """
        home = None if name is None or _hops(call) else self._cluster.home(name.root.internal)
        return None if home == self._cluster.address else home

    async def _outlive(
        self, call: OperationCall, name: SessionName | None, refusal: SessionHeld | None, failure: HolderGoneError
    ) -> None:
        """Wait a moment until it is tried again who has the session of *call*; take it if its holder is dead.

        It is dead if it has missed a renewal of its lease, and nobody listens at its address. One that lives but is
        taken for dead loses the session, and can do no harm: the journal refuses what it writes.
        """
        is_dead = refusal is not None and isinstance(failure, HolderRefusedError) and refusal.left < self._missed
        if is_dead and name is not None and refusal is not None:
            # its holder had died before it wrote anything, or another host takes it over at the same moment
            with suppress(UnknownSession, SessionHeld, Fenced):
                await self._sessions.running(name, call.watch, take_over=refusal.holder)
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

    async def watch_silent(self) -> None:
        """Body of a task: end what is under way at a host that sends nothing and does not say whether it is well.

        An answer may be waited for as long as a turn takes, so time alone tells nothing.
        """
        async with trio.open_nursery() as nursery:  # noqa: TID251 - each task bounds its own time
            while True:
                await trio.sleep(LOOK_SECONDS)
                late = trio.current_time() - QUIET_SECONDS
                self._asked_at = {holder: asked_at for holder, asked_at in self._asked_at.items() if asked_at > late}
                for holder in {connection.holder for connection in self._quiet(late)} - self._asked_at.keys():
                    self._asked_at[holder] = math.inf
                    nursery.start_soon(self._ask_well, holder, late)

    def _quiet(self, since: float) -> list[HolderConnection]:
        """Return the connections on which nothing has come *since* then, although it is waited for."""
        return [
            connection
            for connection in self._connections
            if connection.waits_since is not None and connection.waits_since <= since
        ]

    async def _ask_well(self, holder: str, late: float) -> None:
        """Ask *holder* whether it is well; if it says nothing, end what has been waiting there since *late*."""
        for _ in range(ASKED_TIMES):
            if await is_well(self._cluster, holder):
                break
        else:
            for connection in self._quiet(late):
                if connection.holder == holder:
                    connection.cut(is_silent=True)
        self._asked_at[holder] = trio.current_time()

    async def _look(self, holder: str) -> None:
        """End what is under way at *holder* if it listens elsewhere now."""
        connections = [connection for connection in self._connections if connection.holder == holder]
        endpoint = await self._cluster.find_again(holder)
        for connection in connections:
            if endpoint not in {None, connection.endpoint}:
                connection.cut()

    async def _check_free(self, call: OperationCall) -> None:
        """Raise `SessionHeld` if another host runs the session that a request to talk is for.

        So host plugins hear of the request on that host alone.
        """
        if call.row.name not in TALKS:
            return
        refusal: SessionHeld | None = None
        with suppress(AgentrailError):  # the call itself meets any other error
            visible = call.session or _session_in(call)
            if visible:
                name = self._sessions.name(call.row, call.who, visible)
                try:
                    await self._sessions.running(name, call.watch)
                except SessionHeld as error:
                    refusal = error
        _rewind(call)
        if refusal is not None:
            raise refusal

    def may(self, call: OperationCall, refusal: SessionHeld) -> bool:
        """Whether *call* may be passed on: not if it goes round and round, nor to a program that is no host."""
        return _hops(call) < MAX_HOPS and self._cluster.has(refusal.holder)

    async def _answered(self, call: OperationCall, holder: str) -> Answer:
        """Return the answer of the host at *holder*; raise `HolderGoneError` if it has none."""
        if call.row.media == MEDIA_TYPE:
            self._streams.check(call.who)  # before the other host takes the prompt
        scope = trio.CancelScope()

        async def watch() -> None:
            await call.wait_gone()
            scope.cancel()

        with scope:
            async with self._late.beside(watch):
                return await self._whole_answer(holder, call)
        raise PeerGone

    async def _whole_answer(self, holder: str, call: OperationCall) -> Answer:
        connection = await self.forward(holder, call)
        is_stream = call.row.media == MEDIA_TYPE == dict(connection.headers).get("content-type")
        try:
            if is_stream:
                opened = self._streams.session if call.row.name == "events" else self._streams.turn
                return opened(call, partial(_stream, connection))
            content = await connection.content()
        finally:
            if not is_stream:
                await connection.close()  # noqa: ASYNC102 - it waits for nothing
        if connection.status not in ANSWERS or (connection.status in WITHOUT_CONTENT and content):
            raise HolderUnfitError
        return Shown(connection.status, Raw(content), sent_headers(call.row, connection.headers))

    async def forward(self, holder: str, call: OperationCall, more: Headers = ()) -> HolderConnection:
        """Send *call* on to the host at *holder*; return the connection on which its answer begins.

        Raise `HolderGoneError` if it cannot be reached or is stopping.
        """
        body, query = await passed_content(call), passed_query(call)
        connection, authority = await connect(self._cluster, holder)
        self._connections.add(connection)
        try:
            signed = _signed_call(call.row, call.session, query, body)
            header = signature(self._cluster, call.who, holder, Clock().now_ms(), signed)
            headers = (header, *passed_headers(call), *more)
            await connection.ask(authority, signed.method, _target(call.row, call.session, query), headers, body)
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


def _hops(call: OperationCall) -> int:
    return call.who.hops if isinstance(call.who, ForwardedIdentity) else 0


def _rewind(call: OperationCall) -> None:
    """Let the body of *call* be read again."""
    body = call.body(object)
    if isinstance(body, Upload) and isinstance(body.content, KeptBody):
        body.content.rewind()


def _with_kept_file(call: OperationCall) -> OperationCall:
    """Return *call* with a file that can be read again, if it has one."""
    body = call.body(object)
    return evolve(call, body=evolve(body, content=KeptBody(body.content))) if isinstance(body, Upload) else call


def _name(call: OperationCall) -> SessionName | None:
    """Return the session of *call*; `None` if there is none, or it is wrong, which the call itself meets."""
    with suppress(AgentrailError):
        return _session_of(call)
    return None


def _session_of(call: OperationCall) -> SessionName | None:
    """Return the session that *call* is for, or that it opens; `None` if it is for no single one."""
    who, kind = call.who, call.row.name
    if kind == "fork":
        origin = named(who.tenant, who.user, call.session)
        return new_name(who.tenant, origin.user, call.body(ForkBody).session or call.made_name)
    if call.session:
        return named(who.tenant, who.user, call.session)
    if kind == "open_session":
        return new_name(who.tenant, who.user, call.body(OpenBody).session or call.made_name)
    if kind in TALKS:
        return named(who.tenant, who.user, _session_in(call) or call.made_name)
    return None


def _session_in(call: OperationCall) -> str:
    """Return the session in the body of a request to talk; empty if it names none."""
    body = call.body(object)
    return body.thread_id if isinstance(body, RunBody) else cast("ChatBody", body).session or ""


def _with_command(call: OperationCall) -> OperationCall:
    """Return *call* with a command id if it has none: sent again to another host, it is carried out once."""
    if not call.row.command or call.key is not None:
        return call
    key = new_id()
    return evolve(call, key=key, headers=(*call.headers, (COMMAND, key)))


def _signed_call(call: HostCall, session: str, query: str, body: bytes) -> SignedCall:
    """Return a request for *call* about *session*, as it is signed."""
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
            if whole_frames := frames.add(piece):
                await send(whole_frames)
    except HolderGoneError:
        raise HostClosing from None
    finally:
        await connection.close()  # noqa: ASYNC102 - it waits for nothing
    return frames.rest() or None
