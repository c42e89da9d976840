"""The built-in plugins, combined with each other and with plugins that interfere: all invariants of sessions hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentrail.plugins
from agentrail.adapters.models.providers import PROVIDERS, format_of
from agentrail.adapters.models.settings import read_settings
from agentrail.hooks.plugin import AnyPlugin, Attachable, Plugin
from agentrail.plugins import (
    BudgetGuard,
    EventLogger,
    HumanApproval,
    ModelRouter,
    PatchToolCalls,
    PromptCache,
    Recovery,
    SecurityGuard,
)
from agentrail.testing import INVARIANTS, check_plugin, find_conflict, plugin_sets, scripts, simulate
from agentrail.testing.breaking_probes import Listener, Raiser
from agentrail.testing.probes import ArgsReplacer, Asker, CriticalScripted, Guard, Holder, Scripted
from agentrail.values.json import EMPTY
from property_tests.volume import profile

MANY = 1 if profile() == "ci" else 20

BUILT_IN: dict[type[AnyPlugin], tuple[Callable[[], AnyPlugin], ...]] = {
    SecurityGuard: (SecurityGuard, lambda: SecurityGuard(rules=frozenset(), timeout=None)),
    HumanApproval: (HumanApproval, lambda: HumanApproval(tools=("write",), timeout=None)),
    BudgetGuard: (BudgetGuard, lambda: BudgetGuard(max_tokens=150, max_calls=2, max_rounds=4, max_turn_calls=1)),
    EventLogger: (EventLogger,),
    Recovery: (
        lambda: Recovery("spare"),
        lambda: Recovery(["a", "b"], after_attempts=1, after_tool_failures=1, return_after=0),
    ),
    ModelRouter: (
        lambda: ModelRouter((), "small"),
        lambda: ModelRouter([{"model": "large", "round_gt": 1}, {"model": "late", "tokens_gt": 30}], "small"),
    ),
    PromptCache: (PromptCache,),
    PatchToolCalls: (PatchToolCalls, lambda: PatchToolCalls("lost", is_error=False)),
}
"""Each plugin that ships, made with its defaults, and with options with which it does more."""

OTHERS: tuple[Attachable, ...] = (
    Holder(frozenset({"read"})),
    Asker(),
    ArgsReplacer({"path": "secret"}),
    Guard(),
    Raiser("after_tool"),
    Listener(raises_at=7),
    Scripted(
        {"before_tool": ("continue", "replace_tool_args", "hold_tool", "ask"), "after_response": ("abort", "skip")}
    ),
    CriticalScripted({"before_tool": ("block_tool", "continue"), "before_finish": ("intervene", "continue")}),
)


CANDIDATES: tuple[Attachable, ...] = (*(makes[-1]() for makes in BUILT_IN.values()), *OTHERS)


def test_each_built_in_plugin_is_here() -> None:
    names = (getattr(agentrail.plugins, name) for name in agentrail.plugins.__all__)
    shipped = {cls for cls in names if isinstance(cls, type) and issubclass(cls, AnyPlugin)}
    assert shipped - {AnyPlugin, Plugin} == set(BUILT_IN)


@pytest.mark.parametrize("cls", BUILT_IN)
def test_a_built_in_plugin_obeys_the_laws(cls: type[AnyPlugin]) -> None:
    for make in BUILT_IN[cls]:
        check_plugin(make(), examples=60 * MANY)


@pytest.mark.parametrize("name", INVARIANTS)
def test_no_combination_breaks_an_invariant(name: str) -> None:
    conflict = find_conflict(CANDIDATES, INVARIANTS[name], examples=400 * MANY)
    assert conflict is None, str(conflict)


@settings(max_examples=60 * MANY, deadline=None)
@given(st.data())
def test_each_provider_can_be_sent_each_request(data: st.DataObject) -> None:
    some = data.draw(plugin_sets(CANDIDATES, most=4))
    trace = simulate(some, data.draw(scripts(some)))
    for name, provider in PROVIDERS.items():
        for request in trace.requests:
            assert format_of(provider).render(request, name, "model", read_settings(EMPTY)).body
