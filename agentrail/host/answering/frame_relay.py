"""`FrameRelay`: hands the frames of a turn from the task that follows it to the connection, as many at once as wait."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import trio

MOST_WAITING: Final = 64 * 1024
"""Bytes that may wait for a client before the task that follows its turn waits for it."""


class FrameRelay:
    """Frames on their way to one client: one task puts them, and one takes all that are there.

    A memory channel would hand over each frame by itself, which takes a task switch and a write to the socket.
    """

    __slots__ = ("_changed", "_is_left", "_waiting", "has_ended")

    def __init__(self) -> None:
        self._waiting = b""
        self.has_ended = False
        """Whether no more frames come than those that wait."""
        self._is_left = False  # nobody takes any more
        self._changed = trio.lowlevel.ParkingLot()

    def put_now(self, frames: bytes) -> bool:
        """Add *frames* if there is room, and return whether there was.

        Raise `BrokenResourceError` if nobody takes them any more. There is room for frames of any size when none wait.
        """
        if self._is_left:
            raise trio.BrokenResourceError
        if self._waiting and len(self._waiting) + len(frames) > MOST_WAITING:
            return False
        self._waiting += frames
        self._changed.unpark_all()
        return True

    async def put(self, frames: bytes) -> None:
        """Add *frames* as soon as there is room; raise as `put_now` does."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self.put_now(frames):
            await self._changed.park()

    async def take(self) -> bytes:
        """Wait for frames, and return all that are there; none at the end."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not (self._waiting or self.has_ended):
            await self._changed.park()
        return self.take_now()

    def take_now(self) -> bytes:
        """Return all frames that are there; none if none wait."""
        frames, self._waiting = self._waiting, b""
        self._changed.unpark_all()
        return frames

    def end(self) -> None:
        """Tell who takes frames that no more come."""
        self.has_ended = True
        self._changed.unpark_all()

    @contextmanager
    def ending(self) -> Generator[None]:
        """Tell who takes frames, at the end of the `with`, that no more come."""
        try:
            yield
        finally:
            self.end()

    @contextmanager
    def taking(self) -> Generator[None]:
        """Tell who puts frames, at the end of the `with`, that nobody takes any more."""
        try:
            yield
        finally:
            self._is_left = True
            self._changed.unpark_all()
