"""`TakenLog`: which snapshots a store has, for which sessions, and which of them are kept.

The log has a line for each snapshot that was taken. A sweep, at most once a day or after `SWEEP_BYTES`, drops lines
that are older than `KEEP_DAYS`, the oldest ones above `KEEP_TAKEN`, and then contents that no snapshot has any more.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, cast

from agentrail.adapters.sandboxes.kept_files.object_store import FOLDER_MODE, ObjectStore
from agentrail.errors import AgentrailError

KEEP_DAYS: Final = 30
"""How long a snapshot is kept."""

KEEP_TAKEN: Final = 2_000
"""The most snapshots that are kept of one folder, the last ones."""

MAX_LOG: Final = 1024**2
"""A sweep is due, too, when the log has so many bytes: about three times `KEEP_TAKEN` lines."""

KEEP_BYTES: Final = 2 * 1024**3
"""The most bytes that are kept of one folder; above them the older half of its snapshots goes."""

SWEEP_NS: Final = 24 * 3600 * 10**9
"""Nanoseconds after which a sweep is due again."""

SWEEP_BYTES: Final = 256 * 1024**2
"""A sweep is due, too, when one process has written so many bytes since the last one."""

LOG: Final = "taken"
SWEPT: Final = "swept"


class Taken(NamedTuple):
    """A snapshot that was taken."""

    time_s: int
    """When, in seconds since 1970."""
    owner: str
    """For whom it was taken: see `snapshot_owner`."""
    snapshot_id: str
    """Its id."""


class TakenLog:
    """The log of one store. Its caller holds the lock of the store."""

    __slots__ = ("_store",)

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def add(self, owner: str, snapshot_id: str) -> None:
        """Note that a snapshot was taken now."""
        # After a line that a full disk has cut, too, this one stands alone.
        line = f"\n{json.dumps(Taken(_now(), owner, snapshot_id))}\n"
        with self._store.writing(), (self._store.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(line)

    def generation(self) -> int:
        """Return when the last sweep was, or when the first snapshot was taken, in nanoseconds since 1970."""
        with suppress(OSError, ValueError):
            return int((self._store.folder / SWEPT).read_text())
        return self._begin_generation()

    def _begin_generation(self) -> int:
        """Note that a sweep was done now."""
        now = time.time_ns()
        self._store.replace(SWEPT, str(now).encode())
        return now

    def is_due(self) -> bool:
        """Whether a sweep is due."""
        return (
            time.time_ns() - self.generation() > SWEEP_NS
            or (self._store.folder / LOG).stat().st_size > MAX_LOG
            or self._store.written > SWEEP_BYTES
        )

    def lines(self) -> list[Taken]:
        """Return all lines, the oldest first; one that was cut by a loss of power or a full disk is left out."""
        lines: list[Taken] = []
        with suppress(FileNotFoundError):
            for text in (self._store.folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines():
                with suppress(ValueError, TypeError):
                    lines.append(Taken(*cast("tuple[int, str, str]", json.loads(text))))
        return lines

    def sweep(self, is_dropped: Callable[[str], bool] = lambda _: False) -> None:
        """Drop old snapshots, those whose owner *is_dropped*, all contents that only they have, and old stores."""
        _drop_old_stores(self._store.folder)
        since = _now() - KEEP_DAYS * 24 * 3600
        lines = [line for line in self.lines() if line.time_s >= since and not is_dropped(line.owner)][-KEEP_TAKEN:]
        sizes = {digest: path.stat().st_size for digest, path in self._store.digests()}
        used = self._used(lines)
        while lines and sum(sizes.get(digest, 0) for digest in used) > KEEP_BYTES:
            lines = lines[(len(lines) + 1) // 2 :]
            used = self._used(lines)
        # The log first: after a kill in between, contents are left that the next sweep drops.
        self._store.replace(LOG, "".join(json.dumps(line) + "\n" for line in lines).encode())
        self._begin_generation()
        for digest, path in self._store.digests():
            if digest not in used:
                path.unlink(missing_ok=True)
        self._store.written = 0

    def _used(self, lines: Iterable[Taken]) -> set[str]:
        """Return the digests of all that the snapshots in *lines* consist of."""
        used: set[str] = set()
        trees = [line.snapshot_id for line in lines]
        while trees:
            digest = trees.pop()
            if digest in used:
                continue
            used.add(digest)
            with suppress(AgentrailError):  # damaged or gone: a rewind to it says so
                entries = self._store.read_tree(digest).values()
                used |= {entry.digest for entry in entries if entry.mode != FOLDER_MODE}
                trees += [entry.digest for entry in entries if entry.mode == FOLDER_MODE]
        return used


def _drop_old_stores(own: Path) -> None:
    """Remove the stores, other than *own*, of folders in which no snapshot was taken for `KEEP_DAYS`."""
    for store in own.parent.iterdir():
        with suppress(OSError):
            if store != own and _now() - (store / LOG).stat().st_mtime > KEEP_DAYS * 24 * 3600:
                shutil.rmtree(store)


def _now() -> int:
    """Return the time, in seconds since 1970."""
    return time.time_ns() // 10**9
