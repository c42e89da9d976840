"""`TenantRooms`: how many sessions each tenant may still open, without listing those that there are each time."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

import trio

from agentrail.errors import TooManySessions

COUNTED_FOR: Final = 1.0
"""Seconds until sessions are counted again, as another process may open some in the same journal."""

KEPT: Final = 64
"""The counts of how many tenants are kept when none of their sessions is being opened."""


class TenantRooms:
    """The room that tenants have for new sessions: *count* counts those of one that have not ended, up to *most*."""

    def __init__(self, most: int, count: Callable[[str], Awaitable[int]]) -> None:
        self._most = most
        self._count = count
        self._rooms: WeakValueDictionary[str, _Room] = WeakValueDictionary()  # kept while in use, and those below
        self._kept: deque[_Room] = deque(maxlen=KEPT)

    @asynccontextmanager
    async def taken(self, tenant: str) -> AsyncGenerator[None, None]:
        """Let one session of *tenant* start; raise `TooManySessions` if it has too many. Several start at once."""
        room = self._rooms.setdefault(tenant, _Room())
        if room not in self._kept:
            self._kept.append(room)
        await self._take(tenant, room)
        try:
            yield
        finally:
            room.leave()

    async def _take(self, tenant: str, room: _Room) -> None:
        async with room.door:
            if room.most_there >= self._most or trio.current_time() >= room.counted + COUNTED_FOR:
                await room.wait_quiet()  # those that start are listed or not; afterwards each is
                now = trio.current_time()
                room.most_there = await self._count(tenant)
                room.counted = now
            if room.most_there >= self._most:
                raise TooManySessions(self._most)
            room.take()


class _Room:
    """The sessions of a tenant: those counted, and those opened since. The ones that have ended since are no matter."""

    def __init__(self) -> None:
        self.door = trio.Lock()
        self.most_there = 0
        self.counted = float("-inf")
        self._starting = 0
        self._quiet = trio.Event()

    def take(self) -> None:
        """Note that a session starts. It counts from now on, even if it then fails."""
        self.most_there += 1
        self._starting += 1

    def leave(self) -> None:
        """Note that a session has started, or has not after all."""
        self._starting -= 1
        if not self._starting:
            self._quiet.set()
            self._quiet = trio.Event()

    async def wait_quiet(self) -> None:
        """Wait until no session starts. The caller holds the door, so that none begins to."""
        if self._starting:
            await self._quiet.wait()
