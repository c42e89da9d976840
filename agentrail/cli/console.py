"""`Console`: sends the lines that a person types to a session, and shows the session's events.

A person sees what the session does, so a line that is typed while it works is steering. Lines from a pipe or a file are
there before the session has begun: each waits until the session rests, and so is a prompt or an answer.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import trio

from agentrail.cli.approval_prompts import PendingDecisions
from agentrail.cli.help_text import HELP
from agentrail.cli.rendering import described, piece_of
from agentrail.cli.screen import Tone, line
from agentrail.cli.terminal import Terminal
from agentrail.core.vocabulary.commands import When
from agentrail.errors import AgentrailError, SteeringQueueFull
from agentrail.runtime.events.subscription import Subscription
from agentrail.runtime.handle import SessionHandle
from agentrail.values.events import AgentAbort, PromptRejected

AGAIN: Final = 2.0
"""Seconds within which a second Ctrl-C ends the program."""

LOOK_AGAIN: Final = 0.1
"""Seconds after which the state of a session without events is looked at again, after the input has ended."""

STEER: Final = "/steer"
"""The only command that does not wait for the session to rest when it comes from a pipe or a file."""

LEAVING: Final = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGTERM") if hasattr(signal, name))
CONTINUED: Final = tuple(getattr(signal, name) for name in ("SIGCONT",) if hasattr(signal, name))


class Console:
    """The conversation of one person with one session."""

    def __init__(self, session: SessionHandle, terminal: Terminal) -> None:
        self._session = session
        self._terminal = terminal
        self._answering = PendingDecisions(session, terminal, advice=" /steer TEXT says something else instead.")
        self._leaving = trio.CancelScope()
        self._interrupted = -AGAIN
        self._seen = 0
        self._well = True
        self._news = trio.Event()

    async def run(self) -> bool:
        """Run the conversation until the person leaves or the session ends.

        Return false if the lines came from a pipe or a file, and one was refused or its turn was stopped.
        """
        with trio.open_signal_receiver(signal.SIGINT, *LEAVING, *CONTINUED) as signals, self._terminal.opened():
            async with self._session.subscribe() as events:
                self._seen = self._session.inspect().last_seq
                with self._leaving:
                    async with trio.open_nursery() as nursery:  # noqa: TID251 - the command line has its own tasks
                        nursery.start_soon(self._listen, events)
                        nursery.start_soon(self._obey, signals)
                        self._invite()
                        await self._read()
        return self._well or self._terminal.by_hand

    def _leave(self) -> None:
        self._leaving.cancel()

    # From the session

    async def _listen(self, events: Subscription) -> None:
        """Show the session's events, and ask about held calls when all events so far are shown."""
        async for envelope in events:
            piece = piece_of(envelope)
            if piece is not None:
                self._terminal.show((piece,))
            if isinstance(envelope.event, AgentAbort | PromptRejected):
                self._well = False
            self._seen = max(self._seen, envelope.seq)
            if self._is_up_to_date:
                self._answering.look(self._session.status().held)
            self._invite()
            self._news.set()
            if self._terminal.gone:
                break
        self._leave()

    @property
    def _is_up_to_date(self) -> bool:
        """Whether all events so far are on the screen; true for a session that has ended."""
        return self._session.status().phase == "ended" or self._seen >= self._session.inspect().last_seq

    @property
    def _is_resting(self) -> bool:
        """Whether the session is idle, and all its events are on the screen."""
        return self._is_up_to_date and self._session.status().phase == "idle"

    def _invite(self) -> None:
        self._terminal.prompt(wanted=self._answering.is_open or self._is_resting)

    # From the person

    async def _read(self) -> None:
        """Act on each typed line, until the input ends."""
        while (lines := await self._terminal.read()) is not None:
            for text in lines:
                if self._leaving.cancel_called:
                    return
                self._interrupted = -AGAIN
                try:
                    await self._act(text.strip())
                except AgentrailError as error:
                    self._refuse(str(error))
                self._invite()
        if not self._terminal.by_hand:
            while await self._asks_or_rests():
                await self._answering.answer_for_nobody()
        elif not self._terminal.keys:
            await self._asks_or_rests()
        self._leave()

    async def _asks_or_rests(self) -> bool:
        """Wait until the session is idle, as it also is while a call waits for the person; return whether one waits."""
        while not self._is_resting:
            self._news = trio.Event()
            with trio.move_on_after(LOOK_AGAIN):
                await self._news.wait()
        return self._answering.is_open

    async def _act(self, text: str) -> None:
        if not (self._terminal.by_hand or text.startswith(STEER)):
            await self._asks_or_rests()
        if text.startswith("/"):
            await self._command(*text.partition(" ")[::2])
        elif self._answering.is_open:
            await self._answering.answer(text)
        elif not text:
            return
        elif self._session.status().held:  # a question that is not on the screen yet must not be answered by this line
            self._refuse(f"not sent, for there is a question first: {text}")
        elif self._session.status().turn_open:
            await self._steer(text)
        else:
            await self._session.prompt(text)

    async def _command(self, name: str, rest: str) -> None:
        match name, rest.strip():
            case "/help", _:
                self._say(HELP)
            case "/status", _:
                self._terminal.show(described(self._session.status()))
            case "/quit" | "/exit", _:
                self._leave()
            case "/model", "":
                self._say(f"  model: {self._session.status().model}; /model NAME uses another")
            case "/model", model:
                await self._session.switch_model(model)
            case "/steer", "":
                self._say("  /steer TEXT, or /steer now TEXT")
            case "/steer", said:
                now, _, more = said.partition(" ")
                urgent = now == "now" and bool(more)
                await self._steer(more if urgent else said, when="now" if urgent else "gap")
            case _:
                self._refuse(f"there is no {name}; /help tells what there is")

    async def _steer(self, text: str, *, when: When = "gap") -> None:
        with suppress(SteeringQueueFull):  # the event `SteeringReceived` shows it already
            await self._session.steer(text, when=when)

    def _refuse(self, why: str) -> None:
        self._well = False
        self._say(f"✗ {why}", Tone.BAD)

    def _say(self, text: str, tone: Tone = Tone.PLAIN) -> None:
        self._terminal.show((line(text, tone),))

    # From outside

    async def _obey(self, signals: AsyncIterator[int]) -> None:
        """Handle signals: set up the terminal again after a stop by job control, leave, or interrupt (Ctrl-C)."""
        async for number in signals:
            if number in CONTINUED:
                self._terminal.resume()
            elif number in LEAVING:
                self._leave()
            else:
                await self._interrupt()

    async def _interrupt(self) -> None:
        """Handle Ctrl-C: abort the running turn, or leave if it is the second one in a row.

        If no turn runs, drop the typed text, or leave if there is none.
        """
        again = trio.current_time() - self._interrupted < AGAIN
        self._interrupted = trio.current_time()
        typed = self._terminal.drop_typed()
        if self._session.status().phase == "idle" and not self._session.status().turn_open:
            again = again or not typed
        elif not again:
            self._say("  stopping; Ctrl-C again leaves", Tone.DIM)
            self._answering.forget()
            await self._session.abort()
        if again:
            self._leave()
