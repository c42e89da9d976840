"""`Console`: sends the lines that a person types to a session, here or at a host, and shows the session's events.

A person sees what the session does, so a line that is typed while it works is steering. Lines from a pipe or a file are
there before the session has begun: each waits until the session rests, and so is a prompt or an answer.
"""

from __future__ import annotations

import math
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from agentrail.api.protocols import AnySession, awaited
from agentrail.api.session_values import Status
from agentrail.api.transcript import (
    CallChanged,
    CallEnded,
    Change,
    OfSubagent,
    ResponseEnded,
    ShownCall,
    Transcript,
    thoughts_in,
)
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.screen import Flow, ScreenText, Tone, aside, clipped, line, one_line
from agentrail.cli.talk.approval_prompts import NO_CHANGES, ApprovalPrompts
from agentrail.cli.talk.console_commands import STEER, ConsoleCommands
from agentrail.cli.talk.file_changes import FileChanges
from agentrail.cli.talk.input_history import InputHistory
from agentrail.cli.talk.key_commands import LATER
from agentrail.cli.talk.memory_lines import memory_line
from agentrail.cli.talk.past import MOST_READ, PastEvents, before_copy, past_of, prompt_piece, prompts_in
from agentrail.cli.talk.questions import changed_lines, made_changes
from agentrail.cli.talk.rendering import about, pieces_of
from agentrail.cli.talk.shell_lines import MARK
from agentrail.cli.talk.status_line import StatusLine
from agentrail.cli.talk.terminal import Terminal
from agentrail.errors import AgentrailError, SessionNotAlive, SessionParked
from agentrail.tools.builtin.file_changes import WRITERS
from agentrail.values.content import text_of
from agentrail.values.events import (
    AgentAbort,
    AgentEnd,
    AgentResumed,
    ApprovalResolved,
    AskUser,
    Cursor,
    Envelope,
    Gap,
    MessageDelta,
    PromptDropped,
    PromptReceived,
    PromptRejected,
    PromptWithdrawn,
    SessionQuarantined,
    StatusUpdate,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionUpdate,
)

AGAIN: Final = 2.0
"""Seconds within which a second Ctrl-C ends the program."""

AGAIN_LEAVES: Final = "Ctrl-C again leaves"

LAST_EVENTS: Final = 1.0
"""The most seconds to wait for the event of a call that waits for the person, before the person is asked about it."""

TITLE: Final = 60
"""The most columns of the title that a session gets from its first prompt."""

MOST_CHANGED: Final = 12
"""The most rows that are shown of what a call writes until the person asks for more."""

PASSING: Final = (MessageDelta, StatusUpdate, ThinkingDelta, ToolExecutionUpdate)
"""Events that come often, and after which the session does the same as before."""

BEGINNING: Final = Cursor(0)
"""The place before all events."""

LEAVING: Final = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGTERM") if hasattr(signal, name))


