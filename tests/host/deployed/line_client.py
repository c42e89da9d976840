"""A client of a deployed host that uses the one of this library, over a WebSocket, and keeps the same log."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack

import msgspec
import trio
from attrs import define, field

import agentrail
from agentrail import RemoteSession, RemoteSupervisor
from agentrail.errors import HostNotReached, JournalFailed, NothingWritten, SessionHeld, WaitsForJournal
from agentrail.events import Cursor, Envelope, Gap
from tests.host.deployed.client import Client, Heard

TRY_AGAIN = (JournalFailed, NothingWritten, SessionHeld, WaitsForJournal)
"""Errors of a host that the database or another host is cut off from; the same command may be sent again."""


@define(slots=False)
class LineClient(Client):
    """One user's client of one session, which goes on by itself after each cut."""

    handle: RemoteSession = field(init=False)
    """The session, as the library has it."""
    errors: Counter[str] = field(factory=Counter)
    """How often it met each class of errors after which it tried again."""

    async def use(self) -> None:
        async with AsyncExitStack() as stack:
            host = await self._connected(stack)
            self.handle = await host.spawn("desk", self.session, command="open")
            await self.take_turns()

    async def _connected(self, stack: AsyncExitStack) -> RemoteSupervisor:
        """Connect until *stack* ends; the first attempt is the program's, and may meet a host that is killed."""
        while True:
            try:
                line = agentrail.connect(f"http://127.0.0.1:{self.port}", self.key, patience=120)
                return await stack.enter_async_context(line)
            except HostNotReached:
                await trio.sleep(0.02)

    async def say(self, text: str) -> str:
        while True:
            try:
                return (await self.handle.prompt(text, command=text.replace(" ", "-"))).ref
            except TRY_AGAIN as error:
                self.errors[type(error).__name__] += 1
                await trio.sleep(0.1)

    async def listen(self) -> None:
        while True:
            since = Cursor(*self.heard[-1].cursor) if self.heard else 0
            try:
                async with self.handle.subscribe(since=since) as events:
                    async for envelope in events:
                        self._note(envelope)
                raise AssertionError("the events have ended, and the session has not")
            except TRY_AGAIN as error:
                self.errors[type(error).__name__] += 1
                await trio.sleep(0.1)

    def _note(self, envelope: Envelope) -> None:
        event, (seq, part) = envelope.event, envelope.cursor
        if not isinstance(event, Gap):
            fields = msgspec.structs.asdict(event)  # an event warns of an attribute that it does not have
            self.hear(Heard((seq, part), type(event).__name__, fields.get("ref"), fields.get("approval_id", "")))
