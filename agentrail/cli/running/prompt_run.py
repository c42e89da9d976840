"""`PromptRun`: sends one prompt to a session, here or at a host, follows it to its end, and says how it ended.

If the turn waits for a person, somebody is asked to decide; if nobody does, the run ends. A signal aborts the turn.
"""

from __future__ import annotations

import math
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

import trio

from agentrail.api.protocols import AnySession, awaited
from agentrail.api.session_values import HeldCall, Reply
from agentrail.cli.running.run_outcome import (
    RESULT_ELSEWHERE,
    WHO_GIVES,
    Outcome,
    RunEnding,
    RunTally,
    ending_of_error,
    ending_of_reply,
    held_ending,
)
from agentrail.errors import AgentrailError, AnswerUnfit, NoAnswer, TurnAborted
from agentrail.values.events import (
    AgentAbort,
    AgentEnd,
    ApprovalRequired,
    ApprovalResolved,
    AskUser,
    Envelope,
    PromptDropped,
    PromptRejected,
    PromptWithdrawn,
    ResultRequired,
    UserResponded,
)
from agentrail.values.json import JsonObject
from agentrail.values.usage import NOTHING_USED, Usage

Decide: TypeAlias = Callable[[tuple[HeldCall, ...]], Awaitable[str | None]]
"""Decides about the calls that wait; returns `None`, or why nobody has decided."""

Show: TypeAlias = Callable[[Envelope], Awaitable[bool]]
"""Shows an event; returns whether somebody still reads."""

LAST_EVENTS: Final = 1.0
"""The most seconds to wait for the events about the calls that wait for a person."""

INTERRUPTED: Final = RunEnding(Outcome.INTERRUPTED, "interrupted")
CUT: Final = RunEnding(Outcome.FAILED, "the events of the session ended before its turn did")
NOBODY_READS: Final = RunEnding(Outcome.FAILED)

STOPPING: Final = ("SIGINT", "SIGTERM", "SIGHUP")
"""Names of the signals that abort the turn; some systems do not have all of them."""


