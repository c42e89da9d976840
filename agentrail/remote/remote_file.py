"""`RemoteFile`: a file that the agent of a session at a host wrote, and the way to its content."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Final

from agentrail.api.views import FilePieceView, WrittenFileView
from agentrail.errors import FileFailed, HostFailed
from agentrail.reprs import in_brackets

CHANGED: Final = "it was changed meanwhile; read it again"


class RemoteFile:
    """A file that an agent wrote, as its host has listed it."""

    __slots__ = ("_get_piece", "media_type", "path", "size")

    def __init__(self, view: WrittenFileView, get_piece: Callable[[str, int], Awaitable[FilePieceView]]) -> None:
        self.path: Final = view.path
        """Its path in the folder of the agent."""
        self.size: Final = view.size
        """Its size in bytes when it was listed."""
        self.media_type: Final = view.media_type
        """What its content is: an image, a PDF, plain text, or `application/octet-stream`."""
        self._get_piece = get_piece
        """Returns the piece of the file at a path, from an offset on."""

    @in_brackets
    def __repr__(self) -> str:
        return f"{self.path!r} of {self.size} bytes"

    async def read(self) -> bytes:
        """Return the content as it is now; raise `FileFailed` if it changes meanwhile."""
        content = bytearray()
        piece = first = await self._get_piece(self.path, 0)
        while data := _bytes_in(piece):
            content += data
            if len(content) >= first.size:
                break
            piece = await self._get_piece(self.path, len(content))
        if sha256(content).hexdigest() != first.sha256:
            raise FileFailed("read", self.path, CHANGED)
        return bytes(content)


def _bytes_in(piece: FilePieceView) -> bytes:
    """Return the bytes of a piece of a file; raise `HostFailed` if it has no base64."""
    try:
        return a2b_base64(piece.data, strict_mode=True)
    except ValueError as error:
        problem_text = "a piece of a file that it sent is no base64"
        raise HostFailed(problem_text) from error
