"""A ruling keeps what each plugin answered, also what a later answer took back."""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias, cast

import pytest

from agentrail import BlockTool, Continue, Emit, ReplaceMessages, ReplaceToolArgs
from agentrail.core.machine.step import Step
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.hook_types import HOOK_NAMES
from agentrail.hooks.ruling import PluginAnswer
from agentrail.plugins import MATRIX, AnyPlugin, BeforeRequest, Hook, Log
from agentrail.testing import Choose, Scene
from agentrail.testing.world.random_setups import draw_scene
from agentrail.tools import err
from agentrail.values.messages import Rearranged
from tests.cells.bench import Bench, call, plug
from tests.cells.hook_cells import HOOK_CELLS
from tests.cells.scenes import path, user_message
from tests.cells.test_matrix import fired
from tests.each_case import each_case
from tests.kit import EMPTY, Ruling, Verdict
from tests.machinery.worlds.checked_world import CheckedWorld
from tests.profiles import CAMPAIGN

SAID: Final[Mapping[str, PluginAnswer]] = {
    "intervene": PluginAnswer("P", "intervene", "note"),
    "abort": PluginAnswer("P", "abort", "no"),
    "skip": PluginAnswer("P", "skip"),
    "block_tool": PluginAnswer("P", "block_tool", "no"),
    "replace_tool_args": PluginAnswer("P", "replace_tool_args", args=path("b")),
    "emit": PluginAnswer("P", "emit", emits=1),
    "switch_model": PluginAnswer("P", "switch_model", name="n", args=EMPTY),
    "replace_prompt": PluginAnswer("P", "replace_prompt", "other"),
    "replace_response": PluginAnswer("P", "replace_response", "other"),
    "replace_messages": PluginAnswer("P", "replace_messages", messages=Rearranged((user_message("other"),))),
    "replace_tool_result": PluginAnswer("P", "replace_tool_result", result=err("hidden")),
    "hold_tool": PluginAnswer("P", "hold_tool", "may it?", seconds=120.0),
    "add_context": PluginAnswer("P", "add_context", "it rains"),
    "set_section": PluginAnswer("P", "set_section", "calm", "mood", layer="dynamic"),
    "ask": PluginAnswer("P", "ask", seconds=10.0),
}


@each_case(
    [(hook, action.kind) for hook in HOOK_CELLS for action in sorted(MATRIX[hook], key=str) if action is not Continue]
)
def test_the_answer_of_each_cell_is_in_its_ruling(hook: str, action: str) -> None:
    rulings = [ruling for ruling in fired(hook, action).step.rulings if ruling.answers]
    assert [(ruling.hook, ruling.answers) for ruling in rulings] == [(hook, (SAID[action],))]


def answers_of(bench: Bench, hook: str) -> list[tuple[PluginAnswer, ...]]:
    return [ruling.answers for ruling in bench.got[-1].step.rulings if ruling.hook == hook and ruling.answers]


def test_what_a_block_erases_is_kept_as_an_answer() -> None:
    bench = Bench(
        plug("A", priority=10, before_tool=Emit("noted")),
        plug("B", priority=20, before_tool=ReplaceToolArgs({"path": "b"})),
        plug("C", priority=30, before_tool=BlockTool("no")),
        plug("D", priority=40, before_tool=BlockTool("never asked")),
    )
    bench.prompt()
    bench.answers("", call("look", path="a"))
    (ruling,) = [ruling_ for ruling_ in bench.got[-1].step.rulings if ruling_.hook == "before_tool"]
    assert (ruling.verdict, ruling.by, ruling.decisions.args) == (Verdict.BLOCK, "C", None)
    assert ruling.answers == (
        PluginAnswer("A", "emit", emits=1),
        PluginAnswer("B", "replace_tool_args", args=path("b")),
        PluginAnswer("C", "block_tool", "no"),
    )


def test_of_two_that_replace_the_messages_both_are_kept_as_ranges() -> None:
    def without_the_last(hook: Hook) -> ReplaceMessages[int]:
        assert isinstance(hook, BeforeRequest)
        return ReplaceMessages((*tuple(hook.messages)[:-1], user_message("last")))

    bench = Bench(
        plug("A", priority=10, before_request=lambda hook, _s, _c: without_the_last(hook)),
        plug("B", priority=20, before_request=ReplaceMessages((user_message("other"),))),
    )
    bench.prompt("one")
    bench.answers("well")
    bench.prompt("two")
    history = bench.state.history
    (answers,) = answers_of(bench, "before_request")
    assert [answer.plugin for answer in answers] == ["A", "B"]
    visible = [() if answer.messages is None else answer.messages.of(history) for answer in answers]
    assert visible == [(*history[:-1], user_message("last")), (user_message("other"),)]


