"""Python's garbage collector, if a program asks for it: full collections come less often, and look at fewer objects.

A full collection looks at all objects of the process, and nothing else runs meanwhile. With many sessions, or many
connections of a host, nearly all of them are what these keep for long: it is frozen, that is, taken out of the
collector's sight. A session that has ended is freed without the collector, frozen or not: tests/runtime/test_cycles.py.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator, Mapping, Sized
from contextlib import contextmanager, suppress
from typing import Final

import trio

FULL_COLLECTION_AFTER: Final = 100
"""Third threshold of `gc.set_threshold`: collections of the middle generation between two full ones (default 10)."""

FULL_OF_NEW_AFTER: Final = 5
"""The same threshold while objects are frozen: full collections look at what is new, some 35,000 objects."""

PYTHONS_OWN: Final = 10
"""Third threshold of a process in which nobody has chosen one."""

MANY: Final = 500
"""How many sessions and connections must be in the process so that objects are frozen; with fewer, a full collection is
short."""

OLDEST: Final = 2
"""The oldest generation of the garbage collector: its collections look at all objects."""


class _Process:
    """The garbage collector of this process, how many have asked for fewer collections, and what lives long."""

    __slots__ = ("_asked", "_before", "_frozen", "_kept", "_living", "_lock", "_thresholds", "_whole")

    def __init__(self) -> None:
        self._lock = threading.Lock()  # there may be one event loop in each of several threads
        self._asked = 0
        self._living: tuple[Sized, ...] = ()
        self._before = self._thresholds = gc.get_threshold()
        self._frozen = 0  # objects; those that were freed since are counted too
        self._whole = True
        self._kept = 0.0

    def count(self, living: Sized) -> None:
        """Count what is in *living* from now on: sessions, or connections."""
        with self._lock:
            self._living = (*self._living, living)

    def discount(self, living: Sized) -> None:
        """Count *living* no more. No-op if it is not counted."""
        with self._lock:
            self._living = tuple(other for other in self._living if other is not living)

    def join(self) -> None:
        """Add one who asks for fewer collections; the first one has the thresholds set."""
        with self._lock:
            self._asked += 1
            if self._asked == 1:
                young, middle, old = self._before = gc.get_threshold()
                self._thresholds = (young, middle, max(old, FULL_COLLECTION_AFTER))
                gc.set_threshold(*self._thresholds)
                gc.callbacks.append(self._collected)

    def leave(self) -> None:
        """Remove one who asked; after the last one everything is as it was, unless other code has changed it since."""
        with self._lock:
            self._asked -= 1
            if self._asked:
                return
            if gc.get_threshold() == self._thresholds:
                gc.set_threshold(*self._before)
            with suppress(ValueError):  # other code may have removed it
                gc.callbacks.remove(self._collected)
            self._thaw()

    @trio.lowlevel.enable_ki_protection  # Python drops what a gc callback raises, even a `KeyboardInterrupt`
    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        """Callback of the garbage collector: after a full collection, take what it has left out of its sight.

        What is frozen and later becomes garbage in a cycle stays, until everything is looked at again: when twice as
        much for each that lives is frozen as was left the last time. So that happens seldom, also while they become
        more, and at most half of what is frozen is garbage.
        """
        if phase != "stop" or info["generation"] == 0:
            return
        living = sum(map(len, self._living))
        self._come_after(FULL_COLLECTION_AFTER if living < MANY else FULL_OF_NEW_AFTER)
        if info["generation"] != OLDEST:
            return
        if living < MANY:
            self._thaw()
            return
        self._frozen += len(gc.get_objects(OLDEST))
        gc.freeze()
        if self._whole:
            self._whole, self._kept = False, self._frozen / living
        elif self._frozen > 2 * self._kept * living and not self._fits(2 * self._kept * living):
            self._thaw()

    def _fits(self, most: float) -> bool:
        """Whether no more than *most* of what was frozen is still there. To count it, all of it is walked through."""
        self._frozen = gc.get_freeze_count()
        return self._frozen <= most

    def _come_after(self, collections: int) -> None:
        """Have a full collection come after so many of the middle generation, unless other code has chosen."""
        young, middle, third = self._thresholds
        chosen = self._before[2]
        threshold = collections if chosen == PYTHONS_OWN else max(chosen, collections)
        if third != threshold and gc.get_threshold() == self._thresholds:
            self._thresholds = (young, middle, threshold)
            gc.set_threshold(*self._thresholds)

    def _thaw(self) -> None:
        """Have the next full collection look at everything."""
        if self._frozen:
            gc.unfreeze()
            self._frozen, self._whole = 0, True


_PROCESS: Final = _Process()

count: Final = _PROCESS.count
discount: Final = _PROCESS.discount


@contextmanager
def fewer_full_collections() -> Generator[None]:
    """Make full garbage collections rarer within this block: each one blocks the event loop, longer with more sessions.

    They are shorter, too, while `MANY` sessions and connections are counted. The young generations are collected as
    before. A higher threshold that the process has set already is kept. The collector belongs to the process: however
    many ask, the thresholds are set once, and put back when the last one ends.
    """
    _PROCESS.join()
    try:
        yield
    finally:
        _PROCESS.leave()
