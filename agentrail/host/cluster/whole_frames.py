"""`WholeFrames`: puts the frames of a stream of events together again, which comes in pieces of any length."""

from __future__ import annotations

from typing import Final

from agentrail.host.cluster.holder_connection import HolderUnfitError

END_OF_FRAME: Final = b"\n\n"

FRAME_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of a frame: it may have messages with images in them."""


class WholeFrames:
    """Keeps what has come of the next frame; each piece is looked at once, however long the frame is."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, piece: bytes) -> bytes:
        """Return the frames that are whole now that *piece* has come, with their ends; empty if there are none.

        Raise `HolderUnfitError` if one is too large.
        """
        before = max(len(self._kept) - len(END_OF_FRAME) + 1, 0)
        self._kept += piece
        last = self._kept.rfind(END_OF_FRAME, before)
        if last < 0:
            if len(self._kept) > FRAME_BYTES:
                raise HolderUnfitError
            return b""
        end = last + len(END_OF_FRAME)
        whole = bytes(self._kept[:end])
        del self._kept[:end]
        return whole

    def rest(self) -> bytes:
        """Return what has come after the last whole frame."""
        return bytes(self._kept)
