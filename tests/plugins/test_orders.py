"""Any two built-in plugins decide alike in both orders, unless the page of plugins says why not."""

from __future__ import annotations

import re

from agentrail.hooks.actions import Failed
from agentrail.hooks.ruling import Verdict
from agentrail.plugins import Reflection, SelfVerify
from agentrail.testing import OrderMatters, call, find_conflict, order_report, prompt, say, simulate, tell
from tests.docs.sources import ROOT
from tests.plugins.built_in import shipped, wider
from tests.profiles import CAMPAIGN
from tests.testing.candidates import (
    Cap,
    Redirect,
    RiskCheck,
    SpendCounter,
    what_was_approved_is_safe,
    what_was_counted_was_paid,
)

EXAMPLES = 600 if CAMPAIGN else 10
"""How many scripts are played with each pair."""

_RULE = re.compile(r"^\* \*\*(.+?)\*\*", re.MULTILINE)

ENDS = "The first that ends or pauses a hook counts."
SWITCHES = "The last that chooses a model counts."
SENDS = "The first that sends the model back counts."


def rules() -> list[str]:
    """Return the reasons of the page why the order of two plugins may matter."""
    page = (ROOT / "docs" / "plugins" / "index.md").read_text(encoding="utf-8")
    _, _, told = page.partition("## Where the order of two plugins matters\n")
    return _RULE.findall(told.partition("\n## ")[0])


def why(found: OrderMatters) -> str | None:
    """Return the reason of the page for a difference; `None` if it has none."""
    ruled = [
        ruling
        for trace in found.traces()
        for happened in trace.steps
        for ruling in happened.step.rulings
        if ruling.hook == found.hook
    ]
    if any(ruling.verdict is not Verdict.PASS for ruling in ruled):
        return ENDS
    return SWITCHES if any(ruling.gathered.switch is not None for ruling in ruled) else None


def test_where_the_order_of_two_plugins_matters_the_page_says_why() -> None:
    found = order_report([wider(cls) for cls in shipped()], examples=EXAMPLES)
    without = [str(one) for one in found if why(one) is None]
    assert not without, "\n\n".join(without)
    assert [str(one) for one in found if not one.settled] == [], "priorities that differ settle the order"
    assert rules() == [ENDS, SWITCHES, SENDS]


def test_the_first_of_a_check_and_a_review_sends_the_model_back_alone() -> None:
    pair = (SelfVerify("check"), Reflection())
    script = (prompt("go"), say(calls=[call("check_in")]), say("the answer"), tell(Failed("1 failed")), say("another"))
    first = [
        [text.split(",")[0] for text in trace.messages[4].text.splitlines()[:1]]
        for trace in (simulate(pair, script, as_given=True), simulate(pair[::-1], script, as_given=True))
    ]
    assert first == [["The check `check` was run"], ["Before your answer is final"]]


def test_beside_the_built_in_plugins_the_two_known_traps_are_found_and_none_of_them_is_needed() -> None:
    """A counter before a guard that replaces; a check that approves what is then swapped: no built-in one is in it."""
    built_in = [wider(cls) for cls in shipped()]
    for trap, invariant in (
        ((SpendCounter(), Cap()), what_was_counted_was_paid),
        ((RiskCheck(), Redirect()), what_was_approved_is_safe),
    ):
        for alone in trap:
            assert find_conflict([*built_in, alone], invariant, examples=4_000 if CAMPAIGN else 40) is None
