"""`CallSnapshots`: snapshots of a session's files before and after its calls, so that what they changed comes back.

All calls of a session that run at the same time share one span after the other: what changes while one of them runs is
theirs. A call whose snapshots cannot be taken runs all the same; what it changes counts as somebody else's.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio

from agentrail.errors import AgentrailError, Busy
from agentrail.ports.snapshots import FilesSnapshot, Snapshots
from agentrail.runtime.shared.untrusted_calls import traced
from agentrail.values.rewinds import FileSpan

log = logging.getLogger("agentrail.tool")

TOO_LARGE: Final = "snapshot-too-large"
"""Code of the error of a folder that has too many files."""


class CallSnapshots:
    """The snapshots of one session."""

    __slots__ = ("_complained", "_is_too_large", "_last", "_lock", "_running", "is_rewinding", "owner", "snapshots")

    def __init__(self, snapshots: Snapshots, owner: str) -> None:
        self.snapshots = snapshots
        self.owner = owner
        """For whom they are taken: see `snapshot_owner`."""
        self.is_rewinding = False
        """Whether files are brought back now, and not yet in a record."""
        self._running = 0
        """How many calls have begun and not ended."""
        self._last: FilesSnapshot | None = None
        """The last snapshot since the first of them began; `None` if it could not be taken."""
        self._complained = False
        """Whether it was logged that a snapshot cannot be taken."""
        self._is_too_large = False
        """Whether the folder has too many files: it is not looked at again, which takes long."""
        self._lock = trio.Lock()

    async def settle(self) -> None:
        """Wait until files that are brought back now are in a record, too."""
        async with self._lock:
            pass

    async def begin(self) -> None:
        """Take a snapshot before a call, unless another call runs; wait while files are brought back."""
        async with self._lock:
            if not self._running:
                self._last = await self._take()
            self._running += 1

    async def end(self) -> FileSpan | None:
        """Take a snapshot after a call; return what it lay between, or `None` if one of the two was not taken."""
        async with self._lock:
            self._running -= 1
            first, self._last = self._last, await self._take()
        return None if first is None or self._last is None else FileSpan(first.id, self._last.id)

    @asynccontextmanager
    async def no_calls(self) -> AsyncGenerator[None]:
        """Let no call begin within this block; raise `Busy` if one runs."""
        async with self._lock:
            if self._running:
                raise Busy("bring back files")
            self.is_rewinding = True
            try:
                yield
            finally:
                self.is_rewinding = False

    async def _take(self) -> FilesSnapshot | None:
        """Take a snapshot; `None` if it cannot be taken, which is logged once."""
        if self._is_too_large:
            return None
        try:
            return await self.snapshots.take(self.owner)
        except Exception as error:  # noqa: BLE001 - of a sandbox of somebody else, too; the call is to run all the same
            self._is_too_large = isinstance(error, AgentrailError) and error.code == TOO_LARGE
            if not self._complained:
                why = error if isinstance(error, AgentrailError) else traced(error)
                session_id = self.owner.partition("/")[0]
                log.warning("session %s works without snapshots of its files: %s", session_id, why)
            self._complained = True
            return None
