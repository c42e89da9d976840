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


class _Collector:
    """The garbage collector of this process, with the requests for fewer full collections, and what is frozen."""

    __slots__ = (
        "_before",
        "_frozen",
        "_frozen_per_item",
        "_is_unfrozen",
        "_lock",
        "_long_lived",
        "_requests",
        "_thresholds",
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()  # several threads may each run an event loop
        self._requests = 0
        self._long_lived: tuple[Sized, ...] = ()  # collections of sessions, and of connections
        self._before = self._thresholds = gc.get_threshold()
        self._frozen = 0  # frozen objects at the last count, though some may have been freed since
        self._is_unfrozen = True  # the next full collection looks at all objects
        self._frozen_per_item = 0.0  # objects per session and connection after the last collection of everything

    def count(self, living: Sized) -> None:
        """Count what is in *living* from now on: sessions, or connections."""
        with self._lock:
            self._long_lived = (*self._long_lived, living)

    def discount(self, living: Sized) -> None:
        """Count *living* no more. No-op if it is not counted."""
        with self._lock:
            self._long_lived = tuple(other for other in self._long_lived if other is not living)

    def request(self) -> None:
        """Request fewer full collections; the first request sets the thresholds."""
        with self._lock:
            self._requests += 1
            if self._requests == 1:
                young, middle, old = self._before = gc.get_threshold()
                self._thresholds = (young, middle, max(old, FULL_COLLECTION_AFTER))
                gc.set_threshold(*self._thresholds)
                gc.callbacks.append(self._collected)

    def withdraw(self) -> None:
        """Withdraw a request; after the last one everything is as it was, unless other code has changed it since."""
        with self._lock:
            self._requests -= 1
            if self._requests:
                return
            if gc.get_threshold() == self._thresholds:
                gc.set_threshold(*self._before)
            with suppress(ValueError):  # other code may have removed it
                gc.callbacks.remove(self._collected)
            self._thaw()

    @trio.lowlevel.enable_ki_protection  # Python drops what a gc callback raises, even a `KeyboardInterrupt`
    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        """Callback of the garbage collector: after a full collection, freeze the objects that it has left.

        A frozen object that later becomes garbage in a cycle stays in memory until `_thaw` lets a full collection look
        at everything again. That is done when twice as many objects are frozen for each session and connection as after
        the last such collection. An example: a collection with 1,000 sessions leaves 400,000 objects, 400 for each.
        With 2,000 sessions, up to 2 * 400 * 2,000 = 1,600,000 may be frozen; when `_frozen` is more, they are counted,
        and if that many are still there, thawed. So at most half of what is frozen is garbage, and a collection of
        everything stays rare while sessions become more.
        """
        if phase != "stop" or info["generation"] == 0:
            return
        living = sum(map(len, self._long_lived))
        self._set_full_threshold(FULL_COLLECTION_AFTER if living < MANY else FULL_OF_NEW_AFTER)
        if info["generation"] != OLDEST:
            return
        if living < MANY:
            self._thaw()
            return
        self._frozen += len(gc.get_objects(OLDEST))
        gc.freeze()
        if self._is_unfrozen:
            self._is_unfrozen, self._frozen_per_item = False, self._frozen / living
            return
        most = 2 * self._frozen_per_item * living
        if self._frozen > most:
            remaining = self._frozen = gc.get_freeze_count()  # slow: all frozen objects are walked through
            if remaining > most:
                self._thaw()

    def _set_full_threshold(self, collections: int) -> None:
        """Set the threshold of full collections to *collections* of the middle one, unless other code has set it."""
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
            self._frozen, self._is_unfrozen = 0, True


_COLLECTOR: Final = _Collector()

count: Final = _COLLECTOR.count
discount: Final = _COLLECTOR.discount


@contextmanager
def fewer_full_collections() -> Generator[None]:
    """Make full garbage collections rarer within this block: each one blocks the event loop, longer with more sessions.

    They are shorter, too, while `MANY` sessions and connections are counted. The young generations are collected as
    before. A higher threshold that the process has set already is kept. The collector belongs to the process: however
    many ask, the thresholds are set once, and put back when the last one ends.
    """
    _COLLECTOR.request()
    try:
        yield
    finally:
        _COLLECTOR.withdraw()
