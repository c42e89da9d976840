"""Plays random scripts against rows of correct plugins in any order, from a seed: each plugin's decision must count."""

from __future__ import annotations

from random import Random
from typing import Final

from attrs import frozen

from agentrail import BlockTool, Context, Continue, Plugin
from agentrail.hooks.attachments import unkeyed
from agentrail.models import Usage
from agentrail.plugins import Attachable, BeforeTool, BudgetGuard, Keyed
from agentrail.testing import (
    ArgsReplacer,
    Choose,
    Holder,
    Recorder,
    ScriptStep,
    Trace,
    abort,
    approve,
    call,
    prompt,
    raises,
    reject,
    returns,
    say,
    simulate,
    wait,
)
from agentrail.testing.probe_plugins import Guard
from tests.machinery.checks.trace_invariants import ALL_INVARIANTS

PATHS: Final = ("a", "b", "secret")
TOOLS: Final = ("read", "write")


@frozen
class Blocker(Plugin[None]):
    """Blocks calls on one path, and is not asked again when another plugin changes it."""

    path: str = "b"

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        return BlockTool("not this one") if hook.args.get("path") == self.path else Continue(state)


CANDIDATES: Final[tuple[Attachable, ...]] = (
    Blocker(),
    Guard(),
    Keyed("to secret", ArgsReplacer({"path": "secret"})),
    Keyed("to b", ArgsReplacer({"path": "b"})),
    Holder(frozenset({"write"})),
    BudgetGuard(max_calls=3, max_tokens=200),
)


def draw_row(choose: Choose) -> tuple[Attachable, ...]:
    """Draw some plugins, in any order."""
    left = list(choose.some(CANDIDATES, 50))
    row: list[Attachable] = [Recorder()]
    while left:
        row.append(left.pop(choose.below(len(left))))
    return tuple(row)


def draw_script(choose: Choose) -> list[ScriptStep]:
    """Draw a script: a prompt, then responses with calls, results, decisions and aborts."""
    script_steps: list[ScriptStep] = [prompt("go")]
    for _ in range(choose.number(1, 8)):
        calls = [call(choose.pick(TOOLS), {"path": choose.pick(PATHS)}) for _ in range(choose.number(1, 2))]
        more = (returns("fine"), raises("it broke"), approve(), approve({"path": "a"}), reject(), abort(), wait(200.0))
        script_steps.append(say(calls=calls, usage=Usage(10, 5)) if choose.percent(50) else choose.pick(more))
        if choose.percent(15):
            script_steps.append(prompt("once more"))
    return script_steps


def blocks_count(trace: Trace) -> None:
    """A call that a plugin blocked does not run, whatever the place of the plugin in the row."""
    for decision in trace.decisions:
        if isinstance(decision.action, BlockTool) and isinstance(decision.hook, BeforeTool):
            ran = [start for start in trace.started if start.call_id == decision.hook.call_id]
            assert not ran, f"{decision.plugin} has blocked {ran}"


def guards_have_the_last_word(trace: Trace) -> None:
    """If a `Guard` is in the row, no call runs with its path, even if another plugin replaced the arguments."""
    if any(isinstance(plugin, Guard) for plugin in trace.plugins):
        ran = [start for start in trace.started if start.args.get("path") == "secret"]
        assert not ran, f"{ran} past a guard"


def nobody_is_passed_over(trace: Trace) -> None:
    """Every plugin of the row that rules on calls was asked about each call that runs."""
    asked = {(one.plugin, one.hook.call_id) for one in trace.decisions if isinstance(one.hook, BeforeTool)}
    for key, plugin in map(unkeyed, trace.plugins):
        missed = [start for start in trace.started if (key, start.call_id) not in asked]
        assert not missed or isinstance(plugin, Recorder), f"{key} was not asked about {missed}"


CHECKS: Final = {
    **ALL_INVARIANTS,
    "blocks_count": blocks_count,
    "guards_have_the_last_word": guards_have_the_last_word,
    "nobody_is_passed_over": nobody_is_passed_over,
}


def broken_check(seed: int) -> str | None:
    """Play the row and the script of one seed; return the name of the check that fails, or `None`."""
    choose = Choose(Random(seed).randrange)
    trace = simulate(draw_row(choose), draw_script(choose))
    for name, check in CHECKS.items():
        try:
            check(trace)
        except AssertionError:
            return name
    return None
