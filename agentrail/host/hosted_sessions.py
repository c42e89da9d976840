"""`HostedSessions`: finds, opens and lists the sessions of a host, and checks which user may do what with them.

`SessionQuota`: limits the sessions of each tenant, without counting the stored ones each time.

`JournalWatch`: ends a request with an error when the journal has not been able to write for too long.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Final, TypeVar, cast
from weakref import WeakValueDictionary

import trio

from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import OPERATE, HostCall
from agentrail.api.public_ids import WHOLE_JOURNAL, SessionName, beginning, named, read_internal
from agentrail.api.session_values import Reply
from agentrail.app.supervisor import Supervisor, journal_of, still_has, summary_of
from agentrail.core.vocabulary.state import State
from agentrail.errors import (
    AgentrailError,
    BadModelOptions,
    BadOptions,
    FilesNotTaken,
    HostClosing,
    JournalFull,
    JournalUnavailable,
    ModelMissing,
    RefusedError,
    ScopeMissing,
    SessionAsleep,
    SessionNotAlive,
    UnknownAgent,
    UnknownModel,
    UnknownSession,
    UsageError,
    WaitsForJournal,
    WaitsForSpace,
)
from agentrail.host.authentication.identity import Identity
from agentrail.host.hosted_turns import Turns
from agentrail.host.plugins.plugin_values import RequestContext
from agentrail.host.profiles import HostedSpecs, Offered
from agentrail.host.uploads.session_files import UploadSandbox
from agentrail.ports.journal import SessionFilter, StoredSession
from agentrail.ports.protocol_members import has_members
from agentrail.ports.sandbox import Receiver, Sandbox
from agentrail.runtime.access.turn_reply import stored_reply
from agentrail.runtime.handle import SessionHandle, wake
from agentrail.runtime.shared.untrusted_calls import Contained, tell

COUNTED_FOR: Final = 1.0
"""Seconds until sessions are counted again, as another process may open some in the same journal."""

KEPT: Final = 64
"""The counts of how many tenants are kept when none of their sessions is being opened."""


class SessionQuota:
    """Limits each tenant to *most* open sessions; *find* returns the ids of a tenant's open sessions."""

    def __init__(self, most: int, find: Callable[[str], Awaitable[frozenset[str]]]) -> None:
        self._most = most
        self._find = find
        self._counts: WeakValueDictionary[str, _SessionCount] = (
            WeakValueDictionary()
        )  # entries live while in use, or in `_recent`
        self._recent: deque[_SessionCount] = deque(maxlen=KEPT)

    @asynccontextmanager
    async def reserve(self, tenant: str, session_id: str) -> AsyncGenerator[None, None]:
        """Reserve a place for a session of *tenant* while it starts; raise `RefusedError` if the quota is used up.

        Several may start at once. If starting sessions hold the last places, a further one waits whether one of them
        fails.
        """
        count = self._counts.setdefault(tenant, _SessionCount())
        if count not in self._recent:
            self._recent.append(count)
        await self._reserve(tenant, count, session_id)
        try:
            yield
        finally:
            count.leave(session_id)

    async def _reserve(self, tenant: str, count: _SessionCount, session_id: str) -> None:
        async with count.lock:
            if count.upper_bound >= self._most or trio.current_time() >= count.counted_at + COUNTED_FOR:
                await self._count(tenant, count)
            if count.upper_bound >= self._most:
                raise RefusedError("too-many-sessions", self._most)
            count.take(session_id)

    async def _count(self, tenant: str, count: _SessionCount) -> None:
        """Count the open sessions of *tenant*; if the last places are held by starting ones, wait whether one fails."""
        while True:
            starting = frozenset(count.starting)  # none begins to start: the caller holds the tenant's lock
            now = trio.current_time()
            # a session that is starting may be among the found ones, or not yet
            count.upper_bound = len(starting | await self._find(tenant))
            count.counted_at = now
            if count.upper_bound < self._most or not starting:
                return
            await count.wait_started(starting)


class _SessionCount:
    """An upper bound of the open sessions of a tenant: those counted last, and those opened since."""

    def __init__(self) -> None:
        self.lock = trio.Lock()
        self.upper_bound = 0
        self.counted_at = float("-inf")
        self.starting = set[str]()
        self._start_ended = trio.Event()

    def take(self, session_id: str) -> None:
        """Note that a session starts. It counts from now on, even if its start fails."""
        self.upper_bound += 1
        self.starting.add(session_id)

    def leave(self, session_id: str) -> None:
        """Note that a session has started, or has failed to."""
        self.starting.remove(session_id)
        self._start_ended.set()
        self._start_ended = trio.Event()

    async def wait_started(self, starting: frozenset[str]) -> None:
        """Wait until one of the sessions *starting* has started, or has failed to."""
        if self.starting >= starting:
            await self._start_ended.wait()


