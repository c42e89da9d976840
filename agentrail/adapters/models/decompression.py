"""Unpacks compressed HTTP answers. Uncompressed ones are asked for, but proxies may compress them all the same."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from agentrail.adapters.models.provider_errors import SHOWN
from agentrail.errors import EncodingRefused, StreamGarbled

PLAIN: Final = "identity"

PACKED: Final = frozenset({"gzip", "x-gzip", "deflate"})
"""The values of `Content-Encoding` that can be unpacked."""

MOST: Final = 64 * 1024 * 1024
"""The most bytes that one answer may unpack to, by default; more raise `StreamGarbled`.

Without a limit, a few kilobytes could become gigabytes in memory.
"""

SLICE: Final = 64 * 1024
"""The most bytes that are unpacked in one step, so that the event loop is not blocked for long."""

ANY_ZLIB: Final = 32 + zlib.MAX_WBITS
"""The `wbits` with which zlib detects by itself whether the data is gzip or deflate."""


class Unpacker:
    """Unpacks the body of one answer piece by piece.

    Uncompressed bytes pass unchanged. An encoding that is not in `PACKED` raises `EncodingRefused`.
    """

    __slots__ = ("_left", "_most", "_unpack")

    def __init__(self, encoding: str, most: int = MOST) -> None:
        if encoding not in PACKED | {PLAIN}:
            problem = f"it is encoded as `{encoding[:SHOWN]}`, and plain text was asked for"
            raise EncodingRefused(problem)
        self._unpack = None if encoding == PLAIN else zlib.decompressobj(wbits=ANY_ZLIB)
        self._most = self._left = most

    def pieces(self, packed: bytes) -> Iterator[bytes]:
        """Yield the unpacked bytes of *packed*, in slices; raise `StreamGarbled` if it is damaged or too large."""
        if self._unpack is None:
            yield packed
            return
        while packed:
            piece, packed = self._slice(packed)
            self._left -= len(piece)
            if self._left < 0:
                problem = f"it unpacks to more than {self._most:,} bytes"
                raise StreamGarbled(problem)
            if piece:
                yield piece

    def _slice(self, packed: bytes) -> tuple[bytes, bytes]:
        """Return the next unpacked bytes, and the packed bytes that remain."""
        unpack = self._unpack
        if unpack is None or unpack.eof:  # a server may send several compressed texts, one after another
            unpack = self._unpack = zlib.decompressobj(wbits=ANY_ZLIB)
        try:
            piece = unpack.decompress(packed, SLICE)
        except zlib.error as error:
            problem = f"it is said to be packed, and cannot be unpacked: {error}"
            raise StreamGarbled(problem) from None
        return piece, unpack.unused_data if unpack.eof else unpack.unconsumed_tail
