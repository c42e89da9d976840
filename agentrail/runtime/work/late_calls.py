"""Calls that wait for the code of their tools: the session is back, and whoever supplies them is not yet."""

from __future__ import annotations

from agentrail.core.vocabulary.effects import ProbeCall, StartCall


class LateCalls:
    """Calls that wait; only while somebody is expected who brings tools."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: tuple[StartCall | ProbeCall, ...] | None = None

    def expect(self) -> None:
        """Let calls wait from now on."""
        self._waiting = ()

    def takes(self, effect: StartCall | ProbeCall) -> bool:
        """Let *effect* wait, if calls may; return whether it does."""
        if self._waiting is not None:
            self._waiting = (*self._waiting, effect)
        return self._waiting is not None

    def drop(self, call_id: str) -> StartCall | ProbeCall | None:
        """Return the waiting call of this id, which need not be made any more."""
        found = next((effect for effect in self._waiting or () if effect.call_id == call_id), None)
        if found is not None:
            self._waiting = tuple(effect for effect in self._waiting or () if effect is not found)
        return found

    def release(self) -> tuple[StartCall | ProbeCall, ...]:
        """Let no call wait any more, and return those that did."""
        waiting, self._waiting = self._waiting or (), None
        return waiting
