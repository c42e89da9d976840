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
    """The room that tenants have for new sessions: at most *most* of one, whose ids *find* finds, may be open."""

    def __init__(self, most: int, find: Callable[[str], Awaitable[frozenset[str]]]) -> None:
        self._most = most
        self._find = find
        self._rooms: WeakValueDictionary[str, _Room] = WeakValueDictionary()  # kept while in use, and those below
        self._kept: deque[_Room] = deque(maxlen=KEPT)

    @asynccontextmanager
    async def taken(self, tenant: str, session_id: str) -> AsyncGenerator[None, None]:
        """Let a session of *tenant* start; raise `TooManySessions` if it has too many.

        Several start at once. One that starts holds up others only if they have no room unless it fails.
        """
        room = self._rooms.setdefault(tenant, _Room())
        if room not in self._kept:
            self._kept.append(room)
        await self._take(tenant, room, session_id)
        try:
            yield
        finally:
            room.leave(session_id)

    async def _take(self, tenant: str, room: _Room, session_id: str) -> None:
        async with room.door:
            if room.most_there >= self._most or trio.current_time() >= room.counted + COUNTED_FOR:
                await self._count(tenant, room)
            if room.most_there >= self._most:
                raise TooManySessions(self._most)
            room.take(session_id)

    async def _count(self, tenant: str, room: _Room) -> None:
        """Count the sessions of *tenant*; if there is room only if one that starts fails, wait whether it does."""
        while True:
            starting = frozenset(room.starting)  # none begins to: the caller holds the door
            now = trio.current_time()
            room.most_there = len(starting | await self._find(tenant))  # one that starts is found or not
            room.counted = now
            if room.most_there < self._most or not starting:
                return
            await room.wait_left(starting)


class _Room:
    """The sessions of a tenant: those counted, and those opened since. The ones that have ended since are no matter."""

    def __init__(self) -> None:
        self.door = trio.Lock()
        self.most_there = 0
        self.counted = float("-inf")
        self.starting = set[str]()
        self._left = trio.Event()

    def take(self, session_id: str) -> None:
        """Note that a session starts. It counts from now on, even if it then fails."""
        self.most_there += 1
        self.starting.add(session_id)

    def leave(self, session_id: str) -> None:
        """Note that a session has started, or has not after all."""
        self.starting.remove(session_id)
        self._left.set()
        self._left = trio.Event()

    async def wait_left(self, starting: frozenset[str]) -> None:
        """Wait until one of the sessions *starting* has started, or has not after all."""
        if self.starting >= starting:
            await self._left.wait()
