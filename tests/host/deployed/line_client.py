"""A client of a deployed host that uses the one of this library, over a WebSocket, and keeps the same log."""

from __future__ import annotations

from contextlib import AsyncExitStack

import trio
from attrs import define, field

import agentrail
from agentrail.errors import HostNotReached
from agentrail.remote.remote_session import RemoteSession
from agentrail.remote.remote_supervisor import RemoteSupervisor
from agentrail.values.events.plugins import Gap
from tests.host.deployed.client import Client, Heard


@define
class LineClient(Client):
    """One user's client of one session, which goes on by itself after each cut."""

    _session: RemoteSession = field(init=False)

    async def use(self) -> None:
        async with AsyncExitStack() as stack:
            host = await self._connected(stack)
            self._session = await host.spawn("desk", self.session, command="open")
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
        return (await self._session.prompt(text, command=text.replace(" ", "-"))).ref

    async def listen(self) -> None:
        async with self._session.subscribe(since=0) as events:
            async for envelope in events:
                event, (seq, part) = envelope.event, envelope.cursor
                if not isinstance(event, Gap):
                    self.hear(Heard((seq, part), type(event).__name__, getattr(event, "ref", None)))
