"""`ReservedId`: a session id under which nobody else can start a session."""

from __future__ import annotations

from collections.abc import Callable

import trio


class ReservedId:
    """Reserves a session id as long as it is entered; a generator would take three times as long at each spawn."""

    __slots__ = ("_before_free", "_session_id", "_starting")

    def __init__(
        self, starting: dict[str, trio.Event], session_id: str, before_free: Callable[[str], None] | None = None
    ) -> None:
        self._starting = starting
        """The ids that are reserved in the tree, each with what callers of `resume` wait for."""
        self._session_id = session_id
        self._before_free = before_free
        """Called with the id before it is free again."""

    def __enter__(self) -> None:
        self._starting[self._session_id] = trio.Event()

    def __exit__(self, *_: object) -> None:
        try:
            if self._before_free is not None:
                self._before_free(self._session_id)
        finally:
            self._starting.pop(self._session_id).set()
