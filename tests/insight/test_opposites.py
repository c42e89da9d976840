"""For each cell of the matrix and each rule: a sentence that names the plugin and the rule, and the opposite.

The opposite is the same session without the plugin: there, something else comes of it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pytest
from attrs import frozen

from agentrail import Abort, Action, Ask, BlockTool, Continue, Emit, HoldTool, Intervene, ReplaceToolArgs, Skip, State
from agentrail.insight import Explanation, FoldingRule
from agentrail.insight.explanations import explain
from agentrail.insight.hook_questions import questions
from agentrail.models import JsonObject
from agentrail.plugins import AnyPlugin, CallService
from tests.cells.bench import Bench, call, plug
from tests.cells.hook_cells import HOOK_CELLS, probe
from tests.cells.test_matrix import ANSWERS
from tests.each_case import check_each, each_case
from tests.insight.stories import records_of
from tests.insight.test_why import CELLS
from tests.kit import ApproveSent, CompactSent, freeze_object

OF_PLUGINS: Final = frozenset({"plugins", "plugin_states", "last_seq"})
"""Fields of the state that differ because there is one plugin less."""


def outcome(bench: Bench) -> tuple[object, ...]:
    """Return what came of a session: its events, its effects, and its state without the plugins."""
    events = [(type(event).__name__, repr(event)) for got in bench.got for event in got.events]
    effects = [repr(effect) for got in bench.got for effect in got.step.effects]
    state = [repr(getattr(bench.state, name)) for name in State.__struct_fields__ if name not in OF_PLUGINS]
    return events, effects, state


def explained(bench: Bench) -> list[Explanation]:
    """Return the explanations of all runs of hooks in a session, in order."""
    return [explain(question) for step in questions(records_of(bench)) for question in step.questions]


@pytest.mark.parametrize("hook", HOOK_CELLS)
def test_each_cell_names_plugin_and_rule_and_is_opposite_without_the_plugin(hook: str) -> None:
    check_each([cell for cell in CELLS if cell[0] == hook], _is_told_and_opposite)


def _is_told_and_opposite(hook: str, kind: str) -> None:
    bench, _ = HOOK_CELLS[hook].fire(probe(hook, ANSWERS[kind]))
    without, _ = HOOK_CELLS[hook].fire(plug("P"))
    run = next(one for one in explained(bench) if one.hook == hook)
    assert run.rule.value in run.sentence
    assert all("`P`" in step.sentence for step in run.steps)
    if kind in ("continue", "emit"):
        assert run.rule is FoldingRule.ALL_PASSED
    else:
        assert "`P`" in run.sentence
    is_alone = kind == "skip" and "the plugins behind were left out" in run.sentence
    assert (outcome(bench) == outcome(without)) is (kind == "continue" or is_alone)


Story = Callable[..., Bench]


def one_call(*plugins: AnyPlugin, **args: str) -> Bench:
    """Return a session in which `look` was called, and approved if it was held."""
    bench = Bench(*plugins)
    bench.prompt()
    bench.answers("", call("look", **(args or {"path": "a"})))
    return bench


def one_prompt(*plugins: AnyPlugin) -> Bench:
    """Return a session that has got a prompt."""
    bench = Bench(*plugins)
    bench.prompt()
    return bench


def edited_call(*plugins: AnyPlugin) -> Bench:
    """Return a session in which `look` was called, and a person edited and approved the call if it was held."""
    return _approved(one_call(*plugins), args=freeze_object({"path": "b"}))


def two_calls(*plugins: AnyPlugin) -> Bench:
    """Return a session in which `look` was called twice, and a person has approved its family for always."""
    bench = _approved(one_call(*plugins), always=True)
    bench.returns("c3")
    bench.answers("", call("look", path="a"))
    return bench


def _approved(bench: Bench, *, always: bool = False, args: JsonObject | None = None) -> Bench:
    hold = bench.call("c3").hold
    if hold is not None:
        bench.send(ApproveSent(hold.approval_id, always=always, args=args))
    return bench


def compaction(*plugins: AnyPlugin) -> Bench:
    """Return a session that was asked to compact its context."""
    bench = Bench(*plugins)
    bench.prompt()
    bench.answers("hi")
    bench.send(CompactSent("room"))
    return bench


def replace(path: str) -> Action[object]:
    return ReplaceToolArgs({"path": path})


def unless_a(hook: object, _state: object, _ctx: object) -> Action[object]:
    return Continue() if getattr(hook, "args", {}).get("path") == "a" else BlockTool("only a")


def again(hook: object, _state: object, _ctx: object) -> Action[object]:
    return ReplaceToolArgs({"path": "d"}) if getattr(hook, "final", False) else Continue()


HOLDS: Final = HoldTool("may it?", family="look")


@frozen
class Case:
    """A session in which a rule decides about a run of a hook because of one plugin."""

    hook: str
    plugins: Callable[[], Sequence[AnyPlugin]]
    because_of: str
    """Key of the plugin without which something else comes of it."""
    story: Story = one_call


CASES: Final[Mapping[FoldingRule, Case]] = {
    FoldingRule.ADDED_UP: Case(
        "before_prompt", lambda: [plug("A", before_prompt=Intervene("be brief"))], "A", one_prompt
    ),
    FoldingRule.LAST_REPLACEMENT: Case(
        "before_tool",
        lambda: [plug("A", priority=1, before_tool=replace("b")), plug("B", priority=2, before_tool=replace("c"))],
        "B",
    ),
    FoldingRule.BLOCK: Case(
        "before_tool",
        lambda: [plug("A", priority=1, before_tool=BlockTool("no")), plug("B", priority=2, before_tool=HOLDS)],
        "A",
    ),
    FoldingRule.ABORT: Case("before_request", lambda: [plug("A", before_request=Abort("no money"))], "A", one_prompt),
    FoldingRule.SKIP: Case(
        "before_compact",
        lambda: [plug("A", before_compact=Skip()), plug("B", before_compact=Emit("seen"))],
        "A",
        compaction,
    ),
    FoldingRule.HOLD: Case("before_tool", lambda: [plug("A", before_tool=HOLDS)], "A"),
    FoldingRule.ASK: Case(
        "before_prompt", lambda: [plug("A", before_prompt=Ask(CallService("lookup")))], "A", one_prompt
    ),
    FoldingRule.BROKE: Case("before_tool", lambda: [plug("A", critical=True, before_tool=3)], "A"),
    FoldingRule.ASKED_AGAIN: Case(
        "before_tool",
        lambda: [
            plug("Guard", priority=1, critical=True, before_tool=unless_a),
            plug("A", priority=2, before_tool=replace("b")),
        ],
        "Guard",
    ),
    FoldingRule.REPLACED_AGAIN: Case(
        "before_tool",
        lambda: [
            plug("Guard", priority=1, critical=True, before_tool=again),
            plug("A", priority=2, before_tool=replace("b")),
        ],
        "Guard",
    ),
    FoldingRule.APPROVED: Case("before_tool", lambda: [plug("Guard", before_tool=HOLDS)], "Guard", edited_call),
    FoldingRule.APPROVED_ALWAYS: Case("before_tool", lambda: [plug("Guard", before_tool=HOLDS)], "Guard", two_calls),
}

WITHOUT_A_PLUGIN: Final = frozenset({FoldingRule.NOBODY_ASKED, FoldingRule.ALL_PASSED, FoldingRule.SCHEMA})
"""Rules by which no plugin decides."""


def test_each_rule_has_a_case() -> None:
    assert {*CASES, *WITHOUT_A_PLUGIN} == set(FoldingRule)


@each_case(CASES)
def test_each_rule_is_told_with_its_plugin_and_is_opposite_without_it(rule: FoldingRule) -> None:
    case = CASES[rule]
    bench = case.story(*case.plugins())
    runs = [run for run in explained(bench) if run.hook == case.hook and run.rule is rule]
    assert runs, [(run.hook, run.rule, run.sentence) for run in explained(bench)]
    assert f"`{case.because_of}`" in runs[-1].sentence
    assert rule.value in runs[-1].sentence
    without = case.story(*[plugin for plugin in case.plugins() if plugin.key != case.because_of])
    assert outcome(without) != outcome(bench)
    assert not [run for run in explained(without) if run.rule is rule and f"`{case.because_of}`" in run.sentence]


def test_rules_by_which_no_plugin_decides() -> None:
    nobody, schema = explained(one_call()), explained(one_call(bad="x"))
    passed = explained(one_call(plug("A", before_tool=Continue())))
    (run,) = [run for run in nobody if run.hook == "before_tool"]
    assert (run.rule, run.steps) == (FoldingRule.NOBODY_ASKED, ())
    (run,) = [run for run in passed if run.hook == "before_tool"]
    assert (run.rule, [step.plugin for step in run.steps]) == (FoldingRule.ALL_PASSED, ["A"])
    (run,) = [run for run in schema if run.hook == "check"]
    assert run.rule is FoldingRule.SCHEMA
    assert "`look`" in run.sentence
    assert outcome(one_call(bad="x")) != outcome(one_call())
