"""`ApprovalPrompts`: asks the person about held calls, one at a time: the next typed line is the decision."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Literal, TypeAlias

import trio

from agentrail.api.protocols import AnySession
from agentrail.api.session_values import HeldCall
from agentrail.cli.output.screen import Tone, escaped, line
from agentrail.cli.output.screen_question import ScreenQuestion
from agentrail.cli.talk.file_changes import FileChanges
from agentrail.cli.talk.questions import about_always, end_of_question, question_about
from agentrail.cli.talk.terminal import Terminal
from agentrail.errors import UnknownApproval
from agentrail.tools.builtin.file_changes import FileChange, Unseen
from agentrail.values.json import freeze

YES_NO: Final = "[y]es / [n]o"

NOBODY: Final = "nobody is here to ask"
"""The reason for a rejection, and the answer to a question, if there is no person to decide."""


NO_CHANGES: Final = FileChanges(None)
"""For agents whose folder is not known."""

Step: TypeAlias = Literal["decision", "edit", "reason", "instead"]
"""What the next line is read as: a decision, arguments, a reason, or whether a prompt takes the place of the call."""


class ApprovalPrompts:
    """Asks the person about the held call that has waited longest; the next typed line is taken as the decision."""

    def __init__(
        self,
        session: AnySession,
        terminal: Terminal,
        advice: str = "",
        changes: FileChanges = NO_CHANGES,
    ) -> None:
        """Create it; *advice* is added to the message after a line that is no valid answer.

        *changes* tells what calls would change in files.
        """
        self.approved_ids: set[str] = set()
        """Ids of the calls that were approved by a single key."""
        self._session = session
        self._terminal = terminal
        self._advice = advice
        self._held_call: HeldCall | None = None
        self._step: Step = "decision"
        self._changes = changes
        self._change: FileChange | Unseen | None = None  # what was shown of the file that the call would change
        self._instead: Callable[[], Awaitable[None]] | None = None  # sends a prompt that ends the turn of the call

    @property
    def is_open(self) -> bool:
        """Whether a question is open, so that the next line belongs to it."""
        return self._held_call is not None

    @property
    def expects_text(self) -> bool:
        """Whether the next line is read as arguments or a reason, not as a decision."""
        return self._step in {"edit", "reason"}

    @property
    def is_unanswered(self) -> bool:
        """Whether a question is open and the next line is read as its answer."""
        return self.is_open and not self.expects_text

    async def look(self, waiting: Sequence[HeldCall]) -> None:
        """Ask about the first of the held calls; no-op if a question is open already or no call is held.

        Nobody is asked for a result that is made elsewhere.
        """
        if self._held_call not in waiting:
            self.forget()
        asked_for = next((call for call in waiting if call.kind != "result"), None)
        if self._held_call is None and asked_for is not None:
            await self.ask(asked_for)

    async def ask(self, call: HeldCall) -> None:
        """Ask about *call*: the next line is the answer."""
        change, by_key = await self._changes.of(call), self._terminal.keys
        # In a thread, as a large file has many rows
        rows = await trio.to_thread.run_sync(partial(question_about, call, change, by_key=by_key))
        self._held_call, self._step, self._change = call, "decision", change
        if call.kind == "question":
            self._terminal.ask(ScreenQuestion(rows))
            return
        always = "" if call.family is None else about_always(call.family)
        end = len(end_of_question(call, change, by_key=by_key))
        self._terminal.ask(ScreenQuestion(rows, end, "yner", always))

    def ask_instead(self, send: Callable[[], Awaitable[None]]) -> None:
        """Ask whether to *send* a prompt, which takes the place of the held call: the next line is the answer."""
        if self._held_call is not None:
            self._instead, self._step = send, "instead"
            text = f"  {self._held_call.tool} waits for you, and is not carried out if you send this. Send it? {YES_NO}"
            self._terminal.ask(ScreenQuestion((line(text, Tone.ASKING),), keys="yn", can_leave=True))

    def forget(self, call: HeldCall | None = None) -> None:
        """Withdraw the open question; if *call* is given, only if the question is still about that call."""
        if call is None or call == self._held_call:
            self._terminal.answered()
            self._held_call, self._step, self._instead = None, "decision", None

    async def answer(self, text: str) -> None:
        """Take *text* as the decision; ask again if it is no valid answer."""
        call = self._held_call
        if call is None:
            return
        if self._instead is not None:
            await self._replaced(call, self._instead, text)
        elif call.kind == "question":
            await self._respond(call, text)
        elif self._step == "edit":
            await self._edited(call, text)
        elif self._step == "reason":
            await self._reasoned(call, text)
        else:
            await self._decide(call, text)

    async def answer_for_nobody(self) -> None:
        """Reject the pending call, or answer the pending question with `NOBODY`, because no more lines will come."""
        call = self._held_call
        if call is None:
            return
        with suppress(UnknownApproval):  # another client has decided about the call meanwhile
            if call.kind == "question":
                await self._session.respond(call.id, NOBODY)
            else:
                await self._session.reject(call, NOBODY, auto_resume=True)
        self.forget(call)

    async def _replaced(self, call: HeldCall, send: Callable[[], Awaitable[None]], text: str) -> None:
        """Take *text* as the answer whether to *send* a prompt in place of *call*; else ask about the call again."""
        match text.lower().rstrip(",.:;"):
            case "y" | "yes":
                self.forget(call)
                await send()
            case "n" | "no" | "":
                self._instead = None
                await self.ask(call)
            case _:
                self._say("Please answer y or n.")

    async def _respond(self, call: HeldCall, text: str) -> None:
        if not text:
            self._say("Type an answer, please.")
            return
        chosen = int(text) if text.isdecimal() else 0
        await self._session.respond(call.id, call.options[chosen - 1] if 0 < chosen <= len(call.options) else text)
        self.forget(call)

    async def _decide(self, call: HeldCall, text: str) -> None:
        word, _, reason = text.partition(" ")
        match word.lower().rstrip(",.:;"):
            case "y" | "yes" | "a" | "always" if not reason and await self._changes.of(call) != self._change:
                self._say("The file has changed since it was shown, so this is asked again.")
                await self.ask(call)
                return
            case "y" | "yes" if not reason:
                await self._approve(call, always=False)
            case "a" | "always" if not reason:
                await self._approve(call, always=True)
            case "n" | "no":
                await self._session.reject(call, reason.strip() or None, auto_resume=True)
            case "e" | "edit" if not reason:
                self._go_on(call, "edit", "Change the arguments; Enter approves them")
                self._terminal.offer(escaped(json.dumps(call.args, ensure_ascii=False)))
                return
            case "r" | "reason" if not reason:
                self._go_on(call, "reason", "Say why not; Enter rejects the call")
                return
            case _:
                self._say(f"Please answer y, n, a or e; a reason may follow n.{self._advice}")
                return
        self.forget(call)

    async def _approve(self, call: HeldCall, *, always: bool) -> None:
        if self._terminal.keys:
            self.approved_ids.add(call.id)
        await self._session.approve(call, always=always)

    def _go_on(self, call: HeldCall, step: Step, how: str) -> None:
        """Read the next line as what *step* says, and show *how*; its beginning may have been typed already."""
        self._step = step
        back = "Escape" if self._terminal.keys else "an empty line"
        rows = (line(f"? {escaped(call.tool)}", Tone.ASKING), line(f"  {how}, {back} goes back.", Tone.ASKING))
        self._terminal.ask(ScreenQuestion(rows, can_leave=True, goes_on=True))

    async def _reasoned(self, call: HeldCall, text: str) -> None:
        if not text:
            await self.ask(call)
            return
        await self._session.reject(call.id, text, auto_resume=True)
        self.forget(call)

    async def _edited(self, call: HeldCall, text: str) -> None:
        if not text:
            await self.ask(call)
            return
        try:
            args = freeze(json.loads(text))
        except ValueError as error:
            self._again(f"This is no JSON: {error}.", text)
            return
        if not isinstance(args, Mapping):
            self._again("The arguments are an object, in braces.", text)
            return
        await self._session.approve(call, args)
        self.forget(call)

    def _again(self, problem: str, text: str) -> None:
        self._say(problem)
        if self._terminal.keys:
            self._terminal.offer(text)

    def _say(self, text: str) -> None:
        self._terminal.show((line(f"  {text}", Tone.ASKING),))
