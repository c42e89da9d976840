"""Each invariant fails for a trace that was tampered with, and holds for the original."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from agentrail.core.vocabulary.effects import StartCall, StartRequest
from agentrail.events import AgentEnd
from agentrail.models import ToolMessage, Usage
from agentrail.plugins import AnyPlugin, BudgetGuard
from agentrail.testing import Holder, ScriptStep, Trace, approve, call, prompt, say, simulate, stall
from agentrail.testing.probe_plugins import Guard
from agentrail.testing.turns.simulation import Happened
from tests.machinery.checks.trace_invariants import ALL_INVARIANTS
from tests.testing.candidates import Dice

SCRIPT: tuple[ScriptStep, ...] = (prompt("go"), say(calls=[call("read", {"path": "secret"})]))


def tampered(trace: Trace, change: Callable[[Happened], Happened]) -> Trace:
    """Return the trace with *change* applied to each of its steps."""
    trace.steps = [change(happened) for happened in trace.steps]
    return trace


def runs_anyway(happened: Happened) -> Happened:
    """Add the start of a call, whatever was decided."""
    if happened.script_step != 1 or happened.plain:
        return happened
    runs = StartCall("c3", 1, "read", 0, {"path": "secret"}, "k")
    return happened._replace(step=happened.step.but(effects=(*happened.step.effects, runs)))


def runs_twice(happened: Happened) -> Happened:
    """Add a second start for each call."""
    more = tuple(effect.but(call_id="other") for effect in happened.step.effects if isinstance(effect, StartCall))
    return happened._replace(step=happened.step.but(effects=(*happened.step.effects, *more)))


def starts_all_twice(happened: Happened) -> Happened:
    """Add each start once more, as if the call was not known to run."""
    more = tuple(one for one in happened.step.effects if isinstance(one, StartCall))
    return happened._replace(step=happened.step.but(effects=(*happened.step.effects, *more)))


def asks_twice(happened: Happened) -> Happened:
    """Add each request once more."""
    more = tuple(one for one in happened.step.effects if isinstance(one, StartRequest))
    return happened._replace(step=happened.step.but(effects=(*happened.step.effects, *more)))


def never_ends(happened: Happened) -> Happened:
    """Remove the event of the end of a turn."""
    heard = tuple(envelope for envelope in happened.step.events if not isinstance(envelope.event, AgentEnd))
    return happened._replace(step=happened.step.but(events=heard))


def asks_nonsense(happened: Happened) -> Happened:
    """Replace the messages of requests by a result without a call."""
    orphan = ToolMessage("c9", "read", (), False, None)
    effects = tuple(
        effect.but(request=effect.request.but(messages=(orphan,))) if isinstance(effect, StartRequest) else effect
        for effect in happened.step.effects
    )
    return happened._replace(step=happened.step.but(effects=effects))


BROKEN: list[tuple[str, AnyPlugin, Callable[[Happened], Happened]]] = [
    ("blocked_calls_never_run", Guard(), runs_anyway),
    ("held_calls_run_once_and_only_after_consent", Holder(), runs_anyway),
    ("each_turn_ends_once", Guard(), never_ends),
    ("budgets_are_kept", BudgetGuard(max_calls=1), runs_twice),
    ("budgets_are_kept", BudgetGuard(max_rounds=2), asks_twice),
    ("requests_are_valid", Guard(), asks_nonsense),
    ("keeps_the_books", Guard(), never_ends),
]


@pytest.mark.parametrize(("name", "plugin", "change"), BROKEN)
def test_an_invariant_sees_what_breaks_it(name: str, plugin: AnyPlugin, change: Callable[[Happened], Happened]) -> None:
    ALL_INVARIANTS[name](simulate([plugin], SCRIPT))
    with pytest.raises(AssertionError):
        ALL_INVARIANTS[name](tampered(simulate([plugin], SCRIPT), change))


def test_a_budget_in_money_is_kept_but_for_one_response() -> None:
    dear = Usage(10, 5, cost_usd=0.4)
    script = [prompt("go"), *(say(calls=[call("read", {"path": "a"})], usage=dear) for _ in range(4))]
    trace = simulate([BudgetGuard(max_usd=0.5, unknown_price="allow")], script)
    assert trace.usage.cost_usd == pytest.approx(0.8)
    ALL_INVARIANTS["budgets_are_kept"](trace)
    trace.state = trace.state.but(usage=dear.but(cost_usd=1.0))
    with pytest.raises(AssertionError, match=r"\$1.0 were spent, \$0.5 are allowed"):
        ALL_INVARIANTS["budgets_are_kept"](trace)


def test_a_plugin_that_throws_dice_does_not_do_the_same_again() -> None:
    with pytest.raises(AssertionError, match="the same script leads to another state"):
        ALL_INVARIANTS["the_same_again"](simulate([Dice()], SCRIPT))


def test_a_script_of_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="is made of steps such as"):
        simulate([], [cast("ScriptStep", "hello")])


def test_an_answer_that_stalls_after_its_first_piece_keeps_the_books() -> None:
    """No input tells of the first piece: the replay once took such an answer for one that had not begun."""
    ALL_INVARIANTS["keeps_the_books"](simulate([], [prompt("go"), stall(after=1)]))


def test_a_held_call_that_a_person_has_approved_runs_once() -> None:
    script = (prompt("go"), say(calls=[call("read", {"path": "secret"})]), approve())
    check = ALL_INVARIANTS["held_calls_run_once_and_only_after_consent"]
    check(simulate([Holder()], script))
    with pytest.raises(AssertionError, match="runs twice"):
        check(tampered(simulate([Holder()], script), starts_all_twice))
