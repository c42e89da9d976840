"""`SessionHandle` and `Supervisor` for programs on asyncio: each method of those on Trio, as a call over the bridge.

The classes are written by `make docs` from the source of what they mirror.
"""

from __future__ import annotations

# [[[cog
# from docs.printing.mirrors import mirror
# from tests.docs.sources import SOURCE
# cog.outl(mirror(SOURCE))
# ]]]
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar, cast, overload

from agentrail.aio.readers import Monitor, Subscription, Trace, TurnStream
from agentrail.bridge.handle_parts import session_html, session_markdown, stop_orphan
from agentrail.bridge.streams import WINDOW
from agentrail.hints import HandleHints, SupervisorHints
from agentrail.values.argument_checks import with_spelt_calls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from typing_extensions import TypeForm

    from agentrail.api.session_values import ChildView, HeldCall, Reply, Status
    from agentrail.app.spec import SessionSpec
    from agentrail.app.supervisor import Supervisor as TrioSupervisor
    from agentrail.bridge.trio_thread import TrioThread
    from agentrail.core.vocabulary.commands import Accepted
    from agentrail.core.vocabulary.state import Prompt, State
    from agentrail.hints import HandleHints, SupervisorHints
    from agentrail.hooks.plugin import AnyPlugin, Attachable
    from agentrail.insight.shadow_report import ShadowReport
    from agentrail.ports.journal import SessionFilter, StoredAnswer, StoredSession
    from agentrail.ports.model import ModelChain
    from agentrail.ports.tool import Task
    from agentrail.runtime.access.turn_stream import TurnStream as TrioTurnStream
    from agentrail.runtime.diagnosis.crash_reports import CrashReport
    from agentrail.runtime.diagnosis.figures import Figures
    from agentrail.runtime.handle import Form
    from agentrail.runtime.handle import SessionHandle as TrioSessionHandle
    from agentrail.runtime.supervision.children import ServiceFunction
    from agentrail.values.argument_checks import with_spelt_calls
    from agentrail.values.content import PromptContent
    from agentrail.values.events.envelope import Cursor, Event
    from agentrail.values.events.people import ApprovalRequired, ResultRequired
    from agentrail.values.json import Json, JsonObject
    from agentrail.values.messages import Message
    from agentrail.values.rewinds import RewindPreview, Rewound
    from agentrail.values.tools import Err, Ok

T = TypeVar("T")