log = logging.getLogger("agentrail.host")

ADMIN: Final = "admin"
IS_SUBAGENT: Final = "it works for another agent"
TELL_PARENT: Final = "upload them to the session of that agent"
NO_SANDBOX: Final = "its `SessionSpec` has no `sandbox`"
NO_RECEIVER: Final = "its sandbox has no `receive` and no `remove`"
UNFIT: Final = "cannot set up the session `%s`: %s"
GIVE_SANDBOX: Final = "have the operator give it one, such as `LocalSandbox(folder)`"

PAGE: Final = 1000
"""How many stored sessions are listed at once, if all are wanted."""

FEW: Final = 16
"""How many are listed at once at least, as some of them may be passed over."""


def check_scope(call: HostCall, who: Identity) -> None:
    """Raise `ScopeMissing` if *who* lacks the scope of *call*, both for own sessions and for those of others."""
    if call.scope is not None and not may(call, who):
        raise ScopeMissing(call.name, call.scope)


def may(call: HostCall, who: Identity) -> bool:
    """Whether *who* has the scope of *call*, for own sessions or for those of others; `admin` is of one tenant."""
    return bool(who.scopes & {call.scope, call.others}) or (ADMIN in who.scopes and call.scope != OPERATE)


def check_owner(call: HostCall, who: Identity, name: SessionName) -> None:
    """Raise `UnknownSession` if the session *name* is another user's, and *who* lacks the scope for it.

    The error is the same as for a missing session, so that it reveals nothing. Own sessions need only `check_scope`.
    """
    if name.user != who.user and not is_for_others(call, who):
        raise UnknownSession(name.visible)


def of_tenant(tenant: str) -> SessionFilter:
    """Return the filter of all sessions that a user of *tenant* may have to do with."""
    return SessionFilter(tenant=None if tenant == WHOLE_JOURNAL else tenant)


def is_for_others(call: HostCall, who: Identity) -> bool:
    """Whether *who* has the scope to do *call* with sessions of other users of the tenant."""
    return call.others is not None and bool(who.scopes & {call.others, ADMIN})


async def woken(handle: SessionHandle, watch: JournalWatch) -> SessionHandle:
    """Wake the session of *handle* if it hibernates, so that its state can be read; return *handle*.

    From now on, *watch* watches its journal.
    """
    watch.follow(handle)
    try:
        handle.inspect()
    except SessionAsleep:
        await wake(handle)
    return handle


