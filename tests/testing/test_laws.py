from collections.abc import Callable

import pytest

from agentrail.hooks.attachments import attached_plugin
from agentrail.plugins import AnyPlugin, BudgetGuard, EventLogger, HumanApproval, SecurityGuard
from agentrail.testing import LAWS, LawBrokenError, check_plugin
from tests.profiles import CAMPAIGN
from tests.testing.candidates import (
    HEARD,
    Attribute,
    Careless,
    Dice,
    Eavesdropper,
    Gossip,
    Greeter,
    Hoarder,
    Memory,
    Outside,
    Redirect,
    SpendCounter,
    Turns,
)
from tests.testing.pairs import PAIRS
from tests.testing.planted import PLANTED

BROKEN: dict[type[AnyPlugin], tuple[str, str]] = {
    Dice: ("the same answer", "before_tool"),
    Careless: ("no exception", "before_tool"),
    Memory: ("nothing is changed", "before_prompt"),
    Hoarder: ("a state that can be kept", "before_tool"),
}


def broken_by(plugin: AnyPlugin) -> LawBrokenError:
    with pytest.raises(LawBrokenError) as broken:
        check_plugin(plugin)
    return broken.value


@pytest.mark.long
@pytest.mark.parametrize(
    "make", [SpendCounter, Redirect, Turns, SecurityGuard, HumanApproval, BudgetGuard, EventLogger], ids=str
)
def test_a_plugin_that_obeys_the_laws_passes(make: Callable[[], AnyPlugin]) -> None:
    check_plugin(make(), examples=30)


@pytest.mark.long
@pytest.mark.parametrize(
    "plugin", [plugin for pair in PAIRS for plugin in pair[:2]], ids=lambda item: type(item).__name__
)
def test_a_plugin_that_reads_several_arguments_and_obeys_the_laws_passes(plugin: AnyPlugin) -> None:
    for seed in range(3 if CAMPAIGN else 1):
        check_plugin(plugin, examples=60 if CAMPAIGN else 5, seed=seed)


@pytest.mark.parametrize("cls", BROKEN)
def test_a_broken_law_is_named_with_the_hook(cls: type[AnyPlugin]) -> None:
    broken = broken_by(cls())
    assert (broken.law, broken.where) == BROKEN[cls]
    assert LAWS[broken.law] in str(broken)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("cls", "law", "where"), PLANTED)
def test_a_law_that_breaks_where_two_things_meet_is_found(
    cls: type[AnyPlugin], law: str, where: str, seed: int
) -> None:
    with pytest.raises(LawBrokenError) as broken:
        check_plugin(cls(), seed=seed)
    assert (broken.value.law, broken.value.where) == (law, where)


@pytest.mark.parametrize("cls", BROKEN)
def test_the_printed_example_is_a_test_that_fails_the_same_way(cls: type[AnyPlugin]) -> None:
    broken = broken_by(cls())
    module: dict[str, object] = {}
    exec(broken.example, module)  # noqa: S102 - what we have printed
    (test,) = (actual for name, actual in module.items() if name.startswith("test_"))
    assert callable(test)
    with pytest.raises(LawBrokenError) as again:
        test()
    assert (again.value.law, again.value.where) == (broken.law, broken.where)


REMEMBERING: dict[type[AnyPlugin], str] = {
    Outside: "before_tool",
    Gossip: "before_tool",
    Attribute: "before_tool",
    Greeter: "init",
    Eavesdropper: "on_event",
}


@pytest.mark.long
@pytest.mark.parametrize("cls", REMEMBERING)
def test_what_is_remembered_outside_of_the_state_is_found(cls: type[AnyPlugin]) -> None:
    """The class does not show its memory, and two calls in a row need not show it either."""
    attached_plugin("joins", cls())
    HEARD.clear()
    Attribute.calls = 0
    broken = broken_by(cls())
    assert (broken.law, broken.where) == ("the same answer", REMEMBERING[cls])


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.parametrize("cls", [Outside, Attribute])
def test_the_printed_example_of_what_is_remembered_fails_the_same_way(cls: type[AnyPlugin]) -> None:
    HEARD.clear()
    Attribute.calls = 0
    printed = broken_by(cls()).example
    module: dict[str, object] = {}
    exec(printed, module)  # noqa: S102 - what we have printed
    HEARD.clear()
    Attribute.calls = 0
    test = module["test_it_remembers_nothing"]
    assert callable(test)
    with pytest.raises(LawBrokenError, match="remembers something outside of its state"):
        test()
