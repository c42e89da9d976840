"""The checksums of stored rows: over the columns of a row, its body, and the checksum of the record before it."""

from __future__ import annotations

from itertools import zip_longest
from typing import Final, Protocol, TypeVar

import msgspec

from agentrail.adapters.journals.packing import NO_CHECK, checksum_of
from agentrail.errors import BadRecord

LOST: Final = "it is lost"
CHANGED: Final = "it has changed since it was written"

as_bytes: Final = msgspec.msgpack.Encoder().encode
"""Returns columns as bytes for a checksum: what differs in value or type has other bytes, and it takes least time."""


def is_next(previous: bytes, columns: bytes, body: bytes, check: bytes, sealed: bytes | None) -> bool:
    """Whether a record is unchanged, and follows the record with the checksum *previous*.

    *columns* are its other ones, *check* is its checksum, and *sealed* that of a redacted one as it is now.
    """
    # the type is checked too: one changed bit can turn a blob into text
    if type(body) is not bytes or type(previous) is not bytes:
        return False
    if sealed is not None:
        return checksum_of(previous + check, columns, body) == sealed
    return checksum_of(previous, columns, body) == check


class ChainedRow(Protocol):
    """A stored record."""

    @property
    def number(self) -> int:
        """Number of the record."""
        ...

    @property
    def check(self) -> bytes:
        """Checksum of the record."""
        ...

    def follows(self, previous: bytes) -> bool:
        """Whether the record is unchanged, and follows the record with the checksum *previous*."""
        ...


class ChainEnd(Protocol):
    """What is stored of a session about its last record."""

    @property
    def id(self) -> str:
        """Id of the session."""
        ...

    @property
    def head(self) -> int:
        """Number of the last record."""
        ...

    @property
    def check(self) -> bytes:
        """Checksum of the last record."""
        ...


RowT = TypeVar("RowT", bound=ChainedRow)


def check_chain(end: ChainEnd, rows: list[RowT], first: int, last: int) -> list[RowT]:
    """Return the records from number *first* to *last*; raise `BadRecord` if one is damaged or lost.

    *rows* are those that were found, from the one before *first* on.
    """
    previous = rows.pop(0).check if first > 1 and rows and rows[0].number == first - 1 else NO_CHECK
    for number, row in zip_longest(range(first, last + 1), rows):
        if row is None or row.number != number:
            raise BadRecord(end.id, number, LOST)
        if not row.follows(previous):
            raise BadRecord(end.id, number, CHANGED)
        previous = row.check
    if last == end.head and previous != end.check:
        raise BadRecord(end.id, end.head, CHANGED)
    return rows


def checksum_of_snapshot(record_check: bytes, columns: tuple[str, int, int, str], body: bytes) -> bytes:
    """Return the checksum of a snapshot: over the checksum of its record, its other *columns*, and its *body*."""
    return checksum_of(record_check, as_bytes(columns), body)
