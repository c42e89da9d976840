"""`Newest`: a mapping that keeps so many entries, the ones set last; the one rule by which caches forget."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Newest(OrderedDict[K, V]):
    """A mapping of at most *most* entries, the one set first at the front; with a further one, that one is forgotten.

    Setting an entry again moves it to the end; looking at it does not.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
