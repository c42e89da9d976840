"""`MessageSocket`: an open WebSocket as a conversation sees it: messages, whichever server carries them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias


class SocketClosed(Exception):  # noqa: N818 - it is no failure of ours
    """The WebSocket is closed, by either side, or the connection is broken."""


class MessageSocket(ABC):
    """An open WebSocket, the side of the host; `opened` runs its reader."""

    @property
    @abstractmethod
    def sent(self) -> int:
        """How many bytes were sent."""

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[None]:
        """Answer the handshake, and read what the client sends until the `async with` is left."""

    @abstractmethod
    async def receive(self) -> str | bytes:
        """Return the next message; raise `SocketClosed` if none comes any more."""

    @abstractmethod
    def send_now(self, messages: Sequence[bytes]) -> bool:
        """Send texts, if all of them can be sent without waiting; return whether they were.

        Otherwise, `send` them before any others.
        """

    @abstractmethod
    async def send(self, messages: Sequence[bytes]) -> None:
        """Send texts; raise `SocketClosed` if that is not possible any more."""

    @abstractmethod
    async def ping(self) -> None:
        """Return when the client has answered a ping; raise `SocketClosed` if it cannot."""

    @abstractmethod
    async def close(self, code: int, reason: str) -> None:
        """Close the WebSocket, and wait until the client has done so; no-op if it is closed."""


Conversation: TypeAlias = Callable[[MessageSocket], Awaitable[None]]
"""Talks with the client of a WebSocket until either side ends it."""