class HostedSessions:
    """The sessions of a host, as the user of a tenant may see them."""

    def __init__(self, supervisor: Supervisor, specs: HostedSpecs, turns: Turns, limits: HostLimits) -> None:
        self._supervisor = supervisor
        self._specs = specs
        self._turns = turns
        self._limits = limits
        self._quota = SessionQuota(limits.sessions, self._living)
        self._start_locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()  # by session; kept while in use

    def name(self, call: HostCall, who: Identity, visible: str) -> SessionName:
        """Return the session that *who* calls *visible*; raise `UnknownSession` if *who* may not do *call* with it."""
        name = named(who.tenant, who.user, visible)
        check_owner(call, who, name)
        return name

    async def running(self, name: SessionName, watch: JournalWatch, *, take_over: bool | str = False) -> SessionHandle:
        """Return the session *name*, which is brought back if it is only stored; raise `UnknownSession` if none is.

        From now on, *watch* watches its journal. With *take_over*, as of `resume`, another host loses the session. A
        sub-agent is brought back through its root session: resumed alone, it would become a session without a parent.
        """
        handle = self.here(name)
        if handle is None:
            # checked first: resuming a missing session would block its name for a request that opens it meanwhile
            await self.stored(name)
            if name != name.root:
                await self.running(name.root, watch, take_over=take_over)
                raise SessionNotAlive(name.visible, "it has ended, or its parent is bringing it back")
        if handle is None:
            with _profile_errors(name):
                handle = await self._supervisor.resume(name.internal, take_over=take_over)
        await woken(handle, watch)
        self._turns.of(handle)
        return handle

    def here(self, name: SessionName) -> SessionHandle | None:
        """Return the handle of the session *name* if it runs in this host; else `None`."""
        try:
            return self._supervisor.session(name.internal)
        except UnknownSession:
            return None

    async def still_has(self, name: SessionName) -> bool:
        """Whether no other host has taken over the session *name*, as the journal tells now."""
        return await still_has(self._supervisor, name.internal)

    async def offered(self, session: SessionHandle) -> Offered:
        """Return the tools, plugins and models that *session* may be given by name.

        Raise `UsageError` if its profile is gone.
        """
        try:
            return await self._specs.offered(session)
        except UnknownAgent as gone:
            raise UsageError("spec-missing", session.id, session.inspect().setup.spec) from gone

    async def agent(self, name: SessionName) -> str | None:
        """Return the profile of the session *name*, empty if it cannot be read; `None` if there is no such session."""
        handle = self.here(name)
        with suppress(AgentrailError):
            if handle is not None:
                return handle.inspect().setup.spec
        try:
            return (await self.stored(name)).about.spec
        except UnknownSession:
            return None
        except AgentrailError:  # the next call for this session raises it
            return ""

    @property
    def first_agent(self) -> str:
        """Name of the first profile; empty if a function finds them."""
        return self._specs.first

    async def parted(self, name: SessionName) -> None:
        """End the session *name* if it runs here, so that it can be erased."""
        handle = self.here(name)
        if handle is not None:
            await handle.stop()

    async def forked(
        self, origin: SessionName, agent: str, name: SessionName, point: int | str | None, command: str | None = None
    ) -> SessionHandle:
        """Start a session with the history of *origin*, up to *point* as in `fork`, and with a new specification.

        *agent* is the profile of *origin*.
        """
        spec = None
        if origin == origin.root:  # without a specification, the fork of a sub-agent uses the code of its parent
            spec = await self._specs.forking(name.internal, origin.internal, agent)
        async with self._start_lock(name), self._quota.reserve(name.tenant, name.internal):
            with _profile_errors(name):
                handle = await self._supervisor.fork(origin.internal, spec, at=point, id=name.internal, command=command)
        # without a specification of its own, it works in the sandbox of *origin*
        self._turns.of(handle).spec = spec or self._turns.spec_of(origin.internal)
        return handle

    async def storage(self, name: SessionName, watch: JournalWatch) -> UploadSandbox:
        """Return the sandbox of the session *name*, which is brought back if it is only stored.

        Raise `FilesNotTaken` if it has none that takes files.
        """
        session = await self.running(name, watch)
        if "." in name.name:
            raise FilesNotTaken(IS_SUBAGENT, TELL_PARENT)
        sandbox = await self._specs.sandbox(name.internal, session.inspect().setup.spec)
        storage = _storage(sandbox)
        if storage is None:
            raise FilesNotTaken(NO_SANDBOX if sandbox is None else NO_RECEIVER, GIVE_SANDBOX)
        return storage

    async def folder(self, name: SessionName) -> Sandbox:
        """Return a sandbox with the files of the session *name*, which is neither started nor woken."""
        return await self._specs.folder(name.internal, (await self.stored(name)).about.spec)

    async def outputs(self, name: SessionName) -> tuple[str, ...]:
        """Return the patterns of the files that users may fetch although no file tool wrote them."""
        return tuple(await self._specs.outputs(name.internal, (await self.stored(name)).about.spec))

    async def storage_to_erase(self, name: SessionName, agent: str) -> UploadSandbox | None:
        """Return the sandbox of the session *name* of the profile *agent*; `None` if it has none with files.

        The session is not brought back.
        """
        failed: list[BaseException] = []
        with Contained(failed.append):
            return _storage(await self._specs.sandbox(name.internal, agent))
        tell(
            log, failed[0], "the uploaded files of `%s`, which is erased, stay: it has no specification", name.internal
        )
        return None

    async def state(self, name: SessionName) -> State:
        """Return the state of a session, also of one that has ended or sleeps; it is neither started nor woken."""
        handle = self.here(name)
        if handle is not None:
            with suppress(SessionAsleep):
                return handle.inspect()
        await self.stored(name)  # raises the same error for a missing session as for one of another tenant
        return await self._supervisor.state(name.internal)

    async def reply_at_rest(self, name: SessionName, ref: str | None) -> Reply | None:
        """Return how a turn of a session that sleeps, or is only stored, has ended; it is neither started nor woken.

        Return `None` if the session is awake here or has ended, or a turn is open.
        """
        handle = self.here(name)
        if handle is not None:
            with suppress(SessionAsleep):
                handle.inspect()
                return None
        # Before the head is read: else a turn that ends at another host in between has its end in neither
        state = await self.state(name)
        stored = await self.stored(name)
        if stored.ended:
            return None
        read_records = partial(journal_of(self._supervisor).read, name.internal)
        return await stored_reply(name.internal, state, read_records, stored.head, ref)

    async def listed(
        self, session_filter: SessionFilter, after: SessionName | None = None, most: int | None = None
    ) -> list[StoredSession]:
        """Return at most *most* sessions that fit *session_filter*, those with ids above *after*, sorted by id.

        Sessions that no host has opened are left out, and so are sub-agents. All ids of a tenant begin with the
        tenant's name, so the journal reads only the ids in that range. Of a whole journal, all are listed.
        """
        first = beginning(session_filter.tenant or "", session_filter.owner)
        last = StoredSession(first if after is None else after.internal, 0)
        size = PAGE if most is None else min(PAGE, max(most, FEW))
        sessions: list[StoredSession] = []
        while most is None or len(sessions) < most:
            page = await self._supervisor.stored(session_filter, last, size)
            sessions += [session for session in page if not first or _is_root(session.session_id)]
            if len(page) < size or not page[-1].session_id.startswith(first):
                break
            last = page[-1]
        sessions = [session for session in sessions if session.session_id.startswith(first)]
        return sessions[:most]

    async def stored(self, name: SessionName) -> StoredSession:
        """Return the summary of a stored session; raise `UnknownSession` if there is none."""
        session = await summary_of(self._supervisor, name.internal)
        # a program may have begun one with the id of a tenant's session: that belongs to no tenant
        if session is None or not of_tenant(name.tenant).holds(session):
            raise UnknownSession(name.visible)
        return session

    async def check_over(self, call: HostCall, who: Identity, visible: str) -> None:
        """Raise `HostClosing` unless a session whose events have ended has ended too: the client is to listen again."""
        if not (await self.stored(self.name(call, who, visible))).ended:
            raise HostClosing

    async def opened(
        self,
        who: Identity,
        context: RequestContext,
        name: SessionName,
        title: str = "",
        labels: Sequence[str] = (),
        command: str | None = None,
    ) -> SessionHandle:
        """Start a session of the profile `context.agent_id`; raise `SessionExists` if there is one of this name."""
        spec = await self._specs.new(context)
        async with self._start_lock(name), self._quota.reserve(who.tenant, name.internal):
            with _profile_errors(name):
                handle = await self._supervisor.spawn(
                    spec, name.internal, tenant=who.tenant, owner=who.user, title=title, labels=labels, command=command
                )
        self._turns.of(handle).spec = spec
        return handle

    def _start_lock(self, name: SessionName) -> trio.Lock:
        """Return the lock under which a session of this *name* starts: a second request then finds the session."""
        return self._start_locks.setdefault(name.internal, trio.Lock())

    async def _living(self, tenant: str) -> frozenset[str]:
        """Return the ids of the sessions of *tenant* that have not ended, up to the limit."""
        sessions = await self.listed(SessionFilter(tenant=tenant, ended=False), None, self._limits.sessions)
        return frozenset([session.session_id for session in sessions])


