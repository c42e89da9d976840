"""`SessionHandle`: the only way for a program to talk to a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast, overload

from typing_extensions import TypeForm

from agentrail.api.session_calls import SessionCalls
from agentrail.api.session_values import UNTILS
from agentrail.errors import AgentrailError, BrokenContractError, MailboxFull, SessionAsleep, SessionParked
from agentrail.errors.agentrail_error import fresh
from agentrail.hints import HandleHints
from agentrail.lazy import LazyModule
from agentrail.ports.failpoints import reach
from agentrail.reprs import in_brackets
from agentrail.runtime.shared.caller import NOBODY, Caller
from agentrail.runtime.shared.ids import new_id
from agentrail.values.argument_checks import with_spelt_calls
from agentrail.values.content import PromptContent
from agentrail.values.events.envelope import Cursor, Event
from agentrail.values.json import Json, JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrail.api import command_checks
    from agentrail.api.command_checks import AnyCommand, HandleCommand
    from agentrail.api.session_values import Reply, Status, Until
    from agentrail.core.machine.approvals import Decision
    from agentrail.core.vocabulary import commands
    from agentrail.core.vocabulary.commands import Accepted, Answer, PromptSent
    from agentrail.core.vocabulary.inputs import AnyInput
    from agentrail.core.vocabulary.state import Prompt, State
    from agentrail.hooks.hook_runner import ReadAnswer
    from agentrail.hooks.plugin import Attachable
    from agentrail.insight import shadow_report
    from agentrail.insight.shadow_report import ShadowReport
    from agentrail.ports.model import ModelChain
    from agentrail.ports.tool import Task, Tool
    from agentrail.runtime.access import code_changes, file_rewind, sending, status, turn_reply, turn_stream
    from agentrail.runtime.access.sending import AskedPrompt
    from agentrail.runtime.access.status import Monitor
    from agentrail.runtime.access.turn_stream import TurnStream
    from agentrail.runtime.actor.session import Session
    from agentrail.runtime.events.subscription import Subscription
    from agentrail.runtime.events.tracing import ActorTrace
    from agentrail.runtime.inbox.letter import Letter, NewCode, ReplySlot
    from agentrail.runtime.resources import ActorSubagents
    from agentrail.runtime.shared.call_snapshots import CallSnapshots
    from agentrail.values.messages import Message
    from agentrail.values.rewinds import RewindPreview, Rewound
    from agentrail.values.tools import Err, Ok

    AsTool: TypeAlias = Callable[[object], Tool]
    Choose: TypeAlias = Callable[[Session, ModelChain, JsonObject], commands.SwitchModelSent]
else:  # modules that only a living session needs are imported at the first use
    commands = LazyModule("agentrail.core.vocabulary.commands")
    command_checks = LazyModule("agentrail.api.command_checks")
    sending = LazyModule("agentrail.runtime.access.sending")
    code_changes = LazyModule("agentrail.runtime.access.code_changes")
    file_rewind = LazyModule("agentrail.runtime.access.file_rewind")
    status = LazyModule("agentrail.runtime.access.status")
    shadow_report = LazyModule("agentrail.insight.shadow_report")
    turn_reply = LazyModule("agentrail.runtime.access.turn_reply")
    turn_stream = LazyModule("agentrail.runtime.access.turn_stream")

Form: TypeAlias = TypeForm[object] | Mapping[str, Json]
T = TypeVar("T")


@with_spelt_calls
class SessionHandle(HandleHints, SessionCalls):
    """Handle of one session. A command returns when it is accepted and journaled, or raises why it was refused."""

    __slots__ = ("_as_tool", "_caller", "_choose", "_session")

    def __init__(self, session: Session, as_tool: AsTool, choose: Choose, caller: Caller = NOBODY) -> None:
        self._session = session
        self._as_tool = as_tool
        self._choose = choose
        self._caller = caller

    @in_brackets
    def __repr__(self) -> str:
        return self._session.summary

    @property
    def id(self) -> str:
        """The session's id."""
        return self._session.session_id

    def by(self, who: str, request: str = "", *, four_eyes: bool = False) -> SessionHandle:
        """Return a handle whose commands say who gave them, by which request; for *four_eyes* see `own-decision`."""
        return SessionHandle(self._session, self._as_tool, self._choose, sending.caller(who, request, four_eyes))

    # Talking

    async def prompt(self, text: PromptContent, *, returns: Form | None = None, command: str | None = None) -> Accepted:
        """Send a prompt: it starts a turn, or is queued; `ask` with the same text and `command` gives the reply."""
        prompt_input, parse_answer = sending.prompt_of(text, returns)
        letter = self._letter(prompt_input, command, sending.kept_class(parse_answer))
        return sending.accepted(await self._session.mailbox.send(letter))

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
        prompt_input, parse_answer = sending.prompt_of(text, returns)
        with self._session.shared.turn_waits.on(self.id):  # before the prompt is sent, so that no turn begins in vain
            reply = await (await self._ask(prompt_input, parse_answer, until, command, True)).reply()
        return reply if parse_answer is None else sending.object_of(reply, parse_answer)

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
        prompt_input, parse_answer = sending.prompt_of(text, returns)
        sending.reply_slot(parse_answer, until)
        ask = partial(self._ask, prompt_input, parse_answer, until, command, True)
        return turn_stream.TurnStream(self._session, self.subscribe(), ask, parse_answer)

    async def reply(self, ref: str | None = None, *, until: Literal["rest", "end"] = "rest") -> Reply:
        """Wait until the open turn ends, or waits for a person, and return what `ask` does; for *until* see there.

        If none is open, wait for the next queued prompt's turn, or else return the last one's reply.
        With *ref*, as `reply.ref` has it, the turn of that prompt is meant.
        If the call is cancelled, the turn goes on.
        """
        sending.check_run(self._session.session_id, self._session.shared.home)
        ref = None if ref is None else command_checks.text_of("ref", ref)
        until = command_checks.choice_of("until", until, UNTILS)
        if self._session.state.turn is not None:  # a turn that waits for a person has messages only in the whole state
            await self._awake()
        return await turn_reply.turn_reply(self._session, ref, until)

    async def _ask(
        self, prompt: PromptSent, parse_answer: ReadAnswer | None, until: Until, command: str | None, waits: bool
    ) -> AskedPrompt:
        """Send *prompt*; with *waits*, wait for room in the mailbox."""
        reply, mailbox = sending.reply_slot(parse_answer, until), self._session.mailbox
        letter = self._letter(prompt, command, reply)
        if not waits:
            mailbox.post_user_nowait(letter)
        answer = await (mailbox.send(letter) if waits else letter.answer.wait())
        return sending.AskedPrompt(self._session, sending.accepted(answer), reply, is_new=not letter.is_repeat)

    async def steer(self, text: str, *, when: Literal["gap", "now"] = "gap", command: str | None = None) -> Accepted:
        """Send a text for the open turn's next request; stops tools unless immune, and with `when="now"` a response."""
        letter = self._letter(commands.SteerSent(text, command_checks.choice_of("when", when, commands.WHENS)), command)
        self._session.mailbox.post_steering(letter)
        return sending.accepted(await letter.answer.wait_in_turn())

    # Commands: those that need more than a letter in the lane of the user

    async def _send(self, input_: AnyCommand, command: str | None = None) -> None:
        sent_command, command = command_checks.command_of(input_), command_checks.command_id_of(command)
        match sent_command:
            case (
                commands.ApproveSent(approval_id=ref)
                | commands.RejectSent(approval_id=ref)
                | commands.RespondSent(ref=ref)
            ):
                await self._decide(sent_command, ref, command)
            case commands.ResultSent(ref=ref):
                problem = sending.result_problem(self._session, sent_command)
                if problem is not None:
                    raise problem
                await self._decide(sent_command, ref, sending.result_command(sent_command))
            case commands.AbortSent():
                await self._abort(sent_command, command)
            case commands.StopSent():
                await self._stop(sent_command, command)
            case commands.SuspendSent() | commands.ResumeSent():
                await self._control(sent_command)
            case command_checks.HandleCommand():
                await self._carry_out(sent_command, command)
            case _:
                await self._user(sent_command, command=command)

    async def _carry_out(self, handle_command: HandleCommand, command: str | None) -> None:
        """Send a command that holds live objects, in the form that the machine gets, or pass it to a sub-agent."""
        match handle_command:
            case command_checks.MessageTask(child=child, text=text):
                await self._subagents(child).tell(command, child, text, self._caller.who)
            case command_checks.CancelTask(child=child):
                await self._subagents(child).cancel(child)
            case command_checks.UseModel(model=model, options=options):
                await self._awake()
                with command_checks.looking_at("model", model):
                    switch = self._choose(self._session, model, options)
                await self._user(switch, command=command)
            case command_checks.EditTools():
                await self._edit_tools(handle_command, command)
            case command_checks.AttachPlugin():
                await self._attach_plugin(handle_command, command)
            case command_checks.UpdatePlugin():
                await self._update_plugin(handle_command, command)
            case _:
                raise BrokenContractError(handle_command)

    async def _decide(self, decision: AnyInput, ref: str, command: str | None) -> None:
        """Send a decision to the session that waits for it: this one, or one of its sub-agents."""
        letter, session = self._letter(decision, command), self._session
        sending.raised(await sending.send_decision(ref, letter, session.mailbox, session.links.subagents))

    async def _abort(self, abort: commands.AbortSent, command: str | None) -> None:
        """Stop work at once, then send the abort."""
        letter = self._letter(abort, command)
        self._session.abort_now(letter)
        reach("STOPPED_AT_ONCE")
        await self._stopped(letter)

    async def _stop(self, stop: commands.StopSent, command: str | None) -> None:
        """Stop all work at once, send the stop, and wait for the end of the session."""
        letter = self._letter(stop, command)
        self._session.abort_now(letter)
        await self._stopped(letter)
        end = await self._session.wait_down()
        if not end.ended:
            raise fresh(end.error)

    async def _stopped(self, letter: Letter) -> None:
        """Wait until an abort or stop is journaled; return at once if the journal cannot write."""
        self._session.mailbox.post_control(letter)
        self._session.tell_if_late(letter)
        self._session.relieve()
        sending.raised(await letter.answer.wait_in_turn())

    async def _edit_tools(self, edit: command_checks.EditTools, command: str | None) -> None:
        """Attach, detach or replace tools or a source of tools."""
        await self._awake()
        session = self._session
        detached, replace = edit.do == "detach", edit.do == "replace"
        tools, names = ((), cast("tuple[str, ...]", edit.tools)) if detached else (edit.tools, ())
        with command_checks.looking_at("tools", tools):
            source = code_changes.source_of(tools, session.sources.names, replace=replace)
        if source is not None:
            await session.join_source(source, command, self._caller)
            return
        names, closed = code_changes.told_apart(names, session.state.tools, session.sources.names)
        with command_checks.looking_at("tools", tools):
            made_tools = tuple(map(self._as_tool, tools))
        await self._user(*session.code.change(made_tools, names, replace=replace, closed=closed), command=command)
        await session.sources.wait_dropped(closed)

    async def _attach_plugin(self, attachment: command_checks.AttachPlugin, command: str | None) -> None:
        """Check the plugin, then send the command to attach it."""
        await self._awake()
        plugin = cast("Attachable", attachment.plugin)
        with command_checks.looking_at("plugin", plugin):
            attach, code = code_changes.attach_input(self._session, plugin, self._as_tool)
        await self._user(attach, code, command=command)

    async def _update_plugin(self, change: command_checks.UpdatePlugin, command: str | None) -> None:
        """Check the new options, then send the command to update the plugin."""
        await self._awake()
        with command_checks.looking_at("options", change.options):
            update, code = code_changes.changed_options(self._session, change, self._as_tool)
        await self._user(update, code, command=command)

    async def _awake(self) -> None:
        """Wake the session if it hibernates."""
        if self._session.is_asleep:
            await self._wake()

    # Looking

    def status(self) -> Status:
        """Return what the session is doing, as of its last journaled step."""
        state = self._session.state
        return status.status_of(state, self._session.links.held_calls(), status.tasks_of(state))

    def shadow(self) -> ShadowReport:
        """Return what the plugins of `SessionSpec.shadow` would have done so far; empty without any, and in sleep."""
        shadow = self._session.shadow
        return shadow_report.ShadowReport() if shadow is None else shadow.report

    def messages(self) -> tuple[Message, ...]:
        """Return the conversation, as of the last journaled step."""
        return tuple(self.inspect().history)

    def inspect(self) -> State:
        """Return the whole state as data; raise `SessionAsleep` while it hibernates, or `SessionForgotten`."""
        self._session.records.check_kept()
        if not self._session.has_whole_state:
            raise SessionAsleep(self.id)
        return self._session.state

    def queued(self) -> tuple[Prompt, ...]:
        """Return the queued prompts."""
        return self._session.state.queue

    def tasks(self) -> tuple[Task, ...]:
        """Return the running sub-agents, and the last ended ones in the background, as the journal has them."""
        return status.tasks_of(self._session.state)

    async def task_result(self, child: str) -> Ok | Err:
        """Wait for the answer of a sub-agent and return it."""
        child = command_checks.text_of("child", child)
        return await self._subagents(child).result(child)

    async def wait_tasks(self, *children: str, every: bool = True, seconds: float = 300.0) -> Mapping[str, Ok | Err]:
        """Wait until all of these sub-agents have ended, or any one; return the answers of those that have, by id."""
        names = [command_checks.text_of("children", child) for child in children]
        return await self._subagents(*names).wait(None, names, seconds, every=every)

    def _subagents(self, *children: str) -> ActorSubagents:
        """Return the session's sub-agents; raise `UnknownTask` if it can have none."""
        return sending.subagents_of(self._session.links.subagents, *children)

    def subscribe(
        self,
        since: Cursor | tuple[int, int] | int | None = None,
        types: Iterable[type[Event]] | None = None,
        policy: Literal["coalesce", "drop", "disconnect"] = "coalesce",
        capacity: int | None = None,
    ) -> Subscription:
        """Return the session's events as an async iterator: those after *since* that are kept, then live ones.

        To go on after a restart, keep `session.id` and the `cursor` of each envelope once it is dealt with, also of
        deltas: a pair of numbers, such as `[4, 3]` in JSON. A `Gap` has no cursor of its own, but the one before it.
        Give the last pair as *since*; `0` is the beginning. A cursor of an event that the session has not had raises
        `UnknownCursor`.
        """
        return status.subscription(self._session.events, since, types, policy, capacity)

    def monitor(self) -> Monitor:
        """Return a monitor: `async with` it, then `wait()` for the end of the session."""
        return status.Monitor(self._session)

    # Suspending and inspecting the session

    async def fork(self, at: int | str | None = None, id: str | None = None) -> SessionHandle:  # noqa: A002 - see `spawn`
        """Start a session with the past of this one, up to record *at* (default: all); running work is not copied.

        *at* may also be the ref of a prompt: the past ends before its turn.
        """
        self._session.records.check_kept()  # another session may have the id by now
        session_id = new_id() if id is None else command_checks.text_of("id", id)
        forked = await self._session.shared.fork(self.id, command_checks.point_of(at), session_id)
        return cast("SessionHandle", forked)

    async def preview_rewind(self, since: int | str) -> RewindPreview:
        """Return which files `rewind` to *since* would bring back now, and which somebody else has changed since."""
        rewind = file_rewind.Rewind(self._session.shared.journal, self.id, command_checks.rewind_point_of(since))
        return await rewind.preview(await self._file_snapshots(), self._session.records.head)

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
        point, paths = command_checks.rewind_point_of(since), command_checks.paths_of(files)
        command_checks.check_flag("over_edits", over_edits)
        command, session = command_checks.command_id_of(command), self._session
        rewind = file_rewind.Rewind(session.shared.journal, self.id, point, paths, over_edits)
        send = partial(self._control, command=command)
        snapshots = await self._file_snapshots()
        try:
            return await rewind.run(snapshots, lambda: session.records.head, self._check_records, send, command)
        finally:
            if session.shared.parkable is not None:  # its actor has waited for this, and nothing else may wake it
                with suppress(MailboxFull):
                    session.mailbox.post_control(sending.letter(commands.TraceSent(), None, self._caller))

    def _check_records(self) -> None:
        """Raise if the session can have no further record: it has ended, is parked, or the journal cannot write."""
        session, parkable = self._session, self._session.shared.parkable
        if parkable is not None and parkable[session.session_id].is_set():
            raise SessionParked(session.session_id)
        problem = session.mailbox.closed or session.records.outage
        if problem is not None:
            raise fresh(problem)

    async def _file_snapshots(self) -> CallSnapshots | None:
        """Return the snapshots of the session's files; `None` if it has none."""
        self._session.records.check_kept()  # another session may have the id by now
        await self._awake()
        return self._session.effect_runner.snapshots()

    def trace(self, capacity: int | None = None) -> ActorTrace:
        """Return the actor's steps from now on: `async with` it, then `async for`; at most *capacity* are buffered."""
        return status.trace(self._session.traces, self._wake, capacity)

    async def _wake(self) -> None:
        """Send an input that changes nothing: as any, it wakes the session if it hibernates."""
        await self._control(commands.TraceSent())

    async def _control(self, input_: AnyInput, *, command: str | None = None) -> None:
        """Send an input in the control lane, and wait for its answer."""
        letter = self._letter(input_, command)
        self._session.mailbox.post_control(letter)
        sending.raised(await letter.answer.wait_in_turn())

    def _letter(self, input_: AnyInput, command: str | None, reply: ReplySlot | None = None) -> Letter:
        """Return a letter with *input_*; raise if the journal cannot write or a part is refused."""
        sending.check_run(self._session.session_id, self._session.shared.home)
        if self._session.records.outage is not None and not isinstance(input_, sending.STOPPING):
            raise fresh(self._session.records.outage)
        if isinstance(input_, commands.PromptSent):
            find = self._session.shared.model if self._session.is_asleep else self._session.effect_runner.model
            sending.refuse_untaken(input_.parts, self._session.state.model, find)
        return sending.letter(input_, command, self._caller, reply=reply)

    async def _user(self, input_: AnyInput, code: NewCode | None = None, *, command: str | None) -> Answer:
        """Send an input in the user lane, and return its answer."""
        letter = self._letter(input_, command)
        letter.code = code
        return sending.raised(await self._session.mailbox.send(letter))


