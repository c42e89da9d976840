"""`open_supervisor` and `Supervisor`: start, find, resume and stop sessions and other children."""

from __future__ import annotations

import math
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import trio

from agentrail.app.known_specs import KnownSpecs
from agentrail.app.shutdown_time import leave, time_within
from agentrail.app.spec import SessionSpec, Specs, check_spec
from agentrail.errors import (
    SessionExists,
    SessionStored,
    UnknownChild,
    WrongType,
)
from agentrail.hints import SupervisorHints
from agentrail.lazy import LazyModule
from agentrail.open_context import OpenContext, Way
from agentrail.reprs import in_brackets
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.shared.code_loops import bind_function
from agentrail.runtime.shared.ids import new_id
from agentrail.values.argument_checks import checked, with_spelt_calls

if TYPE_CHECKING:
    from agentrail.adapters.sandboxes.kept_files import session_snapshots
    from agentrail.api import command_checks
    from agentrail.api.session_values import ChildView, HeldCall
    from agentrail.app import build, fork_setup
    from agentrail.app import preimport as bringing
    from agentrail.app.model_registry import Factory
    from agentrail.core.vocabulary.state import State
    from agentrail.ports.instrumentation import Telemetry
    from agentrail.ports.journal import Journal, Retention, SessionFilter, StoredAnswer, StoredSession
    from agentrail.ports.money import SpendingLimit
    from agentrail.runtime.diagnosis import metric_families
    from agentrail.runtime.diagnosis.crash_reports import CrashReport
    from agentrail.runtime.diagnosis.figures import Figures
    from agentrail.runtime.shared.journal_retry import SteadyJournal
    from agentrail.runtime.supervision import parking, root_nursery, session_deletion, session_rows
    from agentrail.runtime.supervision.children import ServiceFunction
    from agentrail.runtime.supervision.session_rows import SessionRows
    from agentrail.runtime.supervision.sessions import Sessions
    from agentrail.runtime.supervision.supervisor import SupervisorNode
    from agentrail.values.usage import Limit
else:  # imported at the first use, so that importing this module is quick
    build = LazyModule("agentrail.app.build")
    fork_setup = LazyModule("agentrail.app.fork_setup")
    session_snapshots = LazyModule("agentrail.adapters.sandboxes.kept_files.session_snapshots")
    bringing = LazyModule("agentrail.app.preimport")
    command_checks = LazyModule("agentrail.api.command_checks")
    metric_families = LazyModule("agentrail.runtime.diagnosis.metric_families")
    session_deletion = LazyModule("agentrail.runtime.supervision.session_deletion")
    parking = LazyModule("agentrail.runtime.supervision.parking")
    root_nursery = LazyModule("agentrail.runtime.supervision.root_nursery")
    session_rows = LazyModule("agentrail.runtime.supervision.session_rows")


Restart: TypeAlias = Literal["permanent", "transient", "temporary"]
"""When a child that has ended is started again: always, only after a crash, or never."""

RESTARTS: Final[tuple[Restart, ...]] = ("permanent", "transient", "temporary")
OF_SESSIONS: Final[tuple[Literal["transient", "temporary"], ...]] = ("transient", "temporary")
"""When a session is started again; one that has ended by itself never is."""
RECOVERIES: Final[tuple[Literal["continue", "pause"], ...]] = ("continue", "pause")
SEVERAL = "the code in a supervisor, and the end of it, went wrong"