class PromptRun:
    """One prompt of a session, from sending it to the end of its turn."""

    def __init__(self, session: AnySession, decide: Decide, show: Show) -> None:
        self.tally = RunTally()
        self._session = session
        self._decide = decide
        self._show = show
        self._command = f"run-{secrets.token_hex(8)}"
        self._ref = ""
        self._ends: dict[str, AgentEnd | None] = {}
        self._waiting_ids: set[str] = set()
        self._decided_ids: set[str] = set()
        self._open_ids: set[str] = set()
        self._is_heard = True
        self._is_read = True
        self._news = trio.Event()
        self._interrupted = False
        self._deciding: trio.CancelScope | None = None
        self._leaving = trio.CancelScope()

    async def run(self, prompt: str, schema: JsonObject | None = None, since: int | None = None) -> RunEnding:
        """Send *prompt*, wait for the end of its turn, and return the outcome.

        With *schema*, the answer is an object that fits it. Events are shown from now on, or from *since* on.
        """
        ending = INTERRUPTED
        with trio.open_signal_receiver(*_stopping()) as signals, self._leaving:
            async with (
                self._session.subscribe(since) as events,
                trio.open_nursery() as nursery,  # noqa: TID251 - the command line has its own tasks
            ):
                nursery.start_soon(self._listen, events)
                nursery.start_soon(self._obey, signals)
                try:
                    ending = await self._follow(prompt, schema)
                except AgentrailError as error:
                    await self._wait_for_end(error)
                    ending = ending_of_error(error, self.tally)
                nursery.cancel_scope.cancel()
        if not self._is_read:
            return NOBODY_READS
        return INTERRUPTED if self._interrupted else ending

    async def usage(self) -> Usage:
        """Return the tokens and cost of the session so far; zero if the session cannot be asked any more."""
        try:
            return (await awaited(self._session.status())).usage
        except AgentrailError:  # the session has ended in another process and cannot be asked
            return NOTHING_USED

    async def _follow(self, prompt: str, schema: JsonObject | None) -> RunEnding:
        self._ref = (await self._session.prompt(prompt, returns=schema, command=self._command)).ref
        if self._interrupted:  # Ctrl-C came before the prompt was sent
            await self._session.abort()
        while await self._waits(prompt, schema):
            calls = (await awaited(self._session.status())).held
            await self._wait_for_events({call.id for call in calls})
            self._open_ids = {call.id for call in calls} - self._decided_ids
            if not self._open_ids:  # decided meanwhile, as by a time limit: no event would end the asking
                continue
            if any(call.kind == "result" for call in calls):
                return held_ending(calls, RESULT_ELSEWHERE, WHO_GIVES)
            with trio.CancelScope() as self._deciding:
                problem = await self._decide(calls)
                if problem is not None:
                    return held_ending(calls, problem)
        await self._wait_until(self._is_over)
        end = self._ends.get(self._ref)
        if end is None:
            return CUT
        reply = Reply(end.ref, end.reason, end.messages, end.usage, fits=end.fits)
        return ending_of_reply(reply, self.tally, wants_object=schema is not None)

    async def _waits(self, prompt: str, schema: JsonObject | None) -> bool:
        """Wait until the turn ends or waits for a person; return whether it waits for a person."""
        if schema is None:
            return (await self._session.ask(prompt, command=self._command)).stop_reason == "held"
        try:
            await self._session.ask(prompt, returns=schema, command=self._command)
        except NoAnswer as error:
            return error.stop_reason == "held"
        return False

    # Events

    async def _listen(self, events: AsyncIterator[Envelope]) -> None:
        """Count and show the session's events, as long as somebody reads the output; else abort."""
        with suppress(AgentrailError):  # the subscription has failed; `_follow` gets the error of the session too
            async for envelope in events:
                if not await self._show(envelope):
                    self._is_read = False
                    await self._session.abort()
                    self._leaving.cancel()
                    break
                self._note(envelope)  # only after it was shown, because noting the last event ends the run
                self._news.set()
        self._is_heard = False
        self._news.set()

    def _note(self, envelope: Envelope) -> None:
        self.tally.take(envelope)
        match envelope.event:
            case AgentEnd(ref=ref) as end:
                self._ends[ref] = end
            case AgentAbort(ref=str(ref)) | PromptRejected(ref=ref) | PromptDropped(ref=ref) | PromptWithdrawn(ref=ref):
                self._ends[ref] = None
            case ApprovalRequired(approval_id=ref) | AskUser(ref=ref) | ResultRequired(ref=ref):
                self._waiting_ids.add(ref)
            case ApprovalResolved(approval_id=ref) | UserResponded(ref=ref):
                self._decided_ids.add(ref)
                self._open_ids.discard(ref)
            case _:
                return
        if self._deciding is not None and (self._is_over() or not self._open_ids):
            self._deciding.cancel()  # the calls were decided elsewhere, or the turn has ended: stop asking

    def _is_over(self) -> bool:
        """Whether the end of this prompt's turn was shown.

        While the ref of the prompt is not known, any turn's end counts.
        """
        return self._ref in self._ends if self._ref else bool(self._ends)

    async def _wait_for_end(self, error: AgentrailError) -> None:
        """Wait for the event of the turn's end, which *error* reports, so that the shown events are complete."""
        with trio.move_on_after(math.inf if isinstance(error, TurnAborted | AnswerUnfit) else LAST_EVENTS):
            await self._wait_until(self._is_over)

    async def _wait_for_events(self, ids: set[str]) -> None:
        with trio.move_on_after(LAST_EVENTS):
            await self._wait_until(lambda: ids <= self._waiting_ids)

    async def _wait_until(self, has_come: Callable[[], bool]) -> None:
        """Wait until an event has made *has_come* true, or until no more events can come."""
        while not has_come() and self._is_heard:
            self._news = trio.Event()
            await self._news.wait()

    # Signals

    async def _obey(self, signals: AsyncIterator[int]) -> None:
        """Abort the turn at the first signal, and leave at the second."""
        async for _ in signals:
            if self._interrupted:
                self._leaving.cancel()
                continue
            self._interrupted = True
            with suppress(AgentrailError):  # a session that has ended has nothing to abort
                await self._session.abort()
            if self._deciding is not None:
                self._deciding.cancel()


def _stopping() -> tuple[signal.Signals, ...]:
    """Return the signals that abort the turn; those that are ignored stay ignored, as SIGHUP under `nohup`."""
    numbers: list[signal.Signals | None] = [getattr(signal, name, None) for name in STOPPING]
    return tuple(number for number in numbers if number is not None and signal.getsignal(number) is not signal.SIG_IGN)