@with_spelt_calls
class SessionHandle(HandleHints):
    """Handle of one session. A command returns when it is accepted and journaled, or raises why it was refused."""

    __slots__ = ("_handle", "_thread")

    def __init__(self, thread: TrioThread[object], handle: TrioSessionHandle) -> None:
        self._thread = thread
        """The thread in which it runs."""
        self._handle = handle
        """What is mirrored."""

    def __repr__(self) -> str:
        return repr(self._handle)

    def _repr_html_(self) -> str:
        return session_html(self._handle)

    def _repr_markdown_(self) -> str:
        return session_markdown(self._handle)

    @property
    def id(self) -> str:
        """The session's id."""
        return self._handle.id

    def by(self, who: str, request: str = "", *, four_eyes: bool = False) -> SessionHandle:
        """Return a handle whose commands say who gave them, by which request; for *four_eyes* see `own-decision`."""
        return SessionHandle(self._thread, self._handle.by(who, request, four_eyes=four_eyes))

    async def prompt(self, text: PromptContent, *, returns: Form | None = None, command: str | None = None) -> Accepted:
        """Send a prompt: it starts a turn, or is queued; `ask` with the same text and `command` gives the reply."""
        return await self._thread.call(partial(self._handle.prompt, text, returns=returns, command=command))

    @overload
    async def ask(
        self,
        text: PromptContent,
        *,
        returns: None = None,
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> Reply: ...

    @overload
    async def ask(
        self,
        text: PromptContent,
        *,
        returns: TypeForm[T],
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> T: ...

    @overload
    async def ask(
        self,
        text: PromptContent,
        *,
        returns: Mapping[str, Json],
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> JsonObject: ...

    async def ask(
        self,
        text: PromptContent,
        *,
        returns: object = None,
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> object:
        """Send a prompt and return how its turn ended; with *returns*, a type or a JSON Schema, such an object.

        It also returns when the turn waits for a person, with the calls in `reply.held`, unless *until* is `end`.
        If the call is cancelled, as by a time limit around it, the turn goes on, until `abort` ends it.
        Raise `UsageError` if the caller is a tool or service of this session, or of one whose turn this one waits for.
        """
        return await self._thread.call(
            partial(
                cast("Callable[..., Awaitable[object]]", self._handle.ask),
                text,
                returns=returns,
                until=until,
                command=command,
            )
        )

    @overload
    def stream(
        self,
        text: PromptContent,
        *,
        returns: None = None,
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> TurnStream[Reply]: ...

    @overload
    def stream(
        self,
        text: PromptContent,
        *,
        returns: TypeForm[T],
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> TurnStream[T]: ...

    @overload
    def stream(
        self,
        text: PromptContent,
        *,
        returns: Mapping[str, Json],
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> TurnStream[JsonObject]: ...

    def stream(
        self,
        text: PromptContent,
        *,
        returns: object = None,
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> TurnStream[object]:
        """Return the turn of a prompt: `async with` it, `async for` over its events, then read `reply`, as of `ask`.

        The events end with the turn, or when it waits for a person, unless *until* is `end`; others are left out.
        Leaving the block early stops listening: the turn goes on.
        """
        return TurnStream(
            self._thread,
            cast("Callable[..., TrioTurnStream[object]]", self._handle.stream)(
                text, returns=returns, until=until, command=command
            ),
        )

    async def reply(self, ref: str | None = None, *, until: Literal["rest", "end"] = "rest") -> Reply:
        """Wait until the open turn ends, or waits for a person, and return what `ask` does; for *until* see there.

        If none is open, wait for the next queued prompt's turn, or else return the last one's reply.
        With *ref*, as `reply.ref` has it, the turn of that prompt is meant.
        If the call is cancelled, the turn goes on.
        """
        return await self._thread.call(partial(self._handle.reply, ref, until=until))

    async def steer(self, text: str, *, when: Literal["gap", "now"] = "gap", command: str | None = None) -> Accepted:
        """Send a text for the open turn's next request; stops tools unless immune, and with `when="now"` a response."""
        return await self._thread.call(partial(self._handle.steer, text, when=when, command=command))

    def status(self) -> Status:
        """Return what the session is doing, as of its last journaled step."""
        return self._thread.look(self._handle.status)

    def shadow(self) -> ShadowReport:
        """Return what the plugins of `SessionSpec.shadow` would have done so far; empty without any, and in sleep."""
        return self._thread.look(self._handle.shadow)

    def messages(self) -> tuple[Message, ...]:
        """Return the conversation, as of the last journaled step."""
        return self._thread.look(self._handle.messages)

    def inspect(self) -> State:
        """Return the whole state as data; raise `SessionAsleep` while it hibernates, or `SessionForgotten`."""
        return self._thread.look(self._handle.inspect)

    def queued(self) -> tuple[Prompt, ...]:
        """Return the queued prompts."""
        return self._thread.look(self._handle.queued)

    def tasks(self) -> tuple[Task, ...]:
        """Return the running sub-agents, and the last ended ones in the background, as the journal has them."""
        return self._thread.look(self._handle.tasks)

    async def task_result(self, child: str) -> Ok | Err:
        """Wait for the answer of a sub-agent and return it."""
        return await self._thread.call(partial(self._handle.task_result, child))

    async def wait_tasks(self, *children: str, every: bool = True, seconds: float = 300.0) -> Mapping[str, Ok | Err]:
        """Wait until all of these sub-agents have ended, or any one; return the answers of those that have, by id."""
        return await self._thread.call(partial(self._handle.wait_tasks, *children, every=every, seconds=seconds))

    def subscribe(
        self,
        since: Cursor | tuple[int, int] | int | None = None,
        types: Iterable[type[Event]] | None = None,
        policy: Literal["coalesce", "drop", "disconnect"] = "coalesce",
        capacity: int | None = None,
        window: int = WINDOW,
    ) -> Subscription:
        """Return the session's events as an async iterator: those after *since* that are kept, then live ones.

        To go on after a restart, keep `session.id` and the `cursor` of each envelope once it is dealt with, also of
        deltas: a pair of numbers, such as `[4, 3]` in JSON. A `Gap` has no cursor of its own, but the one before it.
        Give the last pair as *since*; `0` is the beginning. A cursor of an event that the session has not had raises
        `UnknownCursor`.
        """
        return Subscription(self._thread, self._handle.subscribe(since, types, policy, capacity), window)

    def monitor(self) -> Monitor:
        """Return a monitor: `async with` it, then `wait()` for the end of the session."""
        return Monitor(self._thread, self._handle.monitor())

    async def fork(self, at: int | str | None = None, id: str | None = None) -> SessionHandle:
        """Start a session with the past of this one, up to record *at* (default: all); running work is not copied.

        *at* may also be the ref of a prompt: the past ends before its turn.
        """
        return SessionHandle(self._thread, await self._thread.call(partial(self._handle.fork, at, id), stop_orphan))

    async def preview_rewind(self, since: int | str) -> RewindPreview:
        """Return which files `rewind` to *since* would bring back now, and which somebody else has changed since."""
        return await self._thread.call(partial(self._handle.preview_rewind, since))

    async def rewind(
        self,
        since: int | str,
        files: Iterable[str] | None = None,
        *,
        over_edits: bool = False,
        command: str | None = None,
    ) -> Rewound:
        """Bring back all files that the session's calls changed since record *since*, or only *files* of them.

        *since* may also be the ref of a prompt: since before its turn. What others changed stays: if somebody has
        changed one of these files after a call did, raise `FilesEdited` and change nothing, unless *over_edits*. The
        conversation stays as it is: see `fork`. Raise `Busy` while a call runs.
        """
        return await self._thread.call(
            partial(self._handle.rewind, since, files, over_edits=over_edits, command=command)
        )

    def trace(self, capacity: int | None = None) -> Trace:
        """Return the actor's steps from now on: `async with` it, then `async for`; at most *capacity* are buffered."""
        return Trace(self._thread, self._handle.trace(capacity))

    async def abort(
        self,
        reason: str | None = None,
        *,
        kill_tools: Literal["none", "killable", "all"] = "killable",
        clear_queue: bool = False,
        turn: str | None = None,
        command: str | None = None,
    ) -> None:
        """Stop the session's work at once; return when that is journaled, or at once if the journal cannot write.

        With *turn*, the id of a prompt, only its turn is aborted: nothing happens if it is over, or has not begun.
        """
        await self._thread.call(
            partial(
                self._handle.abort, reason, kill_tools=kill_tools, clear_queue=clear_queue, turn=turn, command=command
            )
        )

    async def stop(self, reason: str = "stopped", *, command: str | None = None) -> None:
        """End the session for good; return when it has ended, or raise `NotWrittenYet` if the journal cannot write."""
        await self._thread.call(partial(self._handle.stop, reason, command=command))

    async def compact(self, reason: str | None = None, *, command: str | None = None) -> None:
        """Have the context shortened: at once if no turn is open, else before the next request.

        Return when that is journaled, before it begins; the event `CompactEnd` says what was done. If there is nothing
        to drop, or no room for a summary, or the summary fails, no message goes, and its note says why; but if the next
        request of an open turn would be over `compact_at`, they go. Raise `Busy` while a turn waits for a person.
        """
        await self._thread.call(partial(self._handle.compact, reason, command=command))

    async def approve(
        self,
        approval_id: str | HeldCall | ApprovalRequired,
        args: Mapping[str, Json] | None = None,
        *,
        always: bool = False,
        auto_resume: bool = True,
        command: str | None = None,
    ) -> None:
        """Let a held call run, given by itself, its event or its id, with edited *args* if given.

        With *always*, later calls of its family pass too. If the call is another than the one given, by itself or its
        event, raise `NotAsShown`; an id alone does not say what was shown.

        With `SESSION:CALL` of a stopped call, end the doubt about it: it does not run, and an equal one is not held.
        """
        await self._thread.call(
            partial(self._handle.approve, approval_id, args, always=always, auto_resume=auto_resume, command=command)
        )

    async def disallow(self, tool: str, command_family: str, *, command: str | None = None) -> None:
        """Take an approval for always back: later calls of the *command_family* of *tool* are held again.

        No-op if there is none. A call that was let pass already goes on.
        """
        await self._thread.call(partial(self._handle.disallow, tool, command_family, command=command))

    async def reject(
        self,
        approval_id: str | HeldCall | ApprovalRequired,
        reason: str | None = None,
        *,
        auto_resume: bool = False,
        command: str | None = None,
    ) -> None:
        """Reject a held call, given as to `approve`: it gets an error result with the *reason*."""
        await self._thread.call(
            partial(self._handle.reject, approval_id, reason, auto_resume=auto_resume, command=command)
        )

    async def respond(self, ref: str | HeldCall, answer: str, *, command: str | None = None) -> None:
        """Answer a question that a tool asked, given by the held call or its id."""
        await self._thread.call(partial(self._handle.respond, ref, answer, command=command))

    async def result(self, call: str | HeldCall | ResultRequired, result: Ok | Err) -> None:
        """Give a call of a tool that is `elsewhere` its result; raise `BadResult` if it does not fit the tool's schema.

        The same result again does nothing; another one, or one that comes too late, raises `ResultNotWanted`.
        """
        await self._thread.call(partial(self._handle.result, call, result))

    async def switch_model(self, model: ModelChain, *, command: str | None = None, **provider_options: Json) -> None:
        """Use another model, with fallback models if a chain is given, from the next turn on."""
        await self._thread.call(partial(self._handle.switch_model, model, command=command, **provider_options))

    async def attach_tools(self, *tools: object, command: str | None = None) -> None:
        """Add tools, all or none; or a source of tools, such as an `McpServer`, and wait for its tools."""
        await self._thread.call(partial(self._handle.attach_tools, *tools, command=command))

    async def detach_tools(self, *names: str, command: str | None = None) -> None:
        """Remove tools, all or none; the name of a source removes all its tools and ends it."""
        await self._thread.call(partial(self._handle.detach_tools, *names, command=command))

    async def replace_tools(self, *tools: object, command: str | None = None) -> None:
        """Add tools, or a source of tools, in place of those with the same names."""
        await self._thread.call(partial(self._handle.replace_tools, *tools, command=command))

    async def update_plugin(
        self, plugin: str | type[AnyPlugin], /, *, command: str | None = None, pin: bool = False, **options: object
    ) -> None:
        """Change options of a plugin as soon as no turn is open; with *pin* they survive changes of the code."""
        await self._thread.call(partial(self._handle.update_plugin, plugin, command=command, pin=pin, **options))

    async def attach_plugin(self, plugin: Attachable | str, *, command: str | None = None) -> None:
        """Add a plugin as soon as no turn is open."""
        await self._thread.call(partial(self._handle.attach_plugin, plugin, command=command))

    async def detach_plugin(self, plugin: str | type[AnyPlugin], *, command: str | None = None) -> None:
        """Remove a plugin as soon as no turn is open."""
        await self._thread.call(partial(self._handle.detach_plugin, plugin, command=command))

    async def label(
        self,
        add: Iterable[str] = (),
        remove: Iterable[str] = (),
        *,
        title: str | None = None,
        command: str | None = None,
    ) -> None:
        """Add and remove labels, by which stored sessions are found, and change the title if one is given."""
        await self._thread.call(partial(self._handle.label, add, remove, title=title, command=command))

    async def withdraw(self, ref: str, *, command: str | None = None) -> None:
        """Remove a prompt from the queue, given its ref."""
        await self._thread.call(partial(self._handle.withdraw, ref, command=command))

    async def message_task(self, child: str, text: str, *, command: str | None = None) -> None:
        """Send a message to a running sub-agent, which gets it before its next request; its work goes on."""
        await self._thread.call(partial(self._handle.message_task, child, text, command=command))

    async def cancel_task(self, child: str) -> None:
        """Stop a sub-agent, and wait until all of it has ended; its records stay in the journal."""
        await self._thread.call(partial(self._handle.cancel_task, child))

    async def suspend(self) -> None:
        """Let all but urgent commands (abort, stop) and timers wait until `resume`; running work goes on."""
        await self._thread.call(self._handle.suspend)

    async def resume(self) -> None:
        """Handle the messages that have waited since `suspend`; continue a turn that recovery paused.

        As any command, it wakes a session that hibernates.
        """
        await self._thread.call(self._handle.resume)


@with_spelt_calls
class Supervisor(SupervisorHints):
    """Starts sessions, services and supervisors, restarts them after crashes, and stops them all at its end."""

    __slots__ = ("_supervisor", "_thread")

    def __init__(self, thread: TrioThread[object], supervisor: TrioSupervisor) -> None:
        self._thread = thread
        """The thread in which it runs."""
        self._supervisor = supervisor
        """What is mirrored."""

    def __repr__(self) -> str:
        return repr(self._supervisor)

    async def spawn(
        self,
        spec: SessionSpec,
        id: str | None = None,
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
        return SessionHandle(
            self._thread,
            await self._thread.call(
                partial(
                    self._supervisor.spawn,
                    spec,
                    id,
                    restart=restart,
                    tenant=tenant,
                    owner=owner,
                    title=title,
                    labels=labels,
                    command=command,
                ),
                stop_orphan,
            ),
        )

    async def resume(
        self,
        id: str,
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
        return SessionHandle(
            self._thread,
            await self._thread.call(
                partial(self._supervisor.resume, id, spec, restart=restart, recovery=recovery, take_over=take_over)
            ),
        )

    async def open(
        self,
        id: str,
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
        return SessionHandle(
            self._thread,
            await self._thread.call(
                partial(
                    self._supervisor.open,
                    id,
                    spec,
                    restart=restart,
                    recovery=recovery,
                    take_over=take_over,
                    tenant=tenant,
                    owner=owner,
                    title=title,
                    labels=labels,
                )
            ),
        )

    async def fork(
        self,
        origin: str,
        spec: SessionSpec | None = None,
        *,
        at: int | str | None = None,
        id: str | None = None,
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
        return SessionHandle(
            self._thread,
            await self._thread.call(
                partial(self._supervisor.fork, origin, spec, at=at, id=id, command=command, as_spec=as_spec),
                stop_orphan,
            ),
        )

    async def stored(
        self, wanted: SessionFilter | None = None, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* stored sessions, without reading their records.

        *wanted* says which; *after* is the last session of the page before. They are sorted by id, or with
        `due_before` by the time of their first timer.
        """
        return await self._thread.call(partial(self._supervisor.stored, wanted, after, limit))

    async def state(self, id: str) -> State:
        """Return the state of a stored session after its last record, without starting it: also of an ended one."""
        return await self._thread.call(partial(self._supervisor.state, id))

    async def answered(self, id: str, command: str) -> StoredAnswer | None:
        """Return the command and the answer that a stored session has under a command id; `None` if it has none."""
        return await self._thread.call(partial(self._supervisor.answered, id, command))

    async def delete(self, id: str, *, first: Callable[[], Awaitable[None]] | None = None) -> None:
        """Delete a stored session for good, with its sub-agents; its id can be used again.

        Records, answers to command ids, and snapshots are erased from the journal's files; so are snapshots of files on
        this machine. Forks are sessions of their own and stay. Raise `SessionStillRuns` if the session is in this
        supervisor, `SessionHeld` if another one runs it. If the call is cancelled or the process ends, the session
        stays refused, and the next call goes on.

        *first* erases what the program keeps beside the records, such as files. It is awaited once no other supervisor
        can have the session any more, and before any record is erased; if it raises an exception, the session stays.
        """
        await self._thread.call(partial(self._supervisor.delete, id, first=first))

    async def redact(self, id: str, first: int = 1, last: int | None = None, *, by: str) -> int:
        """Replace the texts in records *first* to *last* of a stored session by a mark; return how many were changed.

        Its prompts, answers, thoughts, arguments and results of tools, reasons, and texts in the states of plugins are
        gone for good. The session still comes back, and its records say when that was done, and *by* whom.
        """
        return await self._thread.call(partial(self._supervisor.redact, id, first, last, by=by))

    async def drain(self, within: float | None) -> None:
        """Park all sessions within *within* seconds, and start no more: the journal brings them back elsewhere.

        Each is parked as soon as no call of it runs that cannot be repeated, as is a response that still comes: it is
        asked for again. Calls that *within* cuts short are named in the log. No-op without a journal.
        """
        await self._thread.call(partial(self._supervisor.drain, within))

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
        await self._thread.call(
            partial(
                self._supervisor.start_service,
                service,
                name,
                restart=restart,
                shutdown=shutdown,
                start_timeout=start_timeout,
            )
        )

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
        return Supervisor(
            self._thread,
            await self._thread.call(
                partial(
                    self._supervisor.start_supervisor,
                    name,
                    strategy=strategy,
                    max_restarts=max_restarts,
                    period=period,
                    restart=restart,
                )
            ),
        )

    async def stop_child(self, name: str) -> None:
        """Stop the service or supervisor *name*; it is not started again.

        If the call is cancelled, the child is stopped all the same, in the background.
        """
        await self._thread.call(partial(self._supervisor.stop_child, name))

    def session(self, id: str) -> SessionHandle:
        """Return the handle of the session *id*, anywhere in the tree of supervisors; quarantined sessions included."""
        return SessionHandle(self._thread, self._thread.look(partial(self._supervisor.session, id)))

    def sessions(self) -> tuple[SessionHandle, ...]:
        """Return the handles of all sessions of the tree, in the order they were started."""
        return tuple(SessionHandle(self._thread, handle) for handle in self._thread.look(self._supervisor.sessions))

    def tree(self) -> ChildView:
        """Return a view of this supervisor and all its descendants: their states, restarts and mailboxes."""
        return self._thread.look(self._supervisor.tree)

    def approvals(self) -> Mapping[str, tuple[HeldCall, ...]]:
        """Return what waits for a person in the sessions of the tree; with a session is what its sub-agents ask."""
        return self._thread.look(self._supervisor.approvals)

    def figures(self, tenants: int = 200) -> Figures:
        """Return what all sessions do and have used, by tenant; counting begins with the first call.

        *tenants* are counted by name, those that come first; the others are counted together.
        """
        return self._thread.look(partial(self._supervisor.figures, tenants))

    def crashes(self) -> tuple[CrashReport, ...]:
        """Return the reports of the last crashes in the whole tree, the oldest first."""
        return self._thread.look(self._supervisor.crashes)


# [[[end]]]
