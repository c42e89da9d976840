from collections.abc import Callable
from functools import cache

import pytest

from agentrail import Options
from agentrail.plugins import AnyPlugin
from agentrail.testing import Conflict, Trace, call, find_conflict, order_report, prompt, say
from agentrail.testing.scripted import Saying
from agentrail.testing.turns.conflicts import ConflictSetup, Invariant, shrink
from tests.testing.candidates import (
    CANDIDATES,
    Cap,
    Polite,
    Redirect,
    RiskCheck,
    SpendCounter,
    Turns,
    nothing_ever_runs,
    what_was_approved_is_safe,
    what_was_counted_was_paid,
)


@cache
def found(invariant: Invariant) -> Conflict:
    conflict = find_conflict(CANDIDATES, invariant, seed=5)
    assert conflict is not None
    return conflict


def run_snippet(conflict: Conflict) -> None:
    module: dict[str, object] = {}
    exec(conflict.snippet(), module)  # noqa: S102 - what we have printed
    (test,) = (actual for name, actual in module.items() if name.startswith("test_"))
    assert callable(test)
    test()


TRAPS: list[tuple[Invariant, set[type[AnyPlugin]]]] = [
    (what_was_counted_was_paid, {SpendCounter, Cap}),
    (what_was_approved_is_safe, {RiskCheck, Redirect}),
]


@pytest.mark.long
@pytest.mark.parametrize(("invariant", "guilty"), TRAPS)
def test_each_known_trap_is_found_and_as_small_as_can_be(invariant: Invariant, guilty: set[type[AnyPlugin]]) -> None:
    conflict = found(invariant)
    assert {type(plugin) for plugin in conflict.plugins} == guilty
    assert len(conflict.plugins) == 2
    assert len(conflict.script) <= 3
    with pytest.raises(AssertionError, match="paid"):
        run_snippet(conflict)


def test_a_conflict_tells_who_what_and_why() -> None:
    conflict = found(what_was_approved_is_safe)
    assert conflict.script == (prompt("go"), say(calls=[call("pay")]))
    assert str(conflict).startswith(
        "RiskCheck() and Redirect() together break `what_was_approved_is_safe`: a stranger was paid"
    )
    for part in (
        "RiskCheck: continue, state frozenset() → frozenset({'c3'})",
        'Redirect: replace_tool_args, {"to":"stranger"}',
        '=> pay runs with {"to":"stranger"}',
        conflict.snippet(),
    ):
        assert part in str(conflict)


def test_an_invariant_that_breaks_without_a_plugin_is_found_without_one() -> None:
    conflict = found(nothing_ever_runs)
    assert conflict.plugins == ()
    assert "No plugin at all" in str(conflict)
    assert "assert not trace.started" in str(conflict), "an assertion without words is shown"


@pytest.mark.long
def test_what_holds_gives_no_conflict() -> None:
    assert find_conflict((SpendCounter(), Polite(), Turns()), what_was_counted_was_paid, examples=200) is None


@pytest.mark.long
def test_the_same_seed_finds_the_same() -> None:
    once, again = (find_conflict(CANDIDATES, what_was_approved_is_safe, seed=3) for _ in range(2))
    assert once is not None
    assert again is not None
    assert (once.plugins, once.script) == (again.plugins, again.script)


@pytest.mark.long
def test_progress_is_told_and_time_is_kept() -> None:
    report: list[tuple[int, int]] = []
    find_conflict((Turns(),), what_was_counted_was_paid, examples=5, progress=lambda *how: report.append(how))
    assert report == [(number, 5) for number in range(5)]
    assert find_conflict(CANDIDATES, what_was_approved_is_safe, seconds=0.0) is None


def pairs(*plugins: AnyPlugin) -> list[tuple[str, str, str, bool]]:
    return [
        (type(item.first).__name__, type(item.second).__name__, item.hook, item.settled)
        for item in order_report(plugins, examples=600)
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    "order", [lambda *those: those, pytest.param(lambda *those: those[::-1], marks=pytest.mark.campaign)]
)
def test_the_order_of_two_plugins_matters_where_one_changes_what_the_other_sees(
    order: Callable[..., tuple[AnyPlugin, ...]],
) -> None:
    report = pairs(*order(SpendCounter(), Cap(), Polite()))
    assert [(set(pair[:2]), pair[2:]) for pair in report] == [({"SpendCounter", "Cap"}, ("before_tool", False))]


@pytest.mark.long
def test_a_report_shows_both_orders() -> None:
    (matters,) = order_report([RiskCheck(), Redirect()], examples=600)
    text = str(matters)
    assert 'script: prompt("go"), say(calls=[call("pay")])' in text
    assert "RiskCheck: block_tool, 'nobody knows them'" in text
    assert text.index("RiskCheck first:") < text.index("Redirect first:")


@pytest.mark.long
def test_plugins_that_are_always_there_are_in_every_set() -> None:
    always = next(plugin for plugin in CANDIDATES if isinstance(plugin, Polite))
    seen: list[tuple[object, ...]] = []

    def watched(trace: Trace) -> None:
        seen.append(trace.plugins)
        what_was_approved_is_safe(trace)

    conflict = find_conflict(CANDIDATES, watched, always=[always], seed=5)
    assert conflict is not None
    assert {type(plugin) for plugin in conflict.plugins} == {Polite, RiskCheck, Redirect}
    assert all(sum(plugin is always for plugin in plugins) == 1 for plugins in seen)


def test_no_candidate_is_needed_beside_those_that_are_always_there() -> None:
    conflict = find_conflict([], nothing_ever_runs, always=[Turns()])
    assert conflict is not None
    assert [type(plugin) for plugin in conflict.plugins] == [Turns]


def test_calls_of_many_responses_become_calls_of_one() -> None:
    def at_most_four(trace: Trace) -> None:
        calls = [script_step for script_step in trace.script if isinstance(script_step, Saying)]
        assert sum(len(script_step.response.calls) for script_step in calls) < 5

    setup = ConflictSetup(at_most_four, Options(), None)
    pay = call("pay")
    script = (prompt("go"), say(calls=[pay, pay]), say(calls=[pay, pay]), say(calls=[pay, pay]))
    _, short = shrink(setup, (), script)
    assert [len(script_step.response.calls) for script_step in short if isinstance(script_step, Saying)] == [5]
