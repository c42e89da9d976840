"""Plugins that are none: what guards nothing is refused where it is written, or where it joins."""
# ruff: noqa: ARG001, ARG005 - members of the right form that need nothing they are given

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from types import MappingProxyType

import attrs
import pytest
from attrs import define, frozen

from agentrail.errors import BadPlugin
from agentrail.hooks.actions import BlockTool, Continue
from agentrail.hooks.context import Context
from agentrail.hooks.contract import CONSTANTS, OTHERS
from agentrail.hooks.plugin import AnyPlugin, Plugin
from agentrail.hooks.records import HOOK_NAMES, BeforeTool
from agentrail.hooks.seats import seat_for
from agentrail.plugins import BudgetGuard, HumanApproval, SecurityGuard

HOOK = BeforeTool("rm", {}, "c1")
NO = BlockTool[None]("no")


async def waits(self: object, hook: object, state: object, ctx: object) -> object:  # noqa: ASYNC124 - to be refused
    return NO


async def streams(self: object, hook: object, state: object, ctx: object) -> AsyncIterator[object]:
    yield NO


def yields(self: object, hook: object, state: object, ctx: object) -> Iterator[object]:
    yield NO


def blocks(self: object, hook: object, state: object, ctx: object) -> object:
    return NO


def timed(function: Callable[..., object]) -> Callable[..., object]:
    """A decorator that hides what it wraps."""

    @functools.wraps(function)
    def wrapper(*args: object) -> object:
        return function(*args)

    return wrapper


class Waiting:
    async def __call__(self, hook: object, state: object, ctx: object) -> object:  # noqa: ASYNC124 - to be refused
        return NO


class Blocking:
    def __call__(self, hook: object, state: object, ctx: object) -> object:
        return NO


def made(**members: object) -> type[AnyPlugin]:
    return type("Made", (Plugin,), members)


UNFIT: dict[str, object] = {
    "async": waits,
    "async generator": streams,
    "generator": yields,
    "wrapped": timed(waits),
    "wrapped twice": timed(timed(yields)),
    "partial": functools.partial(waits, None),
    "partial method": functools.partialmethod(waits),
    "static": staticmethod(functools.partial(waits, None)),
    "class method": classmethod(waits),
    "callable": Waiting(),
    "property": property(lambda self: lambda hook, state, ctx: NO),
    "nothing": None,
    "too few": lambda self, hook, state: NO,
    "too many": lambda self, hook, state, ctx, more: NO,
    "keyword only": lambda self, hook, *, state, ctx: NO,
    "static with self": staticmethod(blocks),
}


@pytest.mark.parametrize("member", UNFIT.values(), ids=UNFIT)
def test_a_hook_that_would_not_answer_is_refused_with_its_class(member: object) -> None:
    with pytest.raises(BadPlugin, match="`before_tool`"):
        made(before_tool=member)


@pytest.mark.parametrize("name", sorted({*HOOK_NAMES, *OTHERS} - {"init", "upgrade", "inherited", "describe"}))
def test_every_member_that_is_given_a_state_is_looked_at(name: str) -> None:
    with pytest.raises(BadPlugin, match=f"`{name}` is async"):
        made(**{name: waits})


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_members_beside_the_hooks_are_looked_at(name: str) -> None:
    async def waits_for_anything(*args: object) -> object:  # noqa: ASYNC124 - to be refused
        return None

    with pytest.raises(BadPlugin, match=f"`{name}` is async"):
        made(**{name: waits_for_anything})
    with pytest.raises(BadPlugin, match=f"`{name}` does not take"):
        made(**{name: lambda one, two, three, four, five, six: None})


FIT: dict[str, object] = {
    "plain": blocks,
    "wrapped": timed(blocks),
    "any arguments": lambda *args: NO,
    "a default more": lambda self, hook, state, ctx, more=1: NO,
    "static": staticmethod(lambda hook, state, ctx: NO),
    "class method": classmethod(blocks),
    "partial method": functools.partialmethod(blocks),
    "partial": functools.partial(blocks, None),
    "callable": Blocking(),
}


@pytest.mark.parametrize("member", FIT.values(), ids=FIT)
def test_what_answers_is_a_hook(member: object) -> None:
    plugin = made(before_tool=member)()
    assert "before_tool" in seat_for("p", plugin).hooks
    assert plugin.before_tool(HOOK, None, Context()) == NO  # type: ignore[attr-defined]


