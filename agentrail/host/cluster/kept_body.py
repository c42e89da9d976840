"""`KeptBody`: the body of a request that is carried out more than once: here, or at another host."""

from __future__ import annotations

from agentrail.host.requests.http_messages import Body, WrappedBody


class KeptBody(WrappedBody):
    """A body that can be read again."""

    __slots__ = ("_at", "_pieces")

    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self._pieces: list[bytes] = []
        self._at = 0

    def rewind(self) -> None:
        """Let the next reader begin with the first piece."""
        self._at = 0

    async def chunk(self) -> bytes:
        """Return the next piece; one that was read before comes from memory."""
        if self._at == len(self._pieces):
            self._pieces.append(await self._body.chunk())
        piece = self._pieces[self._at]
        if piece:
            self._at += 1
        return piece