@with_spelt_calls
class Supervisor(SupervisorHints):
    """Starts sessions, services and supervisors, restarts them after crashes, and stops them all at its end."""

    def __init__(self, sessions: Sessions, node: SupervisorNode, specs: Specs) -> None:
        self._sessions = sessions
        self._node = node
        self._specs = specs
        # Code of the last spawn, which further sessions of the same spec share.
        self._last_code: weakref.ref[build.StoredCode] | None = None
        self._known_specs = KnownSpecs(sessions.shared.model)

    @in_brackets
    def __repr__(self) -> str:
        return self._node.summary

    @classmethod
    def _shared(cls, supervisor: Supervisor, specs: Specs) -> SharedSupervisor:
        """Return *supervisor* for sessions whose code *specs* builds. See `share`."""
        sessions = supervisor._sessions
        code = build.StoredCode(sessions, specs, None)
        guest = cls(sessions, supervisor._node, specs)
        return SharedSupervisor(guest, sessions.shared.journal, partial(sessions.bring_back, code))

    async def spawn(
        self,
        spec: SessionSpec,
        id: str | None = None,  # noqa: A002 - what users call it
        *,
        restart: Literal["transient", "temporary"] = "transient",
        tenant: str = "",
        owner: str = "",
        title: str = "",
        labels: Iterable[str] = (),
        command: str | None = None,
    ) -> SessionHandle:
        """Start a session and return its handle; raise an error that says why if it cannot start.

        After a crash, a `transient` session is started again from its records; a `temporary` one is not. `stored`
        finds sessions by *tenant*, *owner* and *labels*; `session.label` changes title and labels. By `answered`, a
        stored session is known as that of the *command* id.
        """
        is_known = self._known_specs.has(spec)
        if not is_known:
            check_spec(spec)
        session_id = new_id() if id is None else command_checks.text_of("id", id)
        command = command_checks.command_id_of(command)
        restart = command_checks.choice_of("restart", restart, OF_SESSIONS)
        if not is_known:
            await bringing.bring_beside(spec)
            self._known_specs.add(spec)
        state, code = self._known_specs.session(session_id, spec)
        state = command_checks.named(state, tenant, owner, title, labels)
        stored_code = self._last_code_of(spec)
        if stored_code is None:
            stored_code = build.StoredCode(self._sessions, self._specs, spec)
            self._last_code = weakref.ref(stored_code)
        return await self._sessions.start(self._node, state, code, stored_code, restart, command=command)

    def _last_code_of(self, spec: SessionSpec) -> build.StoredCode | None:
        """Return what finds the code of *spec*, if the last session was spawned from it and is still here."""
        code = None if self._last_code is None else self._last_code()
        return code if code is not None and code.spec is spec else None

    async def resume(
        self,
        id: str,  # noqa: A002 - what users call it
        spec: SessionSpec | None = None,
        *,
        restart: Literal["transient", "temporary"] = "transient",
        recovery: Literal["continue", "pause"] = "continue",
        take_over: bool | str = False,
    ) -> SessionHandle:
        """Start a stored session again, continue its unfinished work, and return its handle.

        Its model and options are the stored ones. Its code comes from *spec*, or from `specs` by the name of its
        specification. With *recovery* `"pause"`, an unfinished turn waits for `session.resume()`. Raise an error if the
        session is not stored, or the code does not fit; raise `SessionHeld` if another supervisor has it. With
        *take_over*, it is stopped there, and goes on here: whoever has it, or only if it is the holder so named.
        """
        session_id = command_checks.text_of("id", id)
        if spec is not None:
            check_spec(spec)
        restart = command_checks.choice_of("restart", restart, OF_SESSIONS)
        recovery = command_checks.choice_of("recovery", recovery, RECOVERIES)
        _check_take_over(take_over)
        if spec is not None:
            await bringing.bring_beside(spec)
        code = build.StoredCode(self._sessions, self._specs, spec, pause=recovery == "pause")
        return await self._sessions.resume(self._node, session_id, code, restart, take_over=take_over)

    async def open(  # noqa: PLR0913 - each is an option of its own
        self,
        id: str,  # noqa: A002 - what users call it
        spec: SessionSpec,
        *,
        restart: Literal["transient", "temporary"] = "transient",
        recovery: Literal["continue", "pause"] = "continue",
        take_over: bool | str = False,
        tenant: str = "",
        owner: str = "",
        title: str = "",
        labels: Iterable[str] = (),
    ) -> SessionHandle:
        """Return the session of this id: the running one, else the stored one resumed, else a new one as by `spawn`."""
        session_id = command_checks.text_of("id", id)
        _check_take_over(take_over)
        while True:
            try:
                return await self.spawn(
                    spec, session_id, restart=restart, tenant=tenant, owner=owner, title=title, labels=labels
                )
            except SessionStored:
                return await self.resume(session_id, spec, restart=restart, recovery=recovery, take_over=take_over)
            except SessionExists:
                here = await self._sessions.arrived(session_id)
                if here is not None:  # `None` if another caller was starting the session and failed
                    return here

    async def fork(
        self,
        origin: str,
        spec: SessionSpec | None = None,
        *,
        at: int | str | None = None,
        id: str | None = None,  # noqa: A002 - what users call it
        command: str | None = None,
        as_spec: bool = False,
    ) -> SessionHandle:
        """Start a new session with the history of a stored one, up to record *at* or to its last record.

        *at* may also be the ref of a prompt: the history ends before its turn.

        The origin need not run: a session that has ended or was set aside can be forked too. The code comes from
        *spec*, else from the running origin, else from `specs` by the name of the origin's specification.

        Prompt, options and model are those of the origin; with *as_spec* those of *spec*, as of a new session, and
        states of plugins that *spec* lacks are left out.
        """
        origin = command_checks.text_of("origin", origin)
        session_id = new_id() if id is None else command_checks.text_of("id", id)
        if spec is not None:
            check_spec(spec)
            await bringing.bring_beside(spec)
        at, command = command_checks.point_of(at), command_checks.command_id_of(command)
        command_checks.check_flag("as_spec", as_spec)
        here = self._sessions.code_of(origin) if spec is None else None
        find_code = here or build.StoredCode(self._sessions, self._specs, spec)
        set_up = None
        if as_spec:
            if spec is None:
                raise WrongType("spec", "None", "a `SessionSpec`, which `as_spec=True` needs")
            set_up = partial(
                fork_setup.with_setup_of, spec, self._sessions.shared.model, self._sessions.shared.clock.now_ms()
            )
        return await self._sessions.fork(self._node, origin, at, session_id, find_code, command, set_up)

    async def stored(
        self, wanted: SessionFilter | None = None, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* stored sessions, without reading their records.

        *wanted* says which; *after* is the last session of the page before. They are sorted by id, or with
        `due_before` by the time of their first timer.
        """
        filter_ = command_checks.filter_of(wanted)
        return await self._sessions.stored(
            filter_, command_checks.listed_of(after), command_checks.counted("limit", limit)
        )

    async def state(self, id: str) -> State:  # noqa: A002 - as above
        """Return the state of a stored session after its last record, without starting it: also of an ended one."""
        return await self._sessions.state(command_checks.text_of("id", id))

    async def answered(self, id: str, command: str) -> StoredAnswer | None:  # noqa: A002 - as above
        """Return the command and the answer that a stored session has under a command id; `None` if it has none."""
        session_id, command = command_checks.text_of("id", id), command_checks.text_of("command", command)
        return await self._sessions.answer(session_id, command)

    async def delete(self, id: str, *, first: Callable[[], Awaitable[None]] | None = None) -> None:  # noqa: A002
        """Delete a stored session for good, with its sub-agents; its id can be used again.

        Records, answers to command ids, and snapshots are erased from the journal's files; so are snapshots of files on
        this machine. Forks are sessions of their own and stay. Raise `SessionStillRuns` if the session is in this
        supervisor, `SessionHeld` if another one runs it. If the call is cancelled or the process ends, the session
        stays refused, and the next call goes on.

        *first* erases what the program keeps beside the records, such as files. It is awaited once no other supervisor
        can have the session any more, and before any record is erased; if it raises an exception, the session stays.
        """
        session_id = command_checks.text_of("id", id)
        if first is not None and not callable(first):
            raise WrongType.of("first", first, "an async function without arguments")
        erasures = [] if first is None else [bind_function(first)]
        if await session_snapshots.has_snapshots(session_id):
            journal = self._sessions.shared.journal
            erasures.append(partial(session_snapshots.forget_snapshots, journal, session_id))
        await session_deletion.delete_stored(self._sessions, session_id, erasures)

    async def redact(self, id: str, first: int = 1, last: int | None = None, *, by: str) -> int:  # noqa: A002 - as above
        """Replace the texts in records *first* to *last* of a stored session by a mark; return how many were changed.

        Its prompts, answers, thoughts, arguments and results of tools, reasons, and texts in the states of plugins are
        gone for good. The session still comes back, and its records say when that was done, and *by* whom.
        """
        session_id = command_checks.text_of("id", id)
        by = command_checks.text_of("by", by)
        numbers = (
            command_checks.counted("first", first),
            None if last is None else command_checks.counted("last", last),
        )
        return await session_deletion.redact_stored(self._sessions, session_id, *numbers, by)

    async def drain(self, within: float | None) -> None:
        """Park all sessions within *within* seconds, and start no more: the journal brings them back elsewhere.

        Each is parked as soon as no call of it runs that cannot be repeated, as is a response that still comes: it is
        asked for again. Calls that *within* cuts short are named in the log. No-op without a journal.
        """
        within = time_within("within", within)
        await parking.park_all(self._sessions, math.inf if within is None else within)

    async def start_service(
        self,
        service: ServiceFunction,
        name: str,
        *,
        restart: Literal["permanent", "transient", "temporary"] = "permanent",
        shutdown: float = 5.0,
        start_timeout: float = 30.0,
    ) -> None:
        """Run an async function as a child of this supervisor, and return when it is ready.

        A function with a parameter `task_status` must call `task_status.started()` within *start_timeout* seconds, when
        it is ready. To stop it, it is cancelled and then has *shutdown* seconds to end.
        """
        build.check_service(service)
        name = command_checks.text_of("name", name)
        restart = command_checks.choice_of("restart", restart, RESTARTS)
        await self._node.start(build.service(service, name, restart, shutdown, start_timeout))

    async def start_supervisor(
        self,
        name: str,
        *,
        strategy: Literal["one_for_one", "one_for_all", "rest_for_one"] = "one_for_one",
        max_restarts: int = 3,
        period: float = 5.0,
        restart: Literal["permanent", "transient", "temporary"] = "permanent",
    ) -> Supervisor:
        """Start a supervisor as a child of this one; if it fails, it is started again with the children that it had."""
        name = command_checks.text_of("name", name)
        restart = command_checks.choice_of("restart", restart, RESTARTS)
        policy = build.policy(strategy, max_restarts, period)
        node, child = build.supervisor(self._node, name, policy, restart)
        await self._node.start(child)
        return Supervisor(self._sessions, node, self._specs)

    async def stop_child(self, name: str) -> None:
        """Stop the service or supervisor *name*; it is not started again.

        If the call is cancelled, the child is stopped all the same, in the background.
        """
        name = command_checks.text_of("name", name)
        child = self._node.children.get(name)
        if child is None or child.runner.kind == "session":
            raise UnknownChild.among(name, self._node.children)
        await self._node.stop_for_caller(child)

    def session(self, id: str) -> SessionHandle:  # noqa: A002 - what users call it
        """Return the handle of the session *id*, anywhere in the tree of supervisors; quarantined sessions included."""
        return self._sessions.handle(command_checks.text_of("id", id))

    def sessions(self) -> tuple[SessionHandle, ...]:
        """Return the handles of all sessions of the tree, in the order they were started."""
        return self._sessions.handles()

    def tree(self) -> ChildView:
        """Return a view of this supervisor and all its descendants: their states, restarts and mailboxes."""
        return self._node.tree_view()

    def approvals(self) -> Mapping[str, tuple[HeldCall, ...]]:
        """Return what waits for a person in the sessions of the tree; with a session is what its sub-agents ask."""
        calls_by_name = ((session.id, session.status().held) for session in self.sessions())
        return {name: calls for name, calls in calls_by_name if calls and calls[0].path[:1] in ((), (name,))}

    def figures(self, tenants: int = 200) -> Figures:
        """Return what all sessions do and have used, by tenant; counting begins with the first call.

        *tenants* are counted by name, those that come first; the others are counted together.
        """
        return self._sessions.count(command_checks.counted("tenants", tenants))

    def crashes(self) -> tuple[CrashReport, ...]:
        """Return the reports of the last crashes in the whole tree, the oldest first."""
        return tuple(self._sessions.tree.reports)


class SharedSupervisor(NamedTuple):
    """A supervisor that somebody else has opened, with specifications for sessions of another kind."""

    supervisor: Supervisor
    """The same supervisor, which finds the code of stored sessions by these specifications."""
    journal: Journal
    """Its journal."""
    bring_back: Callable[[], Awaitable[None]]
    """Resumes the stored sessions whose code is known, if they had work under way; the others when a timer is due."""


def share(supervisor: Supervisor, specs: Specs) -> SharedSupervisor:
    """Return *supervisor* for the sessions whose code *specs* builds; it still belongs to those who opened it."""
    return Supervisor._shared(supervisor, specs)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - not for users


async def check_start(supervisor: Supervisor, spec: SessionSpec) -> None:
    """Raise the error for which *supervisor* could not start a session of *spec*; nothing is started."""
    check_spec(spec)
    await bringing.bring_beside(spec)
    session_id = new_id()
    _, code = build.new_session(session_id, spec, supervisor._sessions.shared.model)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - not for users
    if code.section_files is not None:
        await code.section_files.sections(session_id, tell=False)


def rows_of(supervisor: Supervisor) -> SessionRows:
    """Return the sessions of the whole tree of *supervisor* as rows."""
    return session_rows.SessionRows(supervisor._sessions.tree)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - not for users


def others_of(supervisor: Supervisor) -> frozenset[str]:
    """Return the addresses of the other supervisors that work on the same journal now; none without `cluster`."""
    slots = supervisor._sessions.shared.slots  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - not for users
    return frozenset() if slots is None else slots.others


def tell_deaths(supervisor: Supervisor, died: Callable[[frozenset[str]], None]) -> None:
    """Call *died* with the addresses of other supervisors on the same journal whose leases have ended."""
    slots = supervisor._sessions.shared.slots  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - not for users
    if slots is not None:
        slots.died = died


def spending_limit_of(supervisor: Supervisor, make: Callable[[SteadyJournal], SpendingLimit]) -> SpendingLimit:
    """Return what keeps the tenants of *supervisor* within a limit, made by *make* for the first host that has one.

    It runs as long as *supervisor*, as a request may end after its host.
    """
    shared = supervisor._sessions.shared  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - not for users
    if shared.spending_limit is None:
        shared.spending_limit = make(shared.journal)
        shared.nursery.start_soon(shared.spending_limit.run)
    return shared.spending_limit


def look_at_slots(supervisor: Supervisor) -> None:
    """Have *supervisor* look at once for what others have left, because one of them has. No-op without `cluster`."""
    slots = supervisor._sessions.shared.slots  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - not for users
    if slots is not None:
        slots.look_now()


def _check_take_over(take_over: object) -> None:
    """Raise `WrongType` unless *take_over* is what a journal takes."""
    if not isinstance(take_over, bool | str):
        raise WrongType.of("take_over", take_over, "`True`, `False`, or the address of the holder")


async def still_has(supervisor: Supervisor, session_id: str) -> bool:
    """Whether no other supervisor has taken over a session of *supervisor*, as its journal tells now."""
    leases = supervisor._sessions.shared.leases  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - not for users
    await leases.renew()
    return leases.has(session_id)


def journal_of(supervisor: Supervisor) -> SteadyJournal:
    """Return the journal of *supervisor* as its sessions use it: what it raises are errors of the library."""
    return supervisor._sessions.shared.journal  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - not for users


async def summary_of(supervisor: Supervisor, session_id: str) -> StoredSession | None:
    """Return the summary of one stored session in the journal of *supervisor*; `None` if it is not stored."""
    return await supervisor._sessions.summary(session_id)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - not for users


OPENING: Final = Way("open a supervisor", "open_supervisor", "supervisor")


@checked
def open_supervisor(  # noqa: PLR0913 - each is an option of its own
    *,
    strategy: Literal["one_for_one", "one_for_all", "rest_for_one"] = "one_for_one",
    max_restarts: int = 3,
    period: float = 5.0,
    journal: Journal | None = None,
    models: Mapping[str, Factory] | None = None,
    secrets: Callable[[str], str | None] | None = None,
    seed: int | None = None,
    gate_width: float | None = None,
    limits: Mapping[str, Limit] | None = None,
    specs: Specs | None = None,
    retain: Sequence[Retention] = (),
    stop_within: float | None = 10.0,
    address: str | None = None,
    lease: float = 30.0,
    cluster: bool | frozenset[int] = False,
    telemetry: Telemetry | None = None,
) -> AbstractAsyncContextManager[Supervisor]:
    """Open a supervisor; leaving the `async with` stops all its children, the youngest first.

    When a child crashes, *strategy* says which other children are restarted too. After more than *max_restarts* in
    *period* seconds the supervisor fails: the `async with` raises `SupervisorFailed`. Restarts of each session are
    counted separately, unless the strategy ties sessions to others.

    *models* are factories by the part of a model's name before the colon. *secrets* looks up a secret by its name when
    one is needed; the default is the environment. *limits* are rate limits by the part of a model's name before the
    colon, for all sessions together, for each key and region: a request over a limit waits, and sessions take turns.

    With a *journal*, sessions that still run when the supervisor ends are parked in it, and `resume` goes on
    with them, in this process or another. *specs* are functions that build specifications, by name; they may be async,
    and one that takes an argument is told of the session (`SpecWanted`). One function in their place is for any name.
    With them, stored sessions that had work under way are resumed at once, and those that wait for a timer when it is
    due.

    *retain* says which sessions are deleted from the journal, by when they ended and by a label: at once and then each
    hour, at most ten a second, in the background. Without it, none is.

    Several supervisors may share a journal that allows it. Each holds its sessions by leases of *lease* seconds, which
    it renews; one that dies loses its sessions to others after that time, or at once to a supervisor that is opened
    with the same *address*. Errors tell the address to who looks for a session elsewhere; by default, it is made up.
    With *cluster* they notice it when one has died, and what it leaves is shared out: each brings back a part of the
    sessions that had work under way or wait for a timer, and deletes a part of the old ones. All of them need it.
    If something else places them, *cluster* is the slots that this one looks after (`journal.slot_of`).

    *telemetry* exports what the sessions do, such as `agentrail.telemetry.OpenTelemetry()`.
    """
    storage = build.storage(journal, address, lease, cluster=cluster)
    build.check_secrets(secrets)
    build.check_models(models)
    build.check_specs(specs)
    build.check_retain(retain)
    build.check_telemetry(telemetry)
    policy = build.policy(strategy, max_restarts, period)
    seconds = time_within("stop_within", stop_within)

    def wire(nursery: trio.Nursery) -> Sessions:
        """Build the sessions of the supervisor, with its shared services."""
        return build.build_sessions(nursery, policy, storage, models or {}, secrets, seed, gate_width, limits or {})

    if telemetry is None:
        opened = _open(wire, specs or {}, retain, seconds)
    else:
        opened = _watched(telemetry, journal, wire, specs or {}, retain, seconds)
    return OpenContext(opened, Supervisor, OPENING)


@asynccontextmanager
async def _watched(
    telemetry: Telemetry,
    journal: Journal | None,
    wire: Callable[[trio.Nursery], Sessions],
    specs: Specs,
    retain: Sequence[Retention],
    stop_within: float | None,
) -> AsyncGenerator[Supervisor, None]:
    """Run a supervisor that *telemetry* watches, and yield it; the other parameters are those of `_open`."""
    source = metric_families.SupervisorMetrics()

    async with telemetry.watching(journal, source) as listener:

        def wire_watched(nursery: trio.Nursery) -> Sessions:
            """Build the sessions of the supervisor, whose records *telemetry* gets."""
            sessions = wire(nursery)
            sessions.shared.listener = listener
            return sessions

        async with _open(wire_watched, specs, retain, stop_within) as supervisor:
            source.figures = supervisor.figures()
            yield supervisor


@asynccontextmanager
async def _open(
    wire: Callable[[trio.Nursery], Sessions], specs: Specs, retain: Sequence[Retention], stop_within: float | None
) -> AsyncGenerator[Supervisor, None]:
    """Run a supervisor and yield it; *wire* connects its parts. See `open_supervisor`."""
    body = trio.CancelScope()
    root = root_nursery.RootNursery(body)
    nursery = await root.open()
    sessions: Sessions | None = None
    stuck: BaseException | None = None
    problems: list[BaseException] = []
    try:
        with body:
            try:
                sessions = wire(nursery)
                if specs:
                    nursery.start_soon(sessions.bring_back, build.StoredCode(sessions, specs, None))
                if retain:
                    forget = partial(session_snapshots.forget_snapshots, sessions.shared.journal)
                    nursery.start_soon(session_deletion.retain, sessions, retain, forget)
                yield Supervisor(sessions, sessions.root, specs)
            finally:
                stuck = await leave(root, sessions, stop_within)  # noqa: ASYNC102 - it bounds its own time
    except BaseException as error:  # noqa: BLE001, ASYNC103 - raised below, together with errors from closing
        problems.append(error)
    problems += [error for error in (root.error, stuck) if error is not None]
    if len(problems) > 1 and isinstance(problems[0], trio.Cancelled):
        del problems[0]  # an error from closing is raised instead of the cancellation
    if len(problems) > 1:
        raise BaseExceptionGroup(SEVERAL, problems)
    if problems:
        raise problems[0]