@contextmanager
def _profile_errors(name: SessionName) -> Generator[None]:
    """Raise `ModelMissing` or `BadModelOptions` for a wrong model of a profile: it is not the client's fault.

    The text of the error goes to the log: it is about the profile, not about the conversation.
    """
    try:
        yield
    except UnknownModel as error:
        log.warning(UNFIT, name.internal, error)
        raise ModelMissing(error.args[0]) from error
    except BadOptions as error:
        log.warning(UNFIT, name.internal, error)
        raise BadModelOptions(str(error)) from error


def _storage(sandbox: object) -> UploadSandbox | None:
    """Return *sandbox* if it takes files; else `None`."""
    return cast("UploadSandbox", sandbox) if has_members(sandbox, Receiver) else None


def _is_root(session_id: str) -> bool:
    """Whether this is the id of a session that a host has opened, and not of a sub-agent."""
    name = read_internal(session_id)
    return name is not None and name == name.root


T = TypeVar("T")

PATIENCE: Final = 5.0
"""Seconds for which a request waits while the journal fails; without space in it, no request waits."""

APART: Final = 30.0
"""Seconds between two failures from which they are of two outages: attempts are made more often."""


class JournalWatch:
    """Watches, for one request, whether the journal can write for the sessions of the request."""

    def __init__(self) -> None:
        self._scope = trio.CancelScope()
        self._ends: list[Callable[[], None]] = []
        self._is_over = False
        self._is_full = False
        self._began = self._last = -APART

    def follow(self, session: SessionHandle) -> None:
        """Watch *session* too: `answered` fails when the journal cannot write for it. No-op after the answer."""
        if not self._is_over:
            self._ends.append(session.monitor().when_stuck(self._failed))

    async def answered(self, answer: Callable[[], Awaitable[T]]) -> T:
        """Return the result of *answer*; cancel *answer* and raise an error if the journal cannot write.

        That is: the disk is full, or writing has failed for `PATIENCE` seconds.

        The error is `WaitsForSpace` or `WaitsForJournal`. A session that has taken a command carries it out all the
        same, and so do tasks of the host that *answer* waits for.
        """
        try:
            with self._scope:
                return await answer()
        finally:
            self._is_over = True
            for end in self._ends:
                end()
            self._ends.clear()  # each knows this watch
        raise WaitsForSpace if self._is_full else WaitsForJournal

    def _failed(self, error: JournalUnavailable) -> None:
        now = trio.current_time()
        if now >= self._last + APART:
            self._began = now
        self._last = now
        self._is_full = isinstance(error, JournalFull)
        if self._is_full or now >= self._began + PATIENCE:
            self._scope.cancel()
