"""Remembers calls to which plugins reacted, so that scripts repeat them with other plugins beside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final, TypeAlias

from agentrail.hooks.attachments import unkeyed
from agentrail.hooks.plugin import Attachable
from agentrail.hooks.ruling import Ruling, Verdict
from agentrail.testing.scripted import Saying
from agentrail.testing.turns.trace import Trace
from agentrail.values.content import ToolCall

Deed: TypeAlias = tuple[str, str]
"""The key of a plugin, and what it did: `block`, `replaced`, `remembered` and others."""

KEPT: Final = 4
"""Calls that are kept of one thing that a plugin does: those with the fewest arguments."""


class Lore:
    """Remembers a few calls for each thing that a plugin does, and for each two things that are done at one call."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._given = list(calls)
        self._by_deeds: dict[tuple[Deed, ...], list[ToolCall]] = {}

    def calls(self, plugins: Iterable[Attachable]) -> list[list[ToolCall]]:
        """Return the calls that were given, and those at which any of *plugins* did something, one list for each."""
        keys = {unkeyed(plugin)[0] for plugin in plugins}
        known = [calls for deeds, calls in self._by_deeds.items() if all(key in keys for key, _ in deeds)]
        return [self._given, *known] if self._given else known

    def learn(self, trace: Trace) -> None:
        """Keep the calls of *trace* at which plugins did something."""
        keys = [seat.key for seat in trace.state.seats]
        for happened in trace.steps:
            cue = trace.script[happened.cue] if happened.cue >= 0 else None
            if not isinstance(cue, Saying) or happened.plain or not cue.response.calls:
                continue
            calls = cue.response.calls
            rulings = [ruling for ruling in happened.step.rulings if ruling.hook == "before_tool"]
            for place, ruling in enumerate(rulings):
                about = calls[place : place + 1] if len(rulings) == len(calls) else calls
                did = sorted(deeds_of(ruling, keys))
                for deeds in (*combinations(did, 1), *combinations(did, 2)):
                    self._keep(deeds, about)

    def _keep(self, deeds: tuple[Deed, ...], calls: Sequence[ToolCall]) -> None:
        kept = self._by_deeds.setdefault(deeds, [])
        for one in calls:
            if one in kept:
                continue
            kept.append(one)
            if len(kept) > KEPT:
                kept.remove(max(kept, key=lambda call: len(call.args)))


def deeds_of(ruling: Ruling, keys: Sequence[str]) -> Iterator[Deed]:
    """Yield what plugins did in *ruling*: who, and what; a plugin that only went on did nothing."""
    if ruling.by is not None and ruling.verdict is not Verdict.PASS:
        yield ruling.by, ruling.verdict.value
    for key in ruling.gathered.replaced_by:
        yield key, "replaced"
    for place, _ in ruling.states:
        if place < len(keys):
            yield keys[place], "remembered"
