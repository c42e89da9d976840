"""What several steps promise together, told once more: what may come so often, and what stays as it was."""

from __future__ import annotations

from collections import Counter
from typing import Final

from agentrail.core.vocabulary.effects import ProbeCall, StartCall
from agentrail.core.vocabulary.inputs import CompactionEnded
from agentrail.testing.world.choose import Seen
from agentrail.testing.world.outstanding import demand
from agentrail.values.events.life import AgentAbort, PromptReceived
from agentrail.values.events.plugins import PluginError
from agentrail.values.events.response import ContextOverflow
from agentrail.values.events.tools import LoopDetected
from agentrail.values.json import canonical
from agentrail.values.messages import AssistantMessage

MAX_FAILURES: Final = 3
"""How often a plugin may break at events before it hears no more until the next turn."""


class Course:
    """What a session has done so far, as far as that binds it."""

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}
        self._failures: Counter[str] = Counter()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._overflow: tuple[int, int] | None = None

    def check(self, seen: Seen) -> None:
        """Raise `InvariantBrokenError` if a step does not fit those before it."""
        self._keys_stay(seen)
        self._deaf(seen)
        self._loops(seen)
        self._overflows(seen)

    def _keys_stay(self, seen: Seen) -> None:
        """Check: all attempts of a call have one idempotency key, and no other call has the same."""
        for effect in seen.step.effects:
            if isinstance(effect, StartCall | ProbeCall):
                key = self._keys.setdefault(effect.call_id, effect.key)
                demand(key == effect.key, f"{effect} runs under another key than before: {key}")
        demand(len(set(self._keys.values())) == len(self._keys), "two calls run under one key")

    def _deaf(self, seen: Seen) -> None:
        """A plugin that breaks at events is shown none after some failures, until the next turn.

        Event by event: a critical one that breaks aborts its turn, and the next may start in the same step.
        """
        for event in seen.events:
            if isinstance(event, PromptReceived):
                self._failures.clear()
            elif isinstance(event, PluginError) and event.hook == "on_event":
                self._failures[event.plugin] += 1
        often = {plugin: count for plugin, count in self._failures.items() if count > MAX_FAILURES}
        demand(not often, f"plugins have broken at events, and hear more: {often}")

    def _loops(self, seen: Seen) -> None:
        """Calls count as repeated only if they are the same."""
        before, after = seen.before, seen.after
        if after.history is not before.history and not isinstance(seen.given, CompactionEnded):
            for message in after.history[len(before.history) :]:
                for call in message.calls if isinstance(message, AssistantMessage) else ():
                    self._calls[call.name, canonical(call.args)] += 1
        for event in seen.events:
            if isinstance(event, LoopDetected) and event.kind == "repeat_pattern":
                most = max((count for (name, _), count in self._calls.items() if name == event.name), default=0)
                demand(event.count <= most, f"{event}, and the same call was made {most} times")

    def _overflows(self, seen: Seen) -> None:
        """A context that is too long once more in the same round ends the turn."""
        if any(isinstance(event, ContextOverflow) for event in seen.events):
            now = (seen.before.turns, seen.before.round)
            ends = any(isinstance(event, AgentAbort) for event in seen.events)
            demand(now != self._overflow or ends, f"the context is too long again in round {now[1]}")
            self._overflow = now