def test_a_mixin_is_looked_at_too() -> None:
    class Mixin:
        before_tool = waits

    with pytest.raises(BadPlugin, match="async"):
        type("Mixed", (Mixin, Plugin), {})
    with pytest.raises(BadPlugin, match="there is no hook `before_tol`"):
        type("Mixed", (type("Mixin", (), {"before_tol": blocks}), Plugin), {})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("before_tol", "before_tool"),
        ("befor_tool", "before_tool"),
        ("beforetool", "before_tool"),
        ("on_evnt", "on_event"),
        ("upgrde", "upgrade"),
        ("inherit", "inherited"),
        ("describes", "describe"),
    ],
)
def test_a_misspelt_member_is_refused_with_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(BadPlugin, match=meant):
        made(**{name: blocks})


@pytest.mark.parametrize(("name", "meant"), [("critcal", "critical"), ("prority", "priority"), ("versions", "version")])
def test_a_misspelt_constant_is_refused(name: str, meant: str) -> None:
    assert meant in CONSTANTS
    with pytest.raises(BadPlugin, match=f"if you mean `{meant}`"):
        made(**{name: True})


def test_names_of_ones_own_are_nobodys_business() -> None:
    made(_before_tool=blocks, helper=blocks, limit=3)

    @frozen
    class Fields(Plugin):
        versions: tuple[str, ...] = ()
        on_weekends: bool = False

    seat_for("f", Fields())


# What can change


def test_a_plain_class_cannot_set_anything_on_itself() -> None:
    class Counter(Plugin):
        def __init__(self) -> None:
            self.count = 0

    with pytest.raises(BadPlugin, match=r"`count` cannot be set; decorate the class with `@attrs.frozen`"):
        Counter()


def test_a_plugin_cannot_change_itself_in_a_hook() -> None:
    class Counter(Plugin):
        count = 0

        def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None]:
            self.count += 1
            return Continue()

    with pytest.raises(BadPlugin, match="`count` cannot be set"):
        Counter().before_tool(HOOK, None, Context())


def test_classes_whose_fields_can_be_set_are_refused_where_they_join() -> None:
    @define
    class Defined(Plugin):
        limit: int = 1

    @attrs.define(slots=False)
    class Loose(Plugin):
        limit: int = 1

    @dataclass
    class Data(Plugin):
        limit: int = 1

    for cls in (Defined, Loose, Data):
        with pytest.raises(BadPlugin, match=r"`limit` can(not)? be set; decorate"):
            seat_for("p", cls())


@pytest.mark.parametrize("option", [[1], {"a": 1}, {1}, bytearray(b"x")])
def test_an_option_that_can_change_is_refused_where_it_joins(option: object) -> None:
    @frozen
    class Holding(Plugin):
        option: object = ()

    seat_for("p", Holding((1,)))
    with pytest.raises(BadPlugin, match="its option `option` is a"):
        seat_for("p", Holding(option))


@pytest.mark.parametrize("option", [([],), ((1, {}),), MappingProxyType({"a": [1]})], ids=repr)
def test_an_option_that_holds_what_can_change_is_refused_too(option: object) -> None:
    @frozen
    class Table(Plugin[None]):
        rows: object

    with pytest.raises(BadPlugin, match=r"its option `rows` has a `\w+`, which can change; use "):
        seat_for("p", Table(option))


def test_a_hook_that_was_set_on_the_class_later_is_looked_at_where_it_joins() -> None:
    class Late(Plugin[None]):
        """A guard without hooks yet."""

    Late.before_tool = blocks  # type: ignore[method-assign, assignment]
    seat_for("p", Late())
    Late.before_tool = waits  # type: ignore[method-assign, assignment]
    with pytest.raises(BadPlugin, match="its `before_tool` is async"):
        seat_for("p", Late())


def test_a_hook_of_a_base_that_stands_after_plugin_is_refused() -> None:
    class Mixin:
        before_tool = blocks

    with pytest.raises(BadPlugin, match="the `before_tool` of its base `Mixin` is never called: name that base before"):
        type("Guard", (Plugin, Mixin), {})
    seat_for("p", type("Guard", (Mixin, Plugin), {})())


def test_a_hook_on_the_object_is_refused_where_it_joins() -> None:
    plugin = made()()
    vars(plugin)["before_tool"] = waits
    with pytest.raises(BadPlugin, match="set on the object"):
        seat_for("p", plugin)


def test_frozen_classes_of_all_kinds_join() -> None:
    @dataclass(frozen=True)
    class Data(Plugin):
        limit: int = 1

    @attrs.frozen(slots=False)
    class Loose(Plugin):
        limit: int = 1

    class Bare(Plugin):
        pass

    for plugin in (Data(), Loose(), Bare(), type("Sub", (Loose,), {})()):
        seat_for("p", plugin)


@pytest.mark.parametrize("guard", [SecurityGuard, HumanApproval, BudgetGuard])
def test_the_built_in_guards_are_critical(guard: type[AnyPlugin]) -> None:
    assert guard.critical
    assert seat_for("g", guard()).critical
