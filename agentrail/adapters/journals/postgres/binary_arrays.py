"""Arrays as PostgreSQL has them on the line: psycopg would look at each element, which takes longer than the rest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import Final, cast

from psycopg import Connection
from psycopg.adapt import Dumper
from psycopg.pq import Format

HEAD: Final = Struct("!5i")
"""Dimensions, whether there are NULLs, number of the elements' type; size and first index of the dimension."""

LENGTH: Final = Struct("!i")
NUMBER: Final = Struct("!iq")
NULL: Final = LENGTH.pack(-1)


class BinaryArray(bytes):
    """An array, as it is sent."""


class NumberArray(BinaryArray):
    """A `bigint[]`."""


class BytesArray(BinaryArray):
    """A `bytea[]`."""


class TextArray(BinaryArray):
    """A `text[]`."""


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: bytes) -> bytes:
        return obj


class _NumberArrayDumper(_ArrayDumper):
    oid = 1016


class _BytesArrayDumper(_ArrayDumper):
    oid = 1001


class _TextArrayDumper(_ArrayDumper):
    oid = 1009


def register_arrays(connection: Connection[tuple[object, ...]]) -> None:
    """Let *connection* send arrays as they are."""
    connection.adapters.register_dumper(NumberArray, _NumberArrayDumper)
    connection.adapters.register_dumper(BytesArray, _BytesArrayDumper)
    connection.adapters.register_dumper(TextArray, _TextArrayDumper)


def array_of(type_: str, values: Sequence[object]) -> BinaryArray:
    """Return *values* as an array; *type_* is one of those of `InsertedColumns`."""
    if type_ == "NUMBER":
        return NumberArray(_numbers(cast("Sequence[int | None]", values)))
    if type_ == "text":
        return TextArray(_array(25, [cast("str", value).encode() for value in values]))
    return BytesArray(_array(17, cast("Sequence[bytes | None]", values)))


def _numbers(values: Sequence[int | None]) -> bytes:
    if None not in values:
        lengths_and_values = chain.from_iterable([(8, value) for value in values])
        return _numbers_without_null(len(values)).pack(1, 0, 20, len(values), 1, *lengths_and_values)
    return _array(20, [None if value is None else NUMBER.pack(8, value)[4:] for value in values])


@lru_cache(1024)
def _numbers_without_null(count: int) -> Struct:
    return Struct(f"!5i{'iq' * count}")


def _array(type_: int, values: Sequence[bytes | None]) -> bytes:
    parts = [HEAD.pack(1, None in values, type_, len(values), 1)]
    for value in values:
        parts += (NULL,) if value is None else (LENGTH.pack(len(value)), value)
    return b"".join(parts)
