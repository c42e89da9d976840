"""`SessionQuota`: limits the sessions of each tenant, without counting the stored ones each time."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

import trio

from agentrail.errors import RefusedError

COUNTED_FOR: Final = 1.0
"""Seconds until sessions are counted again, as another process may open some in the same journal."""

KEPT: Final = 64
"""The counts of how many tenants are kept when none of their sessions is being opened."""


class SessionQuota:
    """Limits each tenant to *most* open sessions; *find* returns the ids of a tenant's open sessions."""

    def __init__(self, most: int, find: Callable[[str], Awaitable[frozenset[str]]]) -> None:
        self._most = most
        self._find = find
        self._counts: WeakValueDictionary[str, _SessionCount] = (
            WeakValueDictionary()
        )  # entries live while in use, or in `_kept`
        self._kept: deque[_SessionCount] = deque(maxlen=KEPT)

    @asynccontextmanager
    async def reserve(self, tenant: str, session_id: str) -> AsyncGenerator[None, None]:
        """Reserve a place for a session of *tenant* while it starts; raise `RefusedError` if the quota is used up.

        Several may start at once. If starting sessions hold the last places, a further one waits whether one of them
        fails.
        """
        room = self._counts.setdefault(tenant, _SessionCount())
        if room not in self._kept:
            self._kept.append(room)
        await self._reserve(tenant, room, session_id)
        try:
            yield
        finally:
            room.leave(session_id)

    async def _reserve(self, tenant: str, room: _SessionCount, session_id: str) -> None:
        async with room.lock:
            if room.upper_bound >= self._most or trio.current_time() >= room.counted_at + COUNTED_FOR:
                await self._count(tenant, room)
            if room.upper_bound >= self._most:
                raise RefusedError("too-many-sessions", self._most)
            room.take(session_id)

    async def _count(self, tenant: str, room: _SessionCount) -> None:
        """Count the open sessions of *tenant*; if the last places are held by starting ones, wait whether one fails."""
        while True:
            starting = frozenset(room.starting)  # none begins to start: the caller holds the tenant's lock
            now = trio.current_time()
            # a session that is starting may be among the found ones, or not yet
            room.upper_bound = len(starting | await self._find(tenant))
            room.counted_at = now
            if room.upper_bound < self._most or not starting:
                return
            await room.wait_started(starting)


class _SessionCount:
    """An upper bound of the open sessions of a tenant: those counted last, and those opened since."""

    def __init__(self) -> None:
        self.lock = trio.Lock()
        self.upper_bound = 0
        self.counted_at = float("-inf")
        self.starting = set[str]()
        self._left = trio.Event()

    def take(self, session_id: str) -> None:
        """Note that a session starts. It counts from now on, even if its start fails."""
        self.upper_bound += 1
        self.starting.add(session_id)

    def leave(self, session_id: str) -> None:
        """Note that a session has started, or has failed to."""
        self.starting.remove(session_id)
        self._left.set()
        self._left = trio.Event()

    async def wait_started(self, starting: frozenset[str]) -> None:
        """Wait until one of the sessions *starting* has started, or has failed to."""
        if self.starting >= starting:
            await self._left.wait()
