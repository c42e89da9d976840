"""Keeping the beginning and the end of an output, however long it is."""

from __future__ import annotations

from agentrail.ports.sandbox import Heard, Output


class Capture:
    """Holds at most about *keep* bytes, and twice that of the end between two cuts."""

    __slots__ = ("_half", "_head", "_tail", "_total")

    def __init__(self, keep: int) -> None:
        self._half = max(keep // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, chunk: bytes) -> None:
        """Take note of what comes next."""
        self._total += len(chunk)
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def output(self) -> Output:
        """Return what is kept."""
        return Output(bytes(self._head), bytes(self._tail[-self._half :]), self._total)

    def heard(self, since: int) -> Heard:
        """Return what is kept of what came behind byte *since*."""
        since = max(0, min(since, self._total))
        start = self._total - len(self._tail)  # where the tail begins
        head = bytes(self._head[since:])
        if since >= start:
            return Heard(bytes(self._tail[since - start :]), self._total)
        return Heard(head + bytes(self._tail), self._total, start - since - len(head))
