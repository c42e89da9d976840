"""Records what each plugin decides at each hook of a simulated session."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from agentrail.hooks.actions import Action
from agentrail.hooks.context import Context
from agentrail.hooks.moments import HOOK_NAMES, Hook
from agentrail.hooks.plugin import AnyPlugin
from agentrail.values.value import Value

Method = Callable[[Hook, object, Context], object]


class Decision(Value, gc=True):
    """What one plugin decided at one hook."""

    step: int
    """Number of the step in the trace, from 0."""
    plugin: str
    """Key of the plugin."""
    hook: Hook
    """The hook that the plugin was called with."""
    before: object
    """The state of the plugin before the call."""
    answer: object
    """What the plugin returned, or the exception that it raised."""

    @property
    def action(self) -> Action[object] | None:
        """The action that the plugin returned; `None` if it raised, or returned something else."""
        answer: object = self.answer
        return cast("Action[object]", answer) if isinstance(answer, Action) else None


class Watch:
    """Wraps plugins and records each of their decisions in `decisions`; `step` is the number of the current step."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.step = 0

    def over(self, key: str, plugin: AnyPlugin) -> AnyPlugin:
        """Return a wrapper of *plugin* that behaves as it does, and records its decisions here."""
        return cast("AnyPlugin", _Watched(self, key, plugin))

    def forget(self, step: int) -> None:
        """Drop the decisions of *step* and of later steps."""
        self.decisions = [decision for decision in self.decisions if decision.step < step]

    def asks(self, key: str, method: Method, hook: Hook, state: object, ctx: Context) -> object:
        """Call *method* of a plugin with a hook, and record what it returns or raises."""
        try:
            answer = method(hook, state, ctx)
        except Exception as error:
            self.decisions.append(Decision(self.step, key, hook, state, error))
            raise
        self.decisions.append(Decision(self.step, key, hook, state, answer))
        return answer


class _Watched:
    """Wrapper of a plugin: its attributes are the plugin's own, but methods for hooks record their answers."""

    def __init__(self, watch: Watch, key: str, plugin: AnyPlugin) -> None:
        self._watch = watch
        self._key = key
        self._plugin = plugin

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._plugin, name)
        if name not in HOOK_NAMES:
            return found
        return partial(self._watch.asks, self._key, cast("Method", found))
