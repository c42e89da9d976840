"""Answers that come packed although plain bytes were asked for: servers in between pack what they like."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from agentrail.adapters.models.provider_errors import SHOWN
from agentrail.errors import EncodingRefused, StreamGarbled

PLAIN: Final = "identity"

PACKED: Final = frozenset({"gzip", "x-gzip", "deflate"})
"""The encodings that are read."""

MOST: Final = 64 * 1024 * 1024
"""Bytes that one answer may unpack to: a few kilobytes can hold gigabytes."""

SLICE: Final = 64 * 1024
"""Bytes that are unpacked at once, so that the event loop is not held up."""

ANY_ZLIB: Final = 32 + zlib.MAX_WBITS
"""Tells zlib to find out by itself whether the data is gzip or deflate."""


class Unpacker:
    """Unpacks one answer piece by piece; plain bytes pass as they are, and other encodings are `EncodingRefused`."""

    __slots__ = ("_left", "_most", "_unpack")

    def __init__(self, encoding: str, most: int = MOST) -> None:
        if encoding not in PACKED | {PLAIN}:
            problem = f"it is encoded as `{encoding[:SHOWN]}`, and plain text was asked for"
            raise EncodingRefused(problem)
        self._unpack = None if encoding == PLAIN else zlib.decompressobj(wbits=ANY_ZLIB)
        self._most = self._left = most

    def pieces(self, packed: bytes) -> Iterator[bytes]:
        """Return what *packed* holds, in slices; raise `StreamGarbled` if it cannot be unpacked or is too much."""
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
        """Return the next unpacked bytes, and the packed ones that are left."""
        unpack = self._unpack
        if unpack is None or unpack.eof:  # a server may write one packed text after the other
            unpack = self._unpack = zlib.decompressobj(wbits=ANY_ZLIB)
        try:
            piece = unpack.decompress(packed, SLICE)
        except zlib.error as error:
            problem = f"it is said to be packed, and cannot be unpacked: {error}"
            raise StreamGarbled(problem) from None
        return piece, unpack.unused_data if unpack.eof else unpack.unconsumed_tail
