"""What is found once is found for ever: a call that is swapped after its check, by a word in one of its objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest
from attrs import frozen

from agentrail.plugins import AnyPlugin, BeforeTool, BlockTool, Context, Continue, Plugin, ReplaceToolArgs
from agentrail.testing import Trace, find_conflict, order_report
from agentrail.testing.code_words import vocabulary
from tests.profiles import CAMPAIGN
from tests.testing.candidates import Cap, Polite, Shortener, asked_about

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
    asked = asked_about(trace, "AccountCheck")
    for start in trace.started:
        account = start.args.get("account")
        is_frozen = start.name == "transfer" and isinstance(account, Mapping) and "frozen" in account
        assert not (is_frozen and type(asked.get(start.call_id)) is Continue), "a frozen account was approved"


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
