"""What a reader has broken of `BudgetGuard`, `OutputFilter` and `ContentPolicy`, and the searches that find it."""

from __future__ import annotations

from random import Random
from typing import Final

from agentrail.hooks.actions import Abort, BlockTool, Continue
from agentrail.hooks.context import Context
from agentrail.hooks.moments import AfterResponse, AfterTool, AfterTurn, BeforeRequest, BeforeTool
from agentrail.plugins import budget
from agentrail.plugins.budget import BudgetGuard, Spent
from agentrail.testing.world.choose import Choose
from agentrail.values.content import Text
from agentrail.values.messages import AssistantMessage
from agentrail.values.tools import ok
from agentrail.values.usage import NOTHING_USED
from property_tests.planted.change import Change

# ruff: noqa: SLF001 - private parts are what is broken here

CHANGES: Final = (
    Change(
        "calls_at_once_count_twice",
        "the time in which two calls run counts for each of them",
        budget._counted,
        "more = span[1] - span[0] - sum(end - begin for begin, end in within)",
        "more = now - began",
        "budget_seconds",
    ),
    Change(
        "failed_attempts_take_no_time",
        "the time of an attempt that fails does not count",
        BudgetGuard.before_request,
        "state = self._responded(state, ctx)",
        "state = state",
        "budget_seconds",
    ),
    Change(
        "seconds_of_turns_add_up",
        "the seconds of one turn count for the next",
        BudgetGuard.after_turn,
        ", turn_worked_ms=0",
        "",
        "budget_seconds",
    ),
    Change(
        "seconds_inherited_whole",
        "a sub-agent may take as many seconds as its parent had at first",
        BudgetGuard.inherited,
        "_left(self.max_seconds, state.worked_ms / 1000)",
        "self.max_seconds",
        "budget_seconds",
    ),
)


# Seconds


class Watch:
    """Plays the work of a session to a guard, and keeps the milliseconds in which something ran."""

    def __init__(self, guard: BudgetGuard) -> None:
        self.guard = guard
        self.state = Spent()
        self.now = 0
        self.session: set[int] = set()
        self.turn: set[int] = set()

    @property
    def ctx(self) -> Context:
        """The context of now."""
        return Context(now_ms=self.now)

    def take(self, action: object) -> None:
        """Keep the state that an action has."""
        if isinstance(action, Continue | Abort) and isinstance(action.state, Spent):
            self.state = action.state

    def ran(self, began: int, ended: int) -> None:
        """Note that something ran."""
        self.session.update(range(began, ended))
        self.turn.update(range(began, ended))

    @property
    def is_over(self) -> bool:
        """Whether a limit of seconds is used up."""
        limits = ((self.guard.max_seconds, self.session), (self.guard.max_turn_seconds, self.turn))
        return any(limit is not None and len(ran) >= limit * 1000 for limit, ran in limits)


def broken_seconds(number: int) -> str | None:
    """Play requests, attempts that fail, and calls at the same time; compare what the guard says with a plain count."""
    choose = Choose(Random(number).randrange)
    watch = Watch(BudgetGuard(max_seconds=choose.number(20, 200) / 1000, max_turn_seconds=choose.pick((0.05, 0.1))))
    for _ in range(choose.number(1, 4)):
        problem = _turn(watch, choose) or _inherited(watch)
        if problem is not None:
            return problem
        watch.take(
            watch.guard.after_turn(AfterTurn("finished", None, None, (), NOTHING_USED, 0, 0), watch.state, watch.ctx)
        )
        watch.turn.clear()
        watch.now += choose.below(1_000)
    return None


def _turn(watch: Watch, choose: Choose) -> str | None:
    for _ in range(choose.number(1, 4)):
        for _ in range(choose.pick((1, 1, 2))):  # the first attempt fails
            action = watch.guard.before_request(BeforeRequest(()), watch.state, watch.ctx)
            if isinstance(action, Abort) is not watch.is_over:
                return "request"
            watch.take(action)
            if isinstance(action, Abort):
                return None
            began, watch.now = watch.now, watch.now + choose.below(30)
            watch.ran(began, watch.now)
        said = AfterResponse(AssistantMessage((Text("on"),)))
        watch.take(watch.guard.after_response(said, watch.state, watch.ctx))
        watch.now += choose.below(1_000)
        if (
            isinstance(watch.guard.before_tool(BeforeTool("a", {}, "c"), watch.state, watch.ctx), BlockTool)
            is not watch.is_over
        ):
            return "call"
        first = watch.now
        spans = [(first + choose.below(40), choose.below(20)) for _ in range(choose.below(4))]
        for begin, length in sorted(spans, key=sum):
            watch.now = begin + length
            watch.ran(begin, watch.now)
            hook = AfterTool("a", "c", ok("done"), duration_ms=length)
            watch.take(watch.guard.after_tool(hook, watch.state, watch.ctx))
    return None


def _inherited(watch: Watch) -> str | None:
    child = watch.guard.inherited(watch.state, watch.ctx)
    left = max(0, (watch.guard.max_seconds or 0) - len(watch.session) / 1000)
    same = isinstance(child, BudgetGuard) and child.max_seconds is not None and abs(child.max_seconds - left) < 1e-9
    return None if same else "inherited"


FILTERS: Final = {"budget_seconds": broken_seconds}
"""The searches by name: each takes a seed, and returns what is wrong, or `None`."""
