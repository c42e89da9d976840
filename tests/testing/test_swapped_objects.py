"""A call that is swapped after its check, by a word in one of its objects, is found with every seed.

The spelling of the look-up makes no difference: the traps of `tests.testing.swapped` are read and found alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest
from attrs import frozen

from agentrail.models import Json
from agentrail.plugins import (
    AnyPlugin,
    BeforeTool,
    BlockTool,
    BudgetGuard,
    Context,
    Continue,
    HumanApproval,
    Plugin,
    ReplaceToolArgs,
    SecurityGuard,
)
from agentrail.testing import Trace, find_conflict, order_report
from agentrail.testing.code_words import vocabulary
from tests.profiles import CAMPAIGN
from tests.testing.candidates import Cap, Polite, Shortener, asked_about
from tests.testing.swapped import TRAPS, approvals_hold

SEEDS: Final = range(12 if CAMPAIGN else 2)


@frozen
class AccountCheck(Plugin[frozenset[str]]):
    """Blocks transfers to a frozen account, and remembers the calls that it approved."""

    def init(self, ctx: Context) -> frozenset[str]:
        return frozenset()

    def before_tool(
        self, hook: BeforeTool, state: frozenset[str], ctx: Context
    ) -> Continue[frozenset[str]] | BlockTool[frozenset[str]]:
        account = hook.args.get("account")
        if hook.name == "transfer" and isinstance(account, Mapping) and "frozen" in account:
            return BlockTool("it is frozen", state)
        return Continue(state | {hook.call_id})


@frozen
class Forwarding(Plugin[None]):
    """Replaces an account that has been moved."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | ReplaceToolArgs[None]:
        if hook.name != "transfer" or "moved" not in hook.args.get("account", ()):  # type: ignore[operator]  # of a stranger's plugin
            return Continue()
        return ReplaceToolArgs({**hook.args, "account": {"frozen": True}})


def no_frozen_account_is_approved(trace: Trace) -> None:
    request = asked_about(trace, "AccountCheck")
    for start in trace.started:
        account = start.args.get("account")
        is_frozen = start.name == "transfer" and isinstance(account, Mapping) and "frozen" in account
        assert not (is_frozen and type(request.get(start.call_id)) is Continue), "a frozen account was approved"


PLUGINS: Final[tuple[AnyPlugin, ...]] = (AccountCheck(), Forwarding())
OTHERS: Final[tuple[AnyPlugin, ...]] = (Polite(), Shortener(), Cap())


def test_words_looked_up_in_an_object_are_arguments_and_no_tools() -> None:
    for plugin, word in zip(PLUGINS, ("frozen", "moved"), strict=True):
        read = vocabulary(plugin).read
        assert read is not None
        assert read.tools == ("transfer",)
        (account,) = [key for key in read.keys if key.name == "account"]
        assert any(isinstance(value, Mapping) and word in value for value in account.values)


@pytest.mark.long
@pytest.mark.parametrize("plugins", [PLUGINS, (*PLUGINS, *OTHERS)], ids=["alone", "among five"])
@pytest.mark.parametrize("seed", SEEDS)
def test_each_seed_finds_what_is_swapped_after_the_check(seed: int, plugins: tuple[AnyPlugin, ...]) -> None:
    conflict = find_conflict(plugins, no_frozen_account_is_approved, seed=seed)
    assert conflict is not None
    assert {type(plugin) for plugin in conflict.plugins} == {AccountCheck, Forwarding}
    pairs = [{type(order.first), type(order.second)} for order in order_report(plugins, seed=seed, examples=400)]
    assert {AccountCheck, Forwarding} in pairs


SHIPPED: Final[tuple[AnyPlugin, ...]] = (SecurityGuard(), BudgetGuard(max_calls=5), HumanApproval(tools=("write",)))

READ: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...], str, Json, Json]]] = {
    "subscripts": (("transfer",), ("to",), "to", {"account": "closed"}, {"account": "old"}),
    "get": ((), ("order",), "order", {"supplier": "ACME"}, {"item": "anvil"}),
    "in": (("deploy",), ("options",), "options", {"skip_tests": True}, {"hotfix": True}),
    "loop over names": (("pay",), ("payer", "payee"), "payer", {"status": "barred"}, {"status": "on leave"}),
    "patterns": (
        ("mail",),
        ("message",),
        "message",
        {"to": {"domain": "rival.example"}},
        {"to": {"domain": "bought.example"}},
    ),
    "walrus": ((), ("box",), "box", {"label": "hazard"}, {"count": 71}),
    "comprehension": ((), ("rights",), "rights", {"group": "root"}, {"heir": "nobody"}),
    "helper": (
        ("ship",),
        ("order",),
        "order",
        {"customer": {"country": "Cuvania"}},
        {"customer": {"harbour": "Port Sy"}},
    ),
    "items": (("fetch",), ("headers",), "headers", {"authorization": "admin"}, {"x-admin": "admin"}),
    "try": ((), ("target",), "target", {"host": "db", "mode": "write"}, {"host": "replica", "mode": "write"}),
    "all": (("sign",), ("value",), "value", {"flag": "red"}, {"flag": "overdue"}),
    "list": ((), ("lines",), "lines", ({"sku": "recalled"},), ({"sku": "sold out"},)),
}
"""Of each trap: the tools and the arguments that the guard reads, and a value of one of them for each plugin."""


@pytest.mark.parametrize("spelling", TRAPS)
def test_each_spelling_of_a_look_up_is_read(spelling: str) -> None:
    guard, swap = (vocabulary(plugin).read for plugin in TRAPS[spelling])
    assert guard is not None
    assert swap is not None
    tools, arguments, name, checked, swapped = READ[spelling]
    assert guard.tools == tools
    assert set(swap.tools) <= set(tools)
    assert tuple(key.name for key in guard.keys) == arguments
    for read, value in ((guard, checked), (swap, swapped)):
        (values,) = (key.values for key in read.keys if key.name == name)
        assert value in values


@pytest.mark.long
@pytest.mark.parametrize("others", [(), SHIPPED], ids=["alone", "among five"])
@pytest.mark.parametrize("spelling", TRAPS)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_seed_finds_the_swap_in_each_spelling(seed: int, spelling: str, others: tuple[AnyPlugin, ...]) -> None:
    guard, swap = TRAPS[spelling]
    conflict = find_conflict((guard, swap, *others), approvals_hold(guard), seed=seed)
    assert conflict is not None
    assert conflict.plugins == (guard, swap)
    # The pair comes first, so these are the first of the examples that are tried unasked
    report = order_report((guard, swap, *others), seed=seed, examples=60)
    assert (guard, swap, "before_tool") in [(actual.first, actual.second, actual.hook) for actual in report]
