"""Makes records from consecutive rows of a session, with the messages of earlier records that they refer to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from agentrail.adapters.journals.packing import PackedRecord, UnpackError, unpack, unpack_messages
from agentrail.errors import BadRecord
from agentrail.ports.journal import Record
from agentrail.values.messages import Message


class NumberedRow(Protocol):
    """What all rows of records have."""

    @property
    def session(self) -> str:
        """Id of the session."""
        ...

    @property
    def number(self) -> int:
        """Number of the record."""
        ...


R = TypeVar("R", bound=NumberedRow)


def load_rows(
    rows: Sequence[R], packed: Callable[[R], PackedRecord], find: Callable[[int, int], Sequence[R]]
) -> tuple[Record, ...]:
    """Return the records of consecutive rows of a session; raise `BadRecord` if one cannot be read.

    *packed* returns the stored record of a row, and raises `UnpackError` if a blob is missing. *find* returns the rows
    from one number to another of the same session; it may raise `BadRecord`.
    """
    earlier = _EarlierMessages(rows, packed, find)
    records: list[Record] = []
    for row in rows:
        try:
            records.append(unpack(packed(row), row.session, row.number, earlier))
        except UnpackError as error:
            raise BadRecord(row.session, row.number, str(error)) from error
    return tuple(records)


class _EarlierMessages(Generic[R]):
    """Finds the messages of earlier records that records of a page refer to; each record is read at most once."""

    __slots__ = ("_find", "_known", "_packed", "_rows")

    def __init__(
        self, rows: Sequence[R], packed: Callable[[R], PackedRecord], find: Callable[[int, int], Sequence[R]]
    ) -> None:
        self._find = find
        self._packed = packed
        self._rows = {row.number: row for row in rows}
        self._known: dict[int, Sequence[Message] | None] = {}

    def __call__(self, number: int) -> Sequence[Message] | None:
        """Return the messages in the change of a record; `None` if it cannot be read."""
        if number not in self._known:
            if number not in self._rows:
                self._read(number)
            row = self._rows.get(number)
            self._known[number] = None
            with suppress(UnpackError):
                self._known[number] = None if row is None else unpack_messages(self._packed(row))
        return self._known[number]

    def _read(self, number: int) -> None:
        """Find a record and those after it up to the page: a turn refers to its records in their order.

        If one of them is damaged, find the record alone.
        """
        for last in (min(self._rows, default=number + 1) - 1, number):
            with suppress(BadRecord):
                rows = self._find(number, last)
                if rows:
                    self._rows.update({row.number: row for row in rows})
                    return