# For the host and the simulator; programs have other ways, so handles have no methods for these.


async def send_command(handle: SessionHandle, input_: AnyCommand, command: str | None) -> None:
    """Send a command as a value, as the methods of *handle* do."""
    await handle._send(input_, command)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


async def ask_at_once(
    handle: SessionHandle,
    text: PromptContent,
    *,
    returns: Form | None = None,
    until: Until = "rest",
    command: str | None = None,
) -> AskedPrompt:
    """Send a prompt, whose reply may be waited for later; raise `MailboxFull` if there is no room in the mailbox."""
    prompt_input, parse_answer = sending.prompt_of(text, returns)
    return await handle._ask(prompt_input, parse_answer, until, command, False)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


async def wake(handle: SessionHandle) -> None:
    """Wake the session of *handle* if it hibernates; unlike `resume`, leave it suspended or paused if it is."""
    await handle._wake()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


async def reply_now(handle: SessionHandle, ref: str | None) -> Reply:
    """Do as `reply` without waiting: of a turn that goes on, or has not begun, the reason is `running`."""
    session = handle._session  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    if session.state.turn is not None:  # its messages are only in the whole state
        await wake(handle)
    return await turn_reply.turn_reply_now(session, ref)


def open_turn(handle: SessionHandle, ref: str) -> int:
    """Return the number of the turn of the prompt *ref*; 0 if it is not open."""
    state = handle._session.state  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return state.turn_count if state.turn is not None and state.turn.ref == ref else 0


def decision_problem(handle: SessionHandle, decision: Decision) -> AgentrailError | None:
    """Return why a *decision* by *handle* would be refused now; `None` if it would be carried out."""
    caller, session = handle._caller, handle._session  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return sending.refusal(decision, caller, session)
