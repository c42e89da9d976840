"""Over random sessions, an explanation names exactly the plugins whose code was called, in that order."""

import random
from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from agentrail.core.machine.step import Step
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.hook_types import HOOK_NAMES
from agentrail.insight.explanations import explain
from agentrail.insight.hook_questions import AskedStep, questions
from agentrail.plugins import AnyPlugin
from agentrail.testing import Choose, Scene
from agentrail.testing.world.random_setups import draw_scene
from tests.insight.stories import records_of_world
from tests.kit import Verdict
from tests.machinery.worlds.checked_world import CheckedWorld
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

NOT_CALLED = ("was not asked", "had been asked before the pause")


class Spy:
    """Stands before a plugin, and notes what its hooks return."""

    def __init__(self, key: str, plugin: AnyPlugin, seen: list[tuple[str, str, object]]) -> None:
        self._key, self._plugin, self._seen = key, plugin, seen

    def __getattr__(self, name: str) -> object:
        value: object = getattr(self._plugin, name)
        return partial(self._noted, name, value) if name in HOOK_NAMES and callable(value) else value

    def _noted(self, hook: str, method: Callable[..., object], *given: object) -> object:
        count = len(self._seen)
        self._seen.append((hook, self._key, None))
        returned = method(*given)
        self._seen[count] = (hook, self._key, returned)
        return returned


class Watched(CheckedWorld):
    """A world that notes what each plugin returns."""

    def __init__(self, scene: Scene) -> None:
        self.seen: list[tuple[str, str, object]] = []
        super().__init__(scene)

    def teach(self, key: str, plugin: AnyPlugin) -> AttachedPlugin:
        attached = super().teach(key, plugin)
        self.hook_runner.attach(key, attached.revision, cast("AnyPlugin", Spy(key, plugin, self.seen)))
        return attached


def demand_told(seed: int, step: AskedStep, called: list[tuple[str, str]]) -> None:
    """Check the explanations of a step against the calls of plugins that were seen in it."""
    told: list[tuple[str, str]] = []
    for question in step.questions:
        explanation = explain(question)
        if explanation.hook == "check":
            continue
        assert question.hook is not None, (seed, step.record.number)
        asked = [one for one in explanation.steps if not any(words in one.sentence for words in NOT_CALLED)]
        told += [(explanation.hook, one.plugin) for one in asked]
        decided = [one for one in asked if one.decided]
        is_over = explanation.ruling.verdict is not Verdict.PASS
        assert [one.plugin for one in decided] == ([explanation.ruling.by] if is_over else []), (seed, explanation)
        assert not is_over or decided[0].rule is explanation.rule, (seed, explanation)
        answers = [one.answer for one in asked if one.answer is not None]
        assert answers == list(explanation.ruling.answers), (seed, explanation)
    assert told == called, (seed, step.record.number)


def test_who_was_asked_is_told_of_random_sessions() -> None:
    count = 0
    for seed in range(3_000 if CAMPAIGN else 150):
        choose = Choose(random.Random(seed).randrange)
        world = Watched(draw_scene(choose))
        called: list[list[tuple[str, str]]] = []
        done: Step | None = world.open()
        while done is not None and len(called) < 40:
            called.append([(hook, key) for hook, key, _ in world.seen])
            world.seen.clear()
            done = world.go(choose)
        for step, seen in zip(questions(records_of_world(world)), called, strict=False):
            demand_told(seed, step, seen)
            count += len(seen)
    assert count > 2_000
