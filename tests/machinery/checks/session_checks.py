"""Checks that span several steps of a session: what may happen only so often, and what must stay the same.

They repeat rules of the machine in other words, so that a mistake in the machine shows.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from agentrail.core.vocabulary.effects import ProbeCall, StartCall
from agentrail.core.vocabulary.inputs import CompactionEnded
from agentrail.events import AgentAbort, ContextOverflow, LoopDetected, PluginError, PromptReceived
from agentrail.models import AssistantMessage
from agentrail.testing.world.outstanding import demand
from agentrail.values.json import canonical
from tests.machinery.checks.transition import Transition

MAX_FAILURES: Final = 3
"""How often a plugin's `on_event` may raise in a turn before it is shown no more events until the next turn.

The runtime's limit is in `hooks/live_runner.py`. It is not imported, so that the check fails if it changes.
"""


class Course:
    """Remembers facts of a session that limit its later steps, and checks each step against them."""

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}
        self._failures: Counter[str] = Counter()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._overflow: tuple[int, int] | None = None

    def check(self, transition: Transition) -> None:
        """Raise `InvariantBrokenError` if *transition* contradicts earlier steps."""
        self._keys_stay(transition)
        self._deaf(transition)
        self._loops(transition)
        self._overflows(transition)

    def _keys_stay(self, transition: Transition) -> None:
        """Check that all attempts of a call have the same idempotency key, and no other call has it."""
        for effect in transition.step.effects:
            if isinstance(effect, StartCall | ProbeCall):
                key = self._keys.setdefault(effect.call_id, effect.key)
                demand(key == effect.key, "{} runs under another key than before: {}", effect, key)
        demand(len(set(self._keys.values())) == len(self._keys), "two calls run under one key")

    def _deaf(self, transition: Transition) -> None:
        """Check that a plugin whose `on_event` raised `MAX_FAILURES` times gets no more events in this turn.

        The events are gone through one by one, because a new turn may start within the step.
        """
        for event in transition.events:
            if isinstance(event, PromptReceived):
                self._failures.clear()
            elif isinstance(event, PluginError) and event.hook == "on_event":
                self._failures[event.plugin] += 1
        often = {plugin: count for plugin, count in self._failures.items() if count > MAX_FAILURES}
        demand(not often, "plugins have broken at events, and hear more: {}", often)

    def _loops(self, transition: Transition) -> None:
        """Check that a `LoopDetected` event does not count more equal calls than there were."""
        old, after = transition.before, transition.after
        if after.history is not old.history and not isinstance(transition.input, CompactionEnded):
            for message in after.history[len(old.history) :]:
                for call in message.calls if isinstance(message, AssistantMessage) else ():
                    self._calls[call.name, canonical(call.args)] += 1
        for event in transition.events:
            if isinstance(event, LoopDetected) and event.kind == "repeat_pattern":
                most = max((count for (name, _), count in self._calls.items() if name == event.name), default=0)
                demand(event.count <= most, "{}, and the same call was made {} times", event, most)

    def _overflows(self, transition: Transition) -> None:
        """Check that the second `context too long` in one round aborts the turn."""
        if any(isinstance(event, ContextOverflow) for event in transition.events):
            now = (transition.before.turn_count, transition.before.round)
            ends = any(isinstance(event, AgentAbort) for event in transition.events)
            demand(now != self._overflow or ends, "the context is too long again in round {}", now[1])
            self._overflow = now
