"""Who decides about calls that wait for a person: `--yes`, `--deny`, a person at the terminal, answers from a pipe.

A decider returns `None`, or why it has not decided.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from agentrail.api.protocols import AnySession
from agentrail.api.session_values import HeldCall
from agentrail.cli.output.screen import Tone, line
from agentrail.cli.talk.approval_prompts import NO_CHANGES, NOBODY, ApprovalPrompts
from agentrail.cli.talk.file_changes import FileChanges
from agentrail.cli.talk.terminal import Terminal
from agentrail.errors import AgentrailError, UnknownApproval
from agentrail.plugins.security import UNCONFINED

NO_ANSWER: Final = "an approval is no answer to a question"
NOT_CONFINED: Final = f"`--yes` approves no command that nothing confines: {UNCONFINED}"


async def approve_all(session: AnySession, calls: tuple[HeldCall, ...]) -> str | None:
    """Approve all *calls*. If one of them is a question or an unconfined command, approve none; return the reason."""
    if any(call.kind == "question" for call in calls):
        return NO_ANSWER
    if any(UNCONFINED in call.hint for call in calls):
        return NOT_CONFINED
    for call in calls:
        with suppress(UnknownApproval):  # another client has decided about the call meanwhile
            await session.approve(call)
    return None


async def refuse_all(session: AnySession, calls: tuple[HeldCall, ...]) -> str | None:
    """Reject *calls*, and answer questions with `NOBODY`; the model continues without them."""
    for call in calls:
        with suppress(UnknownApproval):  # another client has decided about the call meanwhile
            if call.kind == "question":
                await session.respond(call.id, NOBODY)
            else:
                await session.reject(call, NOBODY, auto_resume=True)
    return None


async def decide_nothing(_session: AnySession, _calls: tuple[HeldCall, ...]) -> str | None:
    """Decide nothing; return why, so that the caller can run the command again with other options."""
    await trio.lowlevel.checkpoint()
    return NOBODY


class LineDecider:
    """Reads decisions as lines: typed by a person who is asked, or from a pipe, in the order of the calls."""

    def __init__(self, terminal: Terminal, changes: FileChanges = NO_CHANGES) -> None:
        """Create it; *changes* tells what calls would change in files."""
        self._terminal = terminal
        self._changes = changes
        self._lines: list[str] = []

    async def __call__(self, session: AnySession, calls: tuple[HeldCall, ...]) -> str | None:
        """Ask about each of *calls*."""
        async with self._terminal.opened():
            return await self._ask_all(ApprovalPrompts(session, self._terminal, changes=self._changes), calls)

    async def _ask_all(self, pending: ApprovalPrompts, calls: tuple[HeldCall, ...]) -> str | None:
        for call in calls:
            problem = await self._ask(pending, call)
            if problem is not None:
                return problem
        return None

    async def _ask(self, pending: ApprovalPrompts, call: HeldCall) -> str | None:
        if self._terminal.by_hand:  # lines typed before the question appeared are not answers to it
            self._lines.clear()
            self._terminal.drop_typed_ahead()
        await pending.ask(call)
        while pending.is_open:
            text = await self._next_line()
            if text is None:
                return NOBODY if self._terminal.by_hand else "the answers have ended"
            is_decision = not pending.expects_text
            try:
                await pending.answer(text)
            except UnknownApproval:  # another client has decided about the call meanwhile
                pending.forget()
            except AgentrailError as error:
                self._terminal.show((line(f"  ✗ {error}", Tone.BAD),))
                await pending.ask(call)
            is_no_answer = pending.is_unanswered or (pending.expects_text and not is_decision)
            # The next line of a pipe may be the answer about another call
            if is_no_answer and not self._terminal.by_hand:
                return f"the line {text!r} is no answer to it"
        return None

    async def _next_line(self) -> str | None:
        while not self._lines and (lines := await self._terminal.read()) is not None:
            if self._terminal.may_answer:
                self._lines.extend(lines)
            else:
                typed = (line(f"  not taken, for the question was not seen yet: {text}", Tone.BAD) for text in lines)
                self._terminal.show(tuple(typed))
        return self._lines.pop(0).strip() if self._lines else None