class Console:
    """The conversation of one person with one session."""

    def __init__(
        self,
        session: AnySession,
        terminal: Terminal,
        commands: ConsoleCommands | None = None,
        past: Cursor | None = None,
        history: InputHistory | None = None,
        changes: FileChanges = NO_CHANGES,
        status_line: StatusLine | None = None,
    ) -> None:
        """Create it; *past* is the place up to which the session's events are past, and shown as such.

        Without it the session is new, and gets its title from the first prompt. *history* keeps what is typed,
        *changes* tells what calls would change in files, and *status_line* is a row of the person's own.
        """
        self.has_prompted = False
        """Whether a prompt was sent."""
        self._past = past
        self._history = history
        self._status_line = status_line or StatusLine("", terminal, "")
        self._title = ""  # title to set as soon as the session runs; empty if it was set
        self._session = session
        self._terminal = terminal
        self._commands = commands or ConsoleCommands(session, terminal)
        self._answering = ApprovalPrompts(
            session, terminal, advice=" /steer TEXT says something else instead.", changes=changes
        )
        self._leaving = trio.CancelScope()
        self._interrupted = -AGAIN
        self._has_stopped = False  # whether a turn was aborted, or a prompt rejected
        self._status: Status | None = None
        self._changed = trio.Event()
        self._is_looking = False
        self._is_returning = False  # another process takes the session over, and will start it again
        self._news = trio.Event()
        self._transcript = Transcript()
        self._texts: list[str] = []  # texts of prompts sent here whose event has not come
        self._is_sending = False
        self._open_refs: set[str] = set()  # refs of prompts sent here whose end is not shown yet
        # Refs of prompts that ended while one was being sent, whose own ref is not known yet
        self._ended_refs: set[str] = set()
        self._shown_calls: set[tuple[str, str]] = set()  # kinds and ids of held calls whose event is shown
        self._nursery: trio.Nursery | None = None  # `None` before the conversation begins
        self._folded_rows: Sequence[ScreenText] = ()  # rows of the last change that are not shown
        self._last_read = 0  # tokens of the last request and response: the least that the next request has

    async def run(self, offered: str = "") -> bool:
        """Run the conversation until the person leaves or the session ends; *offered* is a first text to change.

        Return false if the lines came from a pipe or a file, and one was refused or its turn was stopped.
        """
        with trio.open_signal_receiver(signal.SIGINT, *LEAVING) as signals:
            async with self._terminal.opened():
                try:
                    await self._converse(signals, offered)
                finally:
                    self._answering.forget()
                    self._terminal.work(is_working=False)
        return self._terminal.by_hand or not (self._has_stopped or self._commands.has_refused)

    async def _converse(self, signals: AsyncIterator[int], offered: str) -> None:
        since = None if self._past is None else max(self._past.seq - MOST_READ, 0)
        async with self._session.subscribe(since) as events:
            prompts = () if self._past is None else await self._catch_up(events, self._past)
            await self._commands.find_prompts()
            if offered:
                self._terminal.offer(offered)
            typed = () if self._history is None else await trio.to_thread.run_sync(self._history.texts)
            self._terminal.complete_by(self._commands.ways_to_go_on, typed or prompts)
            with self._leaving:
                async with trio.open_nursery() as nursery:  # noqa: TID251 - the command line has its own tasks
                    self._nursery = nursery
                    nursery.start_soon(self._listen, events)
                    nursery.start_soon(self._obey, signals)
                    self._look_again()
                    nursery.start_soon(self._keep_looking)
                    nursery.start_soon(self._status_line.keep)
                    if self._terminal.by_hand:
                        nursery.start_soon(self._commands.find_skills)
                    await self._read()

    def _leave(self) -> None:
        self._leaving.cancel()

    # From the session

    async def _catch_up(self, events: AsyncIterator[Envelope], end: Cursor) -> Sequence[str]:
        """Show the past events, up to *end*; return the prompts among them.

        They and all that follow are one stream, so nothing is shown twice, or missed.
        """
        past = PastEvents(is_cut=end.seq > MOST_READ)
        cursor = BEGINNING
        while cursor < end:
            envelope: Envelope | None = None
            # The deltas before `end` are lost if their process has just ended, and are not waited for
            with trio.move_on_after(math.inf if cursor.seq < end.seq else LAST_EVENTS):
                envelope = await anext(events, None)
            if envelope is None:
                break
            for change in self._changes(envelope):
                past.take(change, self._pieces_of(change))
            cursor = cursor if isinstance(envelope.event, Gap) else envelope.cursor
        messages = await awaited(self._session.messages()) if past.is_copy else ()
        old_messages = before_copy(messages, len(past.prompts))
        self._terminal.show((*past_of(old_messages), *past.pieces()))
        return (*prompts_in(old_messages), *past.prompts)

    async def _listen(self, events: AsyncIterator[Envelope]) -> None:
        """Show the session's events, until it has ended."""
        try:
            async for envelope in events:
                for change in self._changes(envelope):
                    self._terminal.show(self._pieces_of(change))
                    self._note(change)
                if self._terminal.is_gone:
                    break
        except AgentrailError as error:
            self._commands.refuse(str(error))
        self._leave()

    def _changes(self, envelope: Envelope) -> Iterator[Change]:
        """Yield what an event changes; keep of it what `/why` and `/show` tell."""
        self._commands.note_decision(envelope.event)
        self._commands.server_prompts.note(envelope.event)
        for change in self._transcript.take(envelope):
            match change:
                case ResponseEnded(message=message):
                    self._last_read = message.usage.total_tokens or self._last_read
                    self._commands.fold("thoughts", thoughts_in(message))
                case CallEnded(call, cause=ToolExecutionEnd(text=text)):
                    self._commands.fold(call.name, text)
                case _:
                    pass
            yield change

    def _pieces_of(self, change: Change) -> tuple[ScreenText, ...]:
        """Return the pieces to show for a change; a prompt is shown only if it was not typed here.

        What a call writes is shown with it, unless the person was asked about the call by lines that are still there.
        """
        pieces, inner = pieces_of(change), change
        while isinstance(inner, OfSubagent):
            inner = inner.change
        match inner:
            case PromptReceived(text=text) if change is inner:
                return (prompt_piece(text, Flow.ECHO if text in self._texts else Flow.LINE),)
            case ApprovalResolved(status="approved", approval_id=ref, edited=False) if (
                ref in self._answering.approved_ids
            ):
                return ()  # the person knows, and that it runs says so
            case AgentResumed(trigger="tool_approved") if self._answering.approved_ids:
                return ()
            case CallChanged(call) if change is inner and pieces and call.name not in WRITERS and self._is_news(call):
                return (*pieces, *self._folded(call.name, changed_lines(call.args or {})))
            case CallEnded(call, cause=ToolExecutionEnd(is_error=False, details=details)) if (
                change is inner and call.name in WRITERS and self._is_news(call)
            ):
                return (*pieces, *self._folded(call.name, made_changes(call.args or {}, details)))
            case _:
                return pieces

    def _is_news(self, call: ShownCall) -> bool:
        """Whether what *call* writes is not on the screen: a question by keys is gone once it is answered."""
        return self._terminal.keys or not call.was_held

    def _folded(self, name: str, rows: Sequence[ScreenText]) -> Sequence[ScreenText]:
        """Return the first *rows* of what the call of *name* writes; keep all of them for `/show`, and for Enter."""
        self._commands.fold(name, "\n".join(row.text for row in rows))
        if len(rows) <= MOST_CHANGED:
            return rows
        self._folded_rows = rows[MOST_CHANGED - 1 :]
        how = "Enter shows them" if self._terminal.keys else "/show"
        more = line(f"    … {len(self._folded_rows)} more rows; {how}", Tone.DIM)
        return (*rows[: MOST_CHANGED - 1], more)

    def _unfold(self) -> None:
        """Show the rows of the last change that were folded, once."""
        self._terminal.show(self._folded_rows)
        self._folded_rows = ()

    def _note(self, change: Change) -> None:
        match change:
            case PromptReceived(text=text):
                with suppress(ValueError):  # somebody else sent it
                    self._texts.remove(text)
            case AgentEnd(ref=ref) | PromptDropped(ref=ref) | PromptWithdrawn(ref=ref):
                self._end(ref)
            case AgentAbort(ref=ref):
                self._has_stopped = True
                if ref is not None:
                    self._end(ref)
            case PromptRejected(ref=ref):
                self._has_stopped = True
                self._end(ref)
            case SessionQuarantined():
                self._open_refs.clear()
            case CallChanged(call) if call.state == "held":
                self._shown_calls.add(("approval", call.call_id))
            case AskUser(call_id=call_id, path=()):
                self._shown_calls.add(("question", call_id))
            case _:
                if isinstance(change, PASSING):
                    return
        self._look_again()

    def _end(self, ref: str) -> None:
        """Note that the end of the prompt *ref* is shown.

        If a prompt is being sent, *ref* may be the one that it will get.
        """
        if self._is_sending:
            self._ended_refs.add(ref)
        self._open_refs.discard(ref)

    def _look_again(self) -> None:
        """Wake `_keep_looking`, because the session's status may have changed."""
        self._changed.set()
        self._tell()

    async def _keep_looking(self) -> None:
        """Read the session's status after each change, and ask the person about its held calls."""
        is_first = True
        try:
            while True:
                await self._changed.wait()
                self._changed, self._is_looking = trio.Event(), True
                status = await self._look()
                self._is_returning = status is None and await self._commands.is_returning()
                held_calls = () if status is None else status.held
                own_calls = {(call.kind, call.call_id) for call in held_calls if not call.path}
                if is_first:  # the events of these calls are older than the subscription and will not come
                    self._shown_calls |= own_calls
                    is_first = False
                if status is not None and self._title:
                    await self._entitle()
                await self._wait_for_events(own_calls)
                self._status, self._is_looking = status, False
                if self._is_fresh:
                    await self._answering.look(held_calls)
                    self._terminal.work(is_working=not self._is_resting or self._commands.shell.is_running)
                    self._tell_status(status)
                    self._tell()
        except AgentrailError as error:
            self._commands.refuse(str(error))
            self._leave()

    def _tell_status(self, status: Status | None) -> None:
        self._terminal.tell("" if status is None else about(status, self._last_read))
        if status is not None:
            self._status_line.note(status, self._last_read)

    async def _entitle(self) -> None:
        """Set the session's title.

        If the session does not run just now (another process takes it over), try again later.
        """
        with suppress(SessionNotAlive, SessionParked):
            await self._session.label(title=self._title)
            self._title = ""

    async def _wait_for_events(self, calls: set[tuple[str, str]]) -> None:
        """Wait until the events of the held *calls* are shown, so that a question appears below its call."""
        with trio.move_on_after(LAST_EVENTS):
            await self._wait_until(lambda: calls <= self._shown_calls)
        self._shown_calls |= calls

    async def _look(self) -> Status | None:
        """Return the session's status; `None` if it does not run now. A prompt would start it again."""
        try:
            return await awaited(self._session.status())
        except (SessionNotAlive, SessionParked):
            return None

    @property
    def _is_fresh(self) -> bool:
        """Whether `_status` is up to date: no event has come since it was read."""
        return not (self._is_looking or self._changed.is_set())

    @property
    def _is_resting(self) -> bool:
        """Whether the session is idle or waits for the person, and all its events are on the screen."""
        if self._is_sending or self._is_returning or not self._is_fresh:
            return False
        if self._status is not None and self._status.held:  # the session works if it is a call of a sub-agent
            return True
        return not self._open_refs and (self._status is None or self._status.phase in {"idle", "ended"})

    def _tell(self) -> None:
        """Wake all who wait for news; there may be two of them."""
        self._news.set()
        self._news = trio.Event()

    async def _wait_until(self, has_come: Callable[[], bool]) -> None:
        while not has_come():
            await self._news.wait()

    # From the person

    async def _read(self) -> None:
        """Act on each typed line, until the input ends."""
        while (lines := await self._terminal.read()) is not None:
            for number, text in enumerate(lines, 1):
                if self._leaving.cancel_called:
                    return
                self._interrupted = -AGAIN
                if text.strip():
                    self._folded_rows = ()
                try:
                    is_answer = await self._is_answer(text.strip())
                    if not is_answer:
                        await self._remember(text)
                    await self._act(text, is_answer=is_answer)
                except (AgentrailError, BadInputError) as error:
                    self._commands.refuse(str(error))
                self._look_again()
                if self._commands.is_leaving:
                    self._terminal.put_back(lines[number:])
                    self._leave()
                    return
        if not self._terminal.by_hand:
            while await self._asks_or_rests():
                await self._answering.answer_for_nobody()
                self._look_again()
        elif not self._terminal.keys:
            await self._asks_or_rests()
        self._leave()

    async def _remember(self, text: str) -> None:
        """Keep *text*, which answers no question, for later conversations."""
        if self._history is not None and self._terminal.keys:
            await trio.to_thread.run_sync(self._history.add, text.removeprefix(LATER))

    async def _asks_or_rests(self) -> bool:
        """Wait until the session is idle or waits for the person; return whether a question to the person is open."""
        await self._wait_until(lambda: self._is_resting)
        return self._answering.is_open

    async def _is_answer(self, text: str) -> bool:
        """Return whether *text*, of the lines that were read last, belongs to the open question.

        What a person sent before the question was seen never does: neither now, nor if it opens before `_act`.
        """
        if not (self._terminal.by_hand or text.startswith(STEER)):
            await self._asks_or_rests()
        return self._answering.is_open and self._terminal.may_answer

    async def _act(self, typed: str, *, is_answer: bool) -> None:
        text = typed.strip()
        if text.startswith(LATER) and self._answering.is_open:
            self._answering.ask_instead(partial(self._commands.carry_out, text))
        elif text.startswith("/") and "/" not in text[1:].partition(" ")[0]:  # else it begins with a path
            prompt = self._commands.own_prompt(text)
            if prompt is None and await self._commands.is_skill(text):
                prompt = text
            await (self._commands.carry_out(text) if prompt is None else self._talk(prompt, text))
        elif is_answer:
            await self._answering.answer(text)
        elif text.startswith(MARK) and self._terminal.by_hand and self._nursery is not None:
            self._nursery.start_soon(self._run_line, text.removeprefix(MARK).strip())
        elif self._terminal.keys and (line := memory_line(typed)) is not None:
            await self._commands.keep_in_memory(line)
        elif text:
            await self._talk(text, text)
        elif self._terminal.keys:
            self._unfold()

    async def _run_line(self, command_line: str) -> None:
        """Run a command line of the person, which waits for nothing that the session does."""
        self._look_again()
        try:
            await self._commands.shell.run(command_line)
        except (AgentrailError, BadInputError, OSError) as error:
            self._commands.refuse(str(error))
        self._look_again()

    async def _talk(self, text: str, typed: str) -> None:
        """Send *text*, which stands for what was *typed*: as steering while a turn is open, else as a prompt."""
        status = await self._look()
        # The question was not seen yet, so this line cannot be meant as its answer
        if status is not None and status.held:
            self._commands.refuse(f"not sent, for there is a question first: {typed}")
        elif status is not None and status.turn_open:
            await self._commands.steer(text, typed)
        else:
            await self._prompt(text, typed)

    async def _prompt(self, text: str, typed: str) -> None:
        is_first, self.has_prompted, self._is_sending = not self.has_prompted, True, True
        try:
            message = await self._commands.with_files(text, typed)
            text = message if isinstance(message, str) else text_of(message)
            self._texts.append(text)
            ref = (await self._session.prompt(message)).ref
            if ref not in self._ended_refs:
                self._open_refs.add(ref)
        except (AgentrailError, BadInputError):
            with suppress(ValueError):  # the event of the prompt has come although the call failed
                self._texts.remove(text)
            raise
        finally:
            self._is_sending = False
            self._ended_refs.clear()
        if is_first and self._past is None:
            self._title = clipped(one_line(typed), TITLE)

    # From outside

    async def _obey(self, signals: AsyncIterator[int]) -> None:
        """Handle signals: leave, or interrupt (Ctrl-C)."""
        async for number in signals:
            if number in LEAVING:
                self._leave()
            elif not self._terminal.is_lent:
                await self._interrupt()

    async def _interrupt(self) -> None:
        """Handle Ctrl-C: abort the running turn, or leave if it is the second one in a row.

        If no turn runs, drop the typed text, if there is any. The first one says that a second one leaves; a signal to
        a program that reads a pipe has no second one.
        """
        if self._commands.shell.stop():
            return
        again = trio.current_time() - self._interrupted < AGAIN
        self._interrupted = trio.current_time()
        if again:
            self._leave()
            return
        status = await self._look()
        if status is None or (status.phase == "idle" and not status.turn_open):
            self._terminal.drop_typed()
            if self._terminal.by_hand:
                self._terminal.show((aside(f"  {AGAIN_LEAVES}", Tone.DIM),))
            else:
                self._leave()
            return
        self._terminal.show((line(f"  stopping; {AGAIN_LEAVES}", Tone.DIM),))
        self._answering.forget()
        # The session has ended meanwhile, or its host cannot be reached, which `_keep_looking` reports
        with suppress(AgentrailError):
            await self._session.abort()
