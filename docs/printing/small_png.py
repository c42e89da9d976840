"""`small_png`: a screenshot as a PNG with a palette, which is less than half as large; the difference is not seen."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
MOST_COLOURS: Final = 256
RGB: Final = 3
CHANNELS: Final = {2: 3, 6: 4}
"""Bytes of a pixel, by the colour type of the file."""


def small_png(content: bytes) -> bytes:
    """Return the picture *content*, an opaque PNG of 8 bits for each channel, in its 256 most frequent colours."""
    width, height, rows = _decoded(content)
    pixels = [[row[at : at + RGB] for at in range(0, len(row), RGB)] for row in rows]
    counts = Counter(pixel for row in pixels for pixel in row)
    palette = [colour for colour, _ in counts.most_common(MOST_COLOURS)]
    places = {colour: palette.index(_nearest(colour, palette)) for colour in counts}
    lines = [bytes(places[pixel] for pixel in row) for row in pixels]
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + line for line in lines), 9)
    return (
        SIGNATURE
        + _chunk(b"IHDR", head)
        + _chunk(b"PLTE", b"".join(palette))
        + _chunk(b"IDAT", data)
        + _chunk(b"IEND", b"")
    )


def _nearest(colour: bytes, palette: list[bytes]) -> bytes:
    """Return the colour of *palette* that differs least from *colour*."""
    return min(palette, key=lambda other: sum((left - right) ** 2 for left, right in zip(colour, other, strict=True)))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while at < len(content):
        (length,) = struct.unpack_from(">I", content, at)
        yield content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        at += length + 12


def _decoded(content: bytes) -> tuple[int, int, list[bytes]]:
    """Return width, height and the rows, three bytes for each pixel."""
    chunks = list(_chunks(content))
    width, height, _, colour_type = struct.unpack_from(">IIBB", chunks[0][1])
    channels = CHANNELS[colour_type]
    data = zlib.decompress(b"".join(piece for kind, piece in chunks if kind == b"IDAT"))
    size = width * channels
    before, rows = bytes(size), list[bytes]()
    for number in range(height):
        start = number * (size + 1)
        before = _unfiltered(data[start], data[start + 1 : start + 1 + size], before, channels)
        rows.append(before)
    if channels == RGB:
        return width, height, rows
    return width, height, [bytes(value for at, value in enumerate(row) if at % channels < RGB) for row in rows]


def _unfiltered(filter_type: int, line: bytes, before: bytes, channels: int) -> bytes:
    """Undo the filter of a row (PNG, section 9.2), where *before* is the row above."""
    row = bytearray(line)
    for at, value in enumerate(line):
        left = row[at - channels] if at >= channels else 0
        above = before[at]
        corner = before[at - channels] if at >= channels else 0
        guess = (0, left, above, (left + above) // 2, _paeth(left, above, corner))[filter_type]
        row[at] = (value + guess) & 255
    return bytes(row)


def _paeth(left: int, above: int, corner: int) -> int:
    estimate = left + above - corner
    return min((left, above, corner), key=lambda value: abs(estimate - value))
