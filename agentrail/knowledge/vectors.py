"""Vectors as bytes, and the ones nearest to another by numpy."""

from __future__ import annotations

import math
import sqlite3
import sys
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

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


class Vectors:
    """The vectors of a store in memory, read anew when another connection has written."""

    def __init__(self) -> None:
        self._version: int | None = None
        """SQLite's number of changes by others when the vectors were read; `None` if they were not."""
        self._ids: NDArray[np.int64] | None = None
        self._matrix: NDArray[np.float32] | None = None

    def nearest(self, db: sqlite3.Connection, vector: bytes, limit: int, least: float) -> list[int]:
        """Return the ids of at most *limit* chunks, the most similar to *vector* first, of a cosine of *least* or more.

        *db* reads within a transaction. Raise `ValueError` if the vectors are of another length.
        """
        import numpy as np  # noqa: PLC0415 - it takes long, and only meaning needs it

        self._read(db)
        if self._matrix is None or self._ids is None or not len(self._ids):
            return []
        query = np.frombuffer(vector, dtype="<f4")
        if query.shape[0] != self._matrix.shape[1]:
            problem = (
                f"the vector of the query has {query.shape[0]} numbers, and those of the store {self._matrix.shape[1]}"
            )
            raise ValueError(problem)
        cosines = self._matrix @ query
        count = min(limit, len(cosines))
        top = np.argpartition(-cosines, count - 1)[:count]
        ranked = sorted((-float(cosines[index]), int(self._ids[index])) for index in top)
        return [chunk for distance, chunk in ranked if -distance >= least]

    def forget(self) -> None:
        """Let go of the vectors in memory."""
        self._version = self._ids = self._matrix = None

    def _read(self, db: sqlite3.Connection) -> None:
        import numpy as np  # noqa: PLC0415 - it takes long, and only meaning needs it

        (version,) = db.execute("PRAGMA data_version").fetchone()
        if version == self._version:
            return
        rows = db.execute("SELECT id, vector FROM chunk WHERE vector IS NOT NULL").fetchall()
        lengths = {len(blob) if isinstance(blob, bytes) else 0 for _, blob in rows}
        if rows and (len(lengths) != 1 or max(lengths) % 4 or not max(lengths)):
            problem = "its vectors have several lengths; make them anew by `agentrail knowledge rebuild`"
            raise sqlite3.DatabaseError(problem)
        self._ids = np.array([chunk for chunk, _ in rows], dtype=np.int64)
        data = np.frombuffer(b"".join([blob for _, blob in rows]), dtype="<f4")
        self._matrix = data.reshape(len(rows), -1) if rows else None
        self._version = version
