"""Any two built-in plugins decide alike in both orders, unless the page of plugins says why not."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

import pytest

from agentrail import Ask, BlockTool, Context, Continue, HoldTool, Intervene, ReplaceToolResult
from agentrail.plugins import (
    AfterTool,
    AnyPlugin,
    Attachable,
    BeforeFinish,
    BeforeTool,
    BudgetGuard,
    Failed,
    HumanApproval,
    Keyed,
    LargeResultOffload,
    ModelRouter,
    PermissionPolicy,
    Recovery,
    Reflection,
    SelfVerify,
)
from agentrail.plugins.quality.self_verify import Verification
from agentrail.testing import Choose, call, find_conflict, order_report, permanent, prompt, returns, say, simulate, tell
from agentrail.testing.code_words import vocabulary
from agentrail.tools import Ok, err
from tests.docs.sources import ROOT
from tests.plugins.both_orders import (
    CHOOSERS,
    ENDS,
    SEES,
    SENDERS,
    SENDS,
    SWITCHES,
    TELLERS,
    Pair,
    Script,
    difference,
    play_both,
    why,
)
from tests.plugins.built_in import shipped, wider
from tests.plugins.hostile_turns import draw_script, variants
from tests.profiles import CAMPAIGN
from tests.testing.candidates import (
    Cap,
    Redirect,
    RiskCheck,
    SpendCounter,
    what_was_approved_is_safe,
    what_was_counted_was_paid,
)

EXAMPLES = 600 if CAMPAIGN else 6
"""How many scripts are played with each pair."""

_RULE = re.compile(r"^\* \*\*(.+?)\*\*(.*)", re.MULTILINE)
_NAME = re.compile(r"`([A-Z]\w+)`")


def rules() -> dict[str, frozenset[str]]:
    """Return the reasons of the page why the order of two plugins may matter, each with the plugins that it names."""
    page = (ROOT / "docs" / "plugins" / "index.md").read_text(encoding="utf-8")
    _, _, told = page.partition("## Where the order of two plugins matters\n")
    return {rule: frozenset(_NAME.findall(names)) for rule, names in _RULE.findall(told.partition("\n## ")[0])}


def unexplained(pair: Pair, script: Script) -> str | None:
    """Return what differs between the two orders of *pair* and has no reason on the page; `None` if nothing has."""
    here, there = play_both(pair, script)
    if here.broken or there.broken:
        return f"a plugin broke: {(*here.broken, *there.broken)}"
    place = difference(here, there)
    if place is None or (isinstance(place, int) and why(here.runs[place], there.runs[place]) is not None):
        return None
    return place if isinstance(place, str) else f"{here.runs[place]}\n\nand\n\n{there.runs[place]}"


def searched(first: Sequence[Attachable], second: Sequence[Attachable], examples: int) -> str | None:
    """Play random scripts with one of *first* and one of *second*; return the first difference that has no reason."""
    choose = Choose(random.Random(0).randrange)
    words = {id(plugin): vocabulary(plugin) for plugin in (*first, *second)}
    for _ in range(examples):
        pair = choose.pick(first), choose.pick(second)
        script = draw_script(choose, [words[id(plugin)] for plugin in pair])
        found = unexplained(pair, script)
        if found is not None:
            return f"{pair}\n{script}\n{found}"
    return None


@pytest.mark.campaign
@pytest.mark.long
def test_where_the_order_of_two_plugins_matters_the_page_says_why() -> None:
    found = [searched(one, other, EXAMPLES) for one, other in combinations(map(variants, shipped()), 2)]
    without = [one for one in found if one is not None]
    assert not without, "\n\n".join(without)


@pytest.mark.campaign
@pytest.mark.long
def test_each_order_of_two_plugins_that_the_kit_reports_has_a_reason_on_the_page() -> None:
    report = order_report([wider(cls) for cls in shipped()], examples=EXAMPLES)
    found = [(matters, unexplained((matters.first, matters.second), matters.script)) for matters in report]
    without = [f"{matters}\n{reason}" for matters, reason in found if reason is not None]
    assert not without, "\n\n".join(without)


def test_the_page_names_the_plugins_that_each_reason_is_for() -> None:
    named = rules()
    assert list(named) == [ENDS, SWITCHES, SENDS, SEES]
    assert [named[rule] for rule in (SWITCHES, SENDS, SEES)] == [CHOOSERS, SENDERS, TELLERS]


def test_priorities_settle_the_order_of_any_two() -> None:
    assert len({cls.priority for cls in shipped()}) == len(shipped())


SHOWN: Final[Mapping[str, tuple[Pair, Script]]] = {
    ENDS: (
        (PermissionPolicy(deny=["shell(rm *)"]), BudgetGuard(max_calls=1)),
        (prompt("go"), say(calls=[call("shell", {"command": "rm x"})]), say(calls=[call("read")])),
    ),
    SWITCHES: (
        (Recovery(["a"], after_attempts=1), ModelRouter([{"model": "large", "turn_gt": 1}])),
        (prompt("go"), permanent("no key"), prompt("again")),
    ),
    SENDS: (
        (SelfVerify("check"), Reflection()),
        (prompt("go"), say(calls=[call("edit")]), say("I prefer tea")),
    ),
    SEES: (
        (Recovery(["a"], after_tool_failures=1), LargeResultOffload(max_tokens=2, head=1, tail=1)),
        (prompt("go"), say(calls=[call("read")]), returns(err("x" * 600))),
    ),
}
"""For each reason a pair of plugins and a script that show it."""


@pytest.mark.parametrize("reason", SHOWN)
def test_each_reason_of_the_page_is_needed(reason: str) -> None:
    pair, script = SHOWN[reason]
    here, there = play_both(pair, script)
    place = difference(here, there)
    assert isinstance(place, int)
    assert why(here.runs[place], there.runs[place]) == reason


class SwallowsErrors(LargeResultOffload):
    """Makes an error that it offloads a result: a plugin that is asked later does not hear of the error."""

    def after_tool(
        self, hook: AfterTool, state: None, ctx: Context
    ) -> Continue[None] | Ask[None] | ReplaceToolResult[None]:
        done = super().after_tool(hook, state, ctx)
        return done.but(result=Ok(done.result.content)) if isinstance(done, ReplaceToolResult) else done


class TrustsApproval(PermissionPolicy):
    """Lets a call pass that it denies, if a person has approved it when another plugin held it."""

    def before_tool(
        self, hook: BeforeTool, state: None, ctx: Context
    ) -> Continue[None] | BlockTool[None] | HoldTool[None]:
        return Continue() if hook.approved else super().before_tool(hook, state, ctx)


class ChecksAnyway(SelfVerify):
    """Checks an answer, and sends the model back, even if a plugin before it has sent it back already."""

    def before_finish(
        self, hook: BeforeFinish, state: Verification, ctx: Context
    ) -> Continue[Verification] | Intervene[Verification] | Ask[Verification]:
        return super().before_finish(hook.but(texts=()), state, ctx)


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "right", "other"),
    [
        (SwallowsErrors(max_tokens=2, head=1, tail=1), LargeResultOffload(max_tokens=2, head=1, tail=1), Recovery),
        (TrustsApproval(deny=["shell(rm *)"]), PermissionPolicy(deny=["shell(rm *)"]), HumanApproval),
        (ChecksAnyway("check", after=("*",)), SelfVerify("check", after=("*",)), Reflection),
    ],
    ids=["an error is swallowed", "an approval is trusted", "an answer is checked anyway"],
)
def test_a_plugin_that_is_wrong_in_one_order_is_found(
    wrong: AnyPlugin, right: AnyPlugin, other: type[AnyPlugin]
) -> None:
    """It has the name of the right one, so that each reason that the page has for that one is tried."""
    name = type(right).__name__
    assert searched([Keyed(name, wrong)], variants(other), 150) is not None
    assert searched([right], variants(other), 30) is None


def test_the_first_of_a_check_and_a_review_sends_the_model_back_alone() -> None:
    pair = (SelfVerify("check"), Reflection())
    script = (prompt("go"), say(calls=[call("check_in")]), say("the answer"), tell(Failed("1 failed")), say("another"))
    first = [
        [text.split(",")[0] for text in trace.messages[4].text.splitlines()[:1]]
        for trace in (simulate(pair, script, as_given=True), simulate(pair[::-1], script, as_given=True))
    ]
    assert first == [["The check `check` was run"], ["Before your answer is final"]]


@pytest.mark.long
def test_beside_the_built_in_plugins_the_two_known_traps_are_found_and_none_of_them_is_needed() -> None:
    """A counter before a guard that replaces; a check that approves what is then swapped: no built-in one is in it."""
    built_in = [wider(cls) for cls in shipped()]
    for trap, invariant in (
        ((SpendCounter(), Cap()), what_was_counted_was_paid),
        ((RiskCheck(), Redirect()), what_was_approved_is_safe),
    ):
        for alone in trap:
            assert find_conflict([*built_in, alone], invariant, examples=4_000 if CAMPAIGN else 40) is None
