"""`SessionHandle`: the only way for a program to talk to a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast, overload

from agentrail.errors import BadChoice, BadOptions
from agentrail.hooks.plugin import AnyPlugin, Attachable
from agentrail.lazy import LazyModule
from agentrail.ports.failpoints import reach
from agentrail.reprs import in_brackets
from agentrail.runtime.shared.reply_slot import NOBODY, Caller, Slot
from agentrail.values.content import Part
from agentrail.values.events.envelope import Cursor, Event
from agentrail.values.json import Json, JsonObject, freeze_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrail.core.vocabulary import commands as sent
    from agentrail.core.vocabulary.commands import Accepted, Answer, PromptSent
    from agentrail.core.vocabulary.inputs import AnyInput
    from agentrail.core.vocabulary.state import Prompt, State
    from agentrail.hooks.attachments import AttachedPlugin
    from agentrail.hooks.hook_runner import ReadAnswer
    from agentrail.ports.handles.session_values import Reply, Status
    from agentrail.ports.model import ModelChain
    from agentrail.ports.tool import Task, Tool
    from agentrail.runtime import commands
    from agentrail.runtime.actor.session import Session
    from agentrail.runtime.events.subscription import Subscription
    from agentrail.runtime.events.tracing import ActorTrace
    from agentrail.runtime.inbox.letter import Letter, NewCode
    from agentrail.runtime.inbox.replies import AskedPrompt
    from agentrail.values.messages import Message
    from agentrail.values.tools import Err, Ok

    AsTool: TypeAlias = Callable[[object], Tool]
    Choose: TypeAlias = Callable[[Session, ModelChain, JsonObject], sent.SwitchModelSent]
    Posted: TypeAlias = tuple[Letter, Slot[Answer]]
else:  # modules that only a living session needs are imported at the first use
    sent = LazyModule("agentrail.core.vocabulary.commands")
    commands = LazyModule("agentrail.runtime.commands")

Said: TypeAlias = str | Iterable[Part]
Form: TypeAlias = type[object] | Mapping[str, Json]
T = TypeVar("T")


class SessionHandle:
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
        """Return a handle whose commands say who gave them, by which request; for *four_eyes* see `OwnDecision`."""
        return SessionHandle(self._session, self._as_tool, self._choose, commands.caller(who, request, four_eyes))

    # Talking

    async def prompt(self, text: Said, *, returns: Form | None = None, command: str | None = None) -> Accepted:
        """Send a prompt: it starts a turn, or is queued; `ask` with the same arguments gives the reply at any time."""
        given, read = commands.prompt_of(text, returns)
        letter, slot = self._letter(given, command, read)
        await self._session.mailbox.post_user(letter)
        return commands.accepted(await slot.wait())

    async def prompt_nowait(self, text: Said, *, returns: Form | None = None, command: str | None = None) -> Accepted:
        """Do as `prompt`, but raise `MailboxFull` instead of waiting for room in the mailbox."""
        given, read = commands.prompt_of(text, returns)
        letter, slot = self._letter(given, command, read)
        self._session.mailbox.post_user_nowait(letter)
        return commands.accepted(await slot.wait())

    @overload
    async def ask(self, text: Said, *, returns: None = None, command: str | None = None) -> Reply: ...

    @overload
    async def ask(self, text: Said, *, returns: type[T], command: str | None = None) -> T: ...

    @overload
    async def ask(self, text: Said, *, returns: Mapping[str, Json], command: str | None = None) -> JsonObject: ...

    async def ask(self, text: Said, *, returns: object = None, command: str | None = None) -> object:
        """Send a prompt and return how its turn ended; with *returns*, a class or a JSON Schema, such an object."""
        given, read = commands.prompt_of(text, returns)
        reply = await (await self._asked(given, read, command, True)).reply()
        return reply if read is None else commands.object_of(reply, read)

    async def ask_nowait(self, text: Said, *, returns: Form | None = None, command: str | None = None) -> AskedPrompt:
        """Do as `prompt_nowait`: the answer has its result as `accepted`, and a method that waits as `ask` does."""
        given, read = commands.prompt_of(text, returns)
        return await self._asked(given, read, command, False)

    async def _asked(self, given: PromptSent, read: ReadAnswer | None, command: str | None, waits: bool) -> AskedPrompt:
        session, letter = self._session, self._letter(given, command)
        return await commands.asked(session.waiters, session.mailbox, session.past, read, *letter, waits=waits)

    async def steer(self, text: str, *, when: Literal["gap", "now"] = "gap", command: str | None = None) -> Accepted:
        """Send a text for the open turn's next request; stops tools unless immune, and with `when="now"` a response."""
        if when not in sent.WHENS:
            raise BadChoice.among("when", when, sent.WHENS)
        letter, slot = self._letter(sent.SteerSent(text, when), command)
        self._session.mailbox.post_said(letter)
        return commands.accepted(await slot.wait())

    async def abort(
        self,
        reason: str | None = None,
        *,
        kill_tools: Literal["none", "killable", "all"] = "killable",
        clear_queue: bool = False,
        command: str | None = None,
    ) -> None:
        """Stop the session's work at once; return when that is journaled, or at once if the journal cannot write."""
        if kill_tools not in sent.KILLS:
            raise BadChoice.among("kill_tools", kill_tools, sent.KILLS)
        letter, slot = self._letter(sent.AbortSent(reason, kill_tools, clear_queue), command)
        self._session.abort_now(kill_tools, command, slot)
        reach("STOPPED_AT_ONCE")
        await self._stopped(letter, slot)

    async def stop(self, reason: str = "stopped", *, command: str | None = None) -> None:
        """End the session for good; return when it has ended, or raise `NotWrittenYet` if the journal cannot write."""
        letter, slot = self._letter(sent.StopSent(reason), command)
        self._session.abort_now("all", command, slot)
        await self._stopped(letter, slot)
        gone = await self._session.wait_down()
        if not gone.ended:
            raise commands.fresh(gone.error)

    async def _stopped(self, letter: Letter, slot: Slot[Answer]) -> None:
        """Wait until an abort or stop is journaled; return at once if the journal cannot write."""
        self._session.mailbox.post_control(letter)
        self._session.relieve()
        commands.raised(await slot.wait())

    async def compact(self, reason: str | None = None, *, command: str | None = None) -> None:
        """Shorten the context: at once if no turn is open, else before the next request."""
        await self._user(sent.CompactSent(reason), command=command)

    # Deciding

    async def approve(
        self,
        approval_id: str,
        args: Mapping[str, Json] | None = None,
        *,
        always: bool = False,
        auto_resume: bool = True,
        command: str | None = None,
    ) -> None:
        """Let a held call run, with edited *args* if given; *always*: later calls of its family pass too.

        With `SESSION:CALL` of a stopped call, end the doubt about it: it does not run, and an equal one is not held.
        """
        edited = None if args is None else freeze_object(args)
        await self._decide(sent.ApproveSent(approval_id, edited, always, auto_resume), approval_id, command)

    async def reject(
        self, approval_id: str, reason: str | None = None, *, auto_resume: bool = False, command: str | None = None
    ) -> None:
        """Reject a held call: it gets an error result with the *reason*."""
        await self._decide(sent.RejectSent(approval_id, reason, auto_resume), approval_id, command)

    async def respond(self, ref: str, answer: str, *, command: str | None = None) -> None:
        """Answer a question that a tool asked."""
        await self._decide(sent.RespondSent(ref, answer), ref, command)

    async def _decide(self, given: AnyInput, ref: str, command: str | None) -> None:
        """Send a decision to the session that waits for it: this one, or one of its sub-agents."""
        letter, slot = self._letter(given, command)
        session = self._session
        commands.raised(await commands.decided(ref, letter, slot, session.mailbox, session.ties.subagents))

    # Changing

    async def switch_model(self, model: ModelChain, *, command: str | None = None, **provider_options: Json) -> None:
        """Use another model, with fallback models if a chain is given, from the next turn on."""
        await self._awake()
        await self._user(self._choose(self._session, model, freeze_object(provider_options)), command=command)

    async def attach_tools(self, *tools: object, command: str | None = None) -> None:
        """Add tools, all or none; or a source of tools, such as an `McpServer`, and wait for its tools."""
        await self._change_tools(tools, (), replace=False, command=command)

    async def detach_tools(self, *names: str, command: str | None = None) -> None:
        """Remove tools, all or none; the name of a source removes all its tools and ends it."""
        await self._change_tools((), names, replace=False, command=command)

    async def replace_tools(self, *tools: object, command: str | None = None) -> None:
        """Add tools, or a source of tools, in place of those with the same names."""
        await self._change_tools(tools, (), replace=True, command=command)

    async def _change_tools(
        self, tools: tuple[object, ...], detach: tuple[str, ...], *, replace: bool, command: str | None
    ) -> None:
        await self._awake()
        session = self._session
        source = commands.source_of(tools, session.sources.names, replace=replace)
        if source is not None:
            await session.join_source(source, command, self._caller)
            return
        names, closed = commands.told_apart(detach, session.state.tools, session.sources.names)
        made = tuple(self._as_tool(tool) for tool in tools)
        await self._user(*session.code.change(made, names, replace=replace, closed=closed), command=command)
        await session.sources.wait_dropped(closed)

    async def update_plugin(
        self, plugin: str | type[AnyPlugin], /, *, command: str | None = None, pin: bool = False, **options: object
    ) -> None:
        """Change options of a plugin as soon as no turn is open; with *pin* they survive changes of the code."""
        commands.check_flag("pin", pin)
        await self._awake()
        key = commands.key_of(plugin)
        old = commands.attached_as(self._session.state, key)
        try:
            new = commands.updated(self._session.code.judge.plugin(old), options)
        except Exception as error:
            raise BadOptions(key, commands.described(error)) from error
        seat = commands.updated_seat(old, self._seat(key, new), options, pin=pin)
        if pin:
            commands.refuse_lost_pins(seat, new, options)
        given = sent.UpdatePluginSent(seat, commands.plain_options(options))
        await self._user(given, self._session.code.joining(seat, new, self._as_tool), command=command)

    async def attach_plugin(self, plugin: Attachable, *, command: str | None = None) -> None:
        """Add a plugin as soon as no turn is open."""
        await self._awake()
        key, bare = commands.unkeyed(plugin)
        seat = self._seat(key, bare)
        code = self._session.code.joining(seat, bare, self._as_tool)
        await self._user(sent.AttachPluginSent(seat), code, command=command)

    async def detach_plugin(self, plugin: str | type[AnyPlugin], *, command: str | None = None) -> None:
        """Remove a plugin as soon as no turn is open."""
        await self._user(sent.DetachPluginSent(commands.key_of(plugin)), command=command)

    async def label(
        self,
        add: Iterable[str] = (),
        remove: Iterable[str] = (),
        *,
        title: str | None = None,
        command: str | None = None,
    ) -> None:
        """Add and remove labels, by which stored sessions are found, and change the title if one is given."""
        added, removed = commands.labels_of("add", add), commands.labels_of("remove", remove)
        new = None if title is None else commands.name_of("title", title)
        await self._user(sent.LabelSent(added, removed, new), command=command)

    async def _awake(self) -> None:
        if self._session.sleeps:
            await self.wake()

    def _seat(self, key: str, plugin: AnyPlugin) -> AttachedPlugin:
        code = self._session.code
        more = bool(code.sources or code.agents)
        seat = commands.seat_for(key, plugin, code.next_revision())
        commands.refuse_unknown_models(key, plugin, code.judge.why_no_model, later=True)
        commands.refuse_unknown_tools(key, plugin, self._session.state.tools, more=more)
        return seat

    async def withdraw(self, ref: str, *, command: str | None = None) -> None:
        """Remove a prompt from the queue, given its ref."""
        await self._user(sent.WithdrawSent(ref), command=command)

    # Looking

    def status(self) -> Status:
        """Return what the session is doing, as of its last journaled step."""
        return commands.status_of(self._session.state, self._session.bonds.held(), self.tasks())

    def messages(self) -> tuple[Message, ...]:
        """Return the conversation, as of the last journaled step."""
        return tuple(self.inspect().history)

    def inspect(self) -> State:
        """Return the whole state as data; raise `SessionAsleep` while it hibernates, or `SessionForgotten`."""
        self._session.records.check_kept()
        if self._session.sleep.is_thin:
            raise commands.SessionAsleep(self.id)
        return self._session.state

    def queued(self) -> tuple[Prompt, ...]:
        """Return the queued prompts."""
        return self._session.state.queue

    def tasks(self) -> tuple[Task, ...]:
        """Return the session's running sub-agents, and the last ones in the background that have ended."""
        subagents = self._session.bonds.subagents
        return () if subagents is None else subagents.tasks()

    async def task_result(self, child: str) -> Ok | Err:
        """Wait for the answer of a sub-agent and return it."""
        return await commands.subagents_of(self._session.ties.subagents, child).result(child)

    async def wait_tasks(self, *children: str, every: bool = True, seconds: float = 300.0) -> Mapping[str, Ok | Err]:
        """Wait until all of these sub-agents have ended, or any one; return the answers of those that have, by id."""
        subagents = commands.subagents_of(self._session.ties.subagents, *children)
        return await subagents.wait(None, children, seconds, every=every)

    async def message_task(self, child: str, text: str, *, command: str | None = None) -> None:
        """Send a message to a running sub-agent, which gets it before its next request; its work goes on."""
        await commands.subagents_of(self._session.ties.subagents, child).tell(command, child, text, self._caller.who)

    async def cancel_task(self, child: str) -> None:
        """Stop a sub-agent, and wait until all of it has ended; its records stay in the journal."""
        await commands.subagents_of(self._session.ties.subagents, child).cancel(child)

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
        return commands.subscription(self._session.bus, since, types, policy, capacity)

    def monitor(self) -> commands.Monitor:
        """Return a monitor: `async with` it, then `wait()` for the end of the session."""
        return commands.Monitor(self._session)

    # Suspending and inspecting the session

    async def suspend(self) -> None:
        """Let all but urgent commands (abort, stop) and timers wait until `resume`; running work goes on."""
        await self._control(sent.SuspendSent())

    async def fork(self, at: int | None = None, id: str | None = None) -> SessionHandle:  # noqa: A002 - see `spawn`
        """Start a session with the past of this one, up to record *at* (default: all); running work is not copied."""
        self._session.records.check_kept()  # another session may have the id by now
        forked = await self._session.shared.fork(self.id, at, commands.new_id() if id is None else id)
        return cast("SessionHandle", forked)

    async def wake(self) -> None:
        """Wake the session if it hibernates; any message does that too."""
        await self._control(sent.TraceSent())

    async def resume(self) -> None:
        """Handle the messages that have waited since `suspend`; continue a turn that recovery paused."""
        await self._control(sent.ResumeSent())

    def trace(self, capacity: int | None = None) -> ActorTrace:
        """Return the actor's steps from now on: `async with` it, then `async for`; at most *capacity* are buffered."""
        return commands.trace(self._session.traces, lambda: self._control(sent.TraceSent()), capacity)

    async def _control(self, given: AnyInput) -> None:
        letter, slot = self._letter(given, None)
        self._session.mailbox.post_control(letter)
        commands.raised(await slot.wait())

    def _letter(self, given: AnyInput, command: str | None, read: ReadAnswer | None = None) -> Posted:
        commands.check_run(self.id, self._session.shared.home)
        if self._session.records.stuck is not None and not isinstance(given, commands.STOPPING):
            raise commands.fresh(self._session.records.stuck)
        if isinstance(given, sent.PromptSent):
            find = self._session.shared.model if self._session.sleeps else self._session.performer.model
            commands.refuse_untaken(given.parts, self._session.state.model, find)
        slot: Slot[Answer] = Slot()
        letter = commands.letter(given, command, slot, self._caller)
        if read is not None:
            letter.watch = self._session.waiters.keeps(read, lambda: self._session.state)
        return letter, slot

    async def _user(self, given: AnyInput, code: NewCode | None = None, *, command: str | None) -> Answer:
        letter, slot = self._letter(given, command)
        letter.code = code
        await self._session.mailbox.post_user(letter)
        return commands.raised(await slot.wait())