def test_a_guard_that_is_asked_once_more_says_so() -> None:
    guard = plug("Guard", priority=10, critical=True, before_tool=Continue(1).emitting("seen"))
    bench = Bench(guard, plug("Changes", priority=20, before_tool=ReplaceToolArgs({"path": "b"})))
    bench.prompt()
    bench.answers("", call("look", path="a"))
    assert answers_of(bench, "before_tool") == [
        (
            PluginAnswer("Guard", "continue", emits=1),
            PluginAnswer("Changes", "replace_tool_args", args=path("b")),
            PluginAnswer("Guard", "continue", emits=1, final=True),
        )
    ]


def test_each_log_line_says_who_wrote_it() -> None:
    line = Log("info", "heard", EMPTY, 1)
    bench = Bench(plug("A", on_event=lambda *_: line), plug("B", on_event=lambda *_: line))
    got = bench.prompt()
    ruling = got.step.rulings[-1]
    half = len(ruling.logs) // 2
    assert half > 0
    assert ruling.answers == (PluginAnswer("A", "log"),) * half + (PluginAnswer("B", "log"),) * half


# Over random sessions: what the plugins gave is what is kept


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


Told: TypeAlias = tuple[object, ...]


def expected_answer(hook: str, key: str, action: object) -> Told:
    """Return what a plugin returned, as `kept` shows what is kept of it."""
    values = [getattr(action, name, None) for name in ("text", "reason", "hint")]
    text = next((item for item in values if item is not None), None)
    names = [getattr(action, name, None) for name in ("model", "key", "family")]
    args = getattr(action, "args", getattr(action, "provider_options", None))
    seconds = getattr(action, "deadline", getattr(action, "timeout", None))
    emits = action.emissions if isinstance(action, Emit) else getattr(action, "emits", ())
    kind = getattr(action, "kind", None)
    name = next((name_ for name_ in names if name_ is not None), None)
    return hook, key, kind, text, name, repr(args), seconds, len(emits), repr(getattr(action, "request", None))


def heard(hook: str, key: str, action: object) -> Told:
    """Return what a plugin returned; only who did if it is a lie that raises when it is read."""
    try:
        return expected_answer(hook, key, action)
    except Exception:  # noqa: BLE001 - a lie may raise anything
        return hook, key


def kept(ruling: Ruling, answer: PluginAnswer) -> Told:
    """Return what is kept of an answer; the request of one that paused the run is in the pause alone."""
    args = None if answer.args is None else dict(answer.args)
    request = answer.request if ruling.pause is None or answer is not ruling.answers[-1] else ruling.pause.request
    visible = (answer.text, answer.name, repr(args), answer.seconds, answer.emits, repr(request))
    return ruling.hook, answer.plugin, answer.kind, *visible


def is_plain(action: object) -> bool:
    return type(action) is Continue and not action.emits


@pytest.mark.long
def test_random_sessions_keep_what_each_plugin_answered() -> None:
    answers = erased = 0
    for seed in range(2_000 if CAMPAIGN else 400):
        choose = Choose(random.Random(seed).randrange)
        world = Watched(draw_scene(choose))
        done: Step | None = world.open()
        for _ in range(40):
            if done is None:
                break
            rulings = [ruling for ruling in done.rulings if ruling.hook in HOOK_NAMES]
            actual = [kept(ruling, answer) for ruling in rulings for answer in ruling.answers]
            events = [heard(*item) for item in world.seen if not is_plain(item[2])]
            rest = iter(events)
            assert all(answer in rest for answer in actual), (seed, events, actual)  # each is there, in this order
            assert len(events) - sum(len(ruling.errors) for ruling in rulings) <= len(actual) <= len(events), seed
            answers += len(actual)
            stopped = [ruling_ for ruling_ in rulings if ruling_.verdict in (Verdict.ABORT, Verdict.BLOCK)]
            erased += sum(len(ruling.answers) > 1 for ruling in stopped)
            world.seen.clear()
            done = world.go(choose)
    assert answers > 500
    assert erased > 0
