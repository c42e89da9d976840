"""The checksums of stored rows: over the columns of a row, its body, and the checksum of the record before it."""

from __future__ import annotations

from typing import Final

import msgspec

from agentrail.adapters.journals.packing import check_of

as_bytes: Final = msgspec.msgpack.Encoder().encode
"""Returns columns as bytes for a checksum: what differs in value or type has other bytes, and it takes least time."""


def is_next(before: bytes, outside: bytes, body: bytes, check: bytes, sealed: bytes | None) -> bool:
    """Whether a record is unchanged, and follows the record with the checksum *before*.

    *outside* are its other columns, *check* is its checksum, and *sealed* that of a redacted one as it is now.
    """
    # the type is checked too: one changed bit can turn a blob into text
    if type(body) is not bytes or type(before) is not bytes:
        return False
    if sealed is not None:
        return check_of(before + check, outside, body) == sealed
    return check_of(before, outside, body) == check


def check_of_snapshot(behind: bytes, beside: tuple[str, int, int, str], body: bytes) -> bytes:
    """Return the checksum of a snapshot: over its record's checksum *behind*, the columns *beside*, and *body*."""
    return check_of(behind, as_bytes(beside), body)
