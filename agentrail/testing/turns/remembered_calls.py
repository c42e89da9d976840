"""Remembers tool calls to which plugins reacted, so that later scripts make them again with other sets of plugins."""

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
"""The key of a plugin, and what it did at a call: a verdict such as `block`, or `replaced`, or `remembered`."""

KEPT: Final = 4
"""How many calls are kept for each deed or pair of deeds; if there are more, those with the fewest arguments stay."""


class Lore:
    """Remembers tool calls by deed (what a plugin did at a call), and by pair of deeds at one call."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._given = list(calls)
        self._by_deeds: dict[tuple[Deed, ...], list[ToolCall]] = {}

    def calls(self, plugins: Iterable[Attachable]) -> list[list[ToolCall]]:
        """Return lists of calls: those given at the start, then one list for each deed, or pair, of *plugins* alone."""
        keys = {unkeyed(plugin)[0] for plugin in plugins}
        remembered = [calls for deeds, calls in self._by_deeds.items() if all(key in keys for key, _ in deeds)]
        return [self._given, *remembered] if self._given else remembered

    def learn(self, trace: Trace) -> None:
        """Remember the calls of *trace* at which plugins did something in `before_tool`."""
        keys = [attached.key for attached in trace.state.plugins]
        for happened in trace.steps:
            script_step = trace.script[happened.script_step] if happened.script_step >= 0 else None
            if not isinstance(script_step, Saying) or happened.plain or not script_step.response.calls:
                continue
            calls = script_step.response.calls
            rulings = [ruling for ruling in happened.step.rulings if ruling.hook == "before_tool"]
            for index, ruling in enumerate(rulings):
                about = calls[index : index + 1] if len(rulings) == len(calls) else calls
                did = sorted(deeds_of(ruling, keys))
                for deeds in (*combinations(did, 1), *combinations(did, 2)):
                    self._keep(deeds, about)

    def _keep(self, deeds: tuple[Deed, ...], calls: Sequence[ToolCall]) -> None:
        remembered = self._by_deeds.setdefault(deeds, [])
        for new_call in calls:
            if new_call in remembered:
                continue
            remembered.append(new_call)
            if len(remembered) > KEPT:
                remembered.remove(max(remembered, key=lambda call: len(call.args)))


def deeds_of(ruling: Ruling, keys: Sequence[str]) -> Iterator[Deed]:
    """Yield each deed in *ruling*: a plugin with its decision, replacement or change of state.

    A plugin that only let the hook pass did nothing. *keys* are the keys of the plugins, in the order of their row.
    """
    if ruling.by is not None and ruling.verdict is not Verdict.PASS:
        yield ruling.by, ruling.verdict.value
    for key in ruling.decisions.replaced_by:
        yield key, "replaced"
    for index, _ in ruling.states:
        if index < len(keys):
            yield keys[index], "remembered"
