"""The built-in plugins, combined with each other and with plugins that interfere: all invariants of sessions hold."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.settings import read_settings
from agentrail.models import PROVIDERS
from agentrail.plugins import AnyPlugin, Attachable
from agentrail.testing import ArgsReplacer, Holder, check_plugin, plugin_sets, scripts, simulate
from agentrail.testing.probe_plugins import Asker, CriticalScripted, Guard, Listener, Raiser, Scripted
from agentrail.testing.turns.conflicts import find_conflicts
from property_tests.volume import profile
from tests.kit import EMPTY
from tests.machinery.checks.trace_invariants import ALL_INVARIANTS
from tests.plugins.built_in import made, shipped, wider

MANY = 1 if profile() == "ci" else 20
EXAMPLES = 40 if profile() == "ci" else 20_000
"""How many sets of plugins, each with a script, are searched for a conflict."""
OF_LAWS = 4 if profile() == "ci" else 1_200
"""How many examples of each law are drawn for each plugin."""

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


BUILT_IN: tuple[Attachable, ...] = (*map(wider, shipped()),)
CANDIDATES: tuple[Attachable, ...] = (*BUILT_IN, *OTHERS)


@pytest.mark.parametrize("cls", shipped(), ids=lambda cls: cls.__name__)
def test_a_built_in_plugin_obeys_the_laws(cls: type[AnyPlugin]) -> None:
    check_plugin(made(cls), examples=OF_LAWS)
    if wider(cls) != made(cls):
        check_plugin(wider(cls), examples=OF_LAWS)


@pytest.mark.parametrize("candidates", [BUILT_IN, CANDIDATES], ids=["built-in ones", "all"])
def test_no_combination_breaks_an_invariant(candidates: tuple[Attachable, ...]) -> None:
    conflicts = find_conflicts(candidates, ALL_INVARIANTS, examples=EXAMPLES)
    assert not conflicts, "\n\n".join(map(str, conflicts.values()))


@settings(max_examples=30 * MANY, deadline=None)
@given(st.data())
def test_each_provider_can_be_sent_each_request(data: st.DataObject) -> None:
    some = data.draw(plugin_sets(CANDIDATES, most=4))
    trace = simulate(some, data.draw(scripts(some)))
    for name, provider in PROVIDERS.items():
        for request in trace.requests:
            assert format_of(provider).render(request, name, "model", read_settings(EMPTY)).body
