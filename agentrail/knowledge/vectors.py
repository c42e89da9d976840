"""Vectors as bytes, and the ones nearest to another by numpy."""

from __future__ import annotations

import math
import sqlite3
import sys
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_DIMENSIONS: Final = 16_384
"""The most numbers of a vector."""


def packed(vector: Sequence[float]) -> bytes:
    """Return *vector* with the length 1, as little-endian numbers of four bytes; raise `ValueError` if it has none."""
    length = math.hypot(*vector)
    if not math.isfinite(length) or length == 0:
        problem = "a vector is zero, or has a number that is not finite"
        raise ValueError(problem)
    numbers = array("f", [number / length for number in vector])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


class _Loaded(NamedTuple):
    """The vectors of a store."""

    db: sqlite3.Connection
    """The connection by which they were read. The next one may count changes alike, although it is to another file."""
    version: int
    """SQLite's number of changes by other connections at that time."""
    ids: NDArray[np.int64]
    """The ids of the chunks."""
    matrix: NDArray[np.float32]
    """A row for each chunk."""


class Vectors:
    """The vectors of a store in memory, read anew when another connection has written."""

    def __init__(self) -> None:
        self._loaded: _Loaded | None = None
        """Replaced whole: `forget` may be called while another thread searches."""

    def nearest(self, db: sqlite3.Connection, vector: bytes, limit: int, least: float) -> list[int]:
        """Return the ids of at most *limit* chunks, the most similar to *vector* first, of a cosine of *least* or more.

        *db* reads within a transaction. Raise `ValueError` if the vectors are of another length.
        """
        import numpy as np  # noqa: PLC0415 - it takes long, and only meaning needs it

        _, _, ids, matrix = self._read(db)
        if not len(ids):
            return []
        query = np.frombuffer(vector, dtype="<f4")
        if query.shape[0] != matrix.shape[1]:
            problem = f"the vector of the query has {query.shape[0]} numbers, and those of the store {matrix.shape[1]}"
            raise ValueError(problem)
        # `@` would start threads, which wait for each other where other work runs, and cost more than they save
        cosines: NDArray[np.float32] = np.vecdot(matrix, query)
        count = min(limit, len(cosines))
        top = np.argpartition(-cosines, count - 1)[:count]
        ranked = sorted((-float(cosines[index]), int(ids[index])) for index in top)
        return [chunk for distance, chunk in ranked if -distance >= least]

    def forget(self) -> None:
        """Let go of the vectors in memory."""
        self._loaded = None

    def _read(self, db: sqlite3.Connection) -> _Loaded:
        import numpy as np  # noqa: PLC0415 - it takes long, and only meaning needs it

        (version,) = db.execute("PRAGMA data_version").fetchone()
        loaded = self._loaded
        if loaded is not None and loaded.db is db and loaded.version == version:
            return loaded
        rows = db.execute("SELECT id, vector FROM chunk WHERE vector IS NOT NULL").fetchall()
        lengths = {len(blob) if isinstance(blob, bytes) else 0 for _, blob in rows}
        if rows and (len(lengths) != 1 or max(lengths) % 4 or not max(lengths)):
            problem = "its vectors have several lengths; make them anew by `agentrail knowledge rebuild`"
            raise sqlite3.DatabaseError(problem)
        ids = np.array([chunk for chunk, _ in rows], dtype=np.int64)
        data = np.frombuffer(b"".join([blob for _, blob in rows]), dtype="<f4")
        self._loaded = loaded = _Loaded(db, version, ids, data.reshape(len(rows), -1) if rows else data)
        return loaded
