"""Plugins that are none: what guards nothing is refused where it is written, or where it joins."""
# ruff: noqa: ARG001, ARG005 - members of the right form that need nothing they are given

from __future__ import annotations

import functools
import inspect
import itertools
import math
import re
import sys
import types
from array import array
from collections import Counter, OrderedDict, UserDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date
from decimal import Decimal
from ipaddress import IPv4Address
from itertools import product
from pathlib import PurePosixPath
from threading import Lock
from types import FunctionType, MappingProxyType
from typing import Any, cast

import attrs
import pytest
from attrs import define, frozen

from agentrail import BlockTool, Context, Continue, Plugin, Priority, Secret
from agentrail.errors import BadOptions, BadPlugin, UnknownField
from agentrail.hooks.attachments import attached_plugin, refuse_unknown_tools, unkeyed
from agentrail.hooks.declarations import MoneyLimit
from agentrail.hooks.hook_types import HOOK_NAMES
from agentrail.hooks.live_runner import LiveRunner
from agentrail.hooks.plugin import find_declaration
from agentrail.hooks.plugin_checks import ATTRIBUTES, CONSTANTS, OTHERS
from agentrail.plugins import (
    AnyPlugin,
    BeforeTool,
    BroughtCompactor,
    BroughtTools,
    BudgetGuard,
    Declaration,
    EventLines,
    HumanApproval,
    IdleHooks,
    Keyed,
    LongestScreened,
    SecurityGuard,
    UsageLimits,
    WorkTime,
)
from agentrail.runtime.access.code_changes import updated
from tests.each_case import each_case
from tests.kit import Verdict, freeze_object

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


@frozen
class Row:
    cells: object

    def first(self) -> object:
        return self.cells


@define(unsafe_hash=True)
class Loose:
    """It has a hash of what is in it, and can change."""

    number: int

    def count(self) -> None:
        self.number += 1


class UserHash(list[int]):
    """A list that says that it can be hashed."""

    def __hash__(self) -> int:  # type: ignore[override]  # that is the lie
        return 1


@frozen
class Optional(Plugin[None]):
    option: object


TOTAL = 0


def keeps_by_default(self: object, hook: object, state: object, ctx: object, seen: list[object] = []) -> object:  # noqa: B006 - to be refused
    return NO


def keeps_by_name(self: object, hook: object, state: object, ctx: object, *, seen: list[object] = []) -> object:  # noqa: B006 - to be refused
    return NO


def sets_global(self: object, hook: object, state: object, ctx: object) -> object:
    global TOTAL  # noqa: PLW0603 - to be refused
    TOTAL += 1
    return NO


def sets_global_deeper(self: object, hook: object, state: object, ctx: object) -> object:
    def deeper() -> None:
        global TOTAL  # noqa: PLW0603 - to be refused
        TOTAL += 1

    deeper()
    return NO


def around(value: object) -> Callable[..., object]:
    def hook(self: object, hook: object, state: object, ctx: object) -> object:
        return value

    return hook


def counting() -> Callable[..., object]:
    count = 0

    def hook(self: object, hook: object, state: object, ctx: object) -> object:
        nonlocal count
        count += 1
        return NO

    return hook


def counting_deeper() -> Callable[..., object]:
    count = 0

    def hook(self: object, hook: object, state: object, ctx: object) -> object:
        def deeper() -> None:
            nonlocal count
            count += 1

        deeper()
        return NO

    return hook


def recursive() -> Callable[..., object]:
    """A function that holds on to itself."""

    def hook(self: object, hook: object, state: object, ctx: object) -> object:
        return NO if state is None else hook

    def again(*given: object) -> object:
        return again if len(given) > 4 else hook(*given)

    return again


def made(**members: object) -> type[AnyPlugin]:
    return type("Made", (Plugin,), members)


UNFIT: dict[str, object] = {
    "async": waits,
    "async generator": streams,
    "generator": yields,
    "wrapped": timed(waits),
    "wrapped twice": timed(timed(yields)),
    "partial": functools.partial(waits, None),
    "partial of a wrapped one": functools.partial(timed(waits), None),
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


@each_case(UNFIT.values())
def test_a_hook_that_would_not_answer_is_refused_with_its_class(member: object) -> None:
    with pytest.raises(BadPlugin, match="`before_tool`"):
        made(before_tool=member)


@each_case(sorted({*HOOK_NAMES, *OTHERS} - {"init", "upgrade", "inherited", "describe"}))
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
        made(**{name: lambda item, two, three, four, five, six: None})


FIT: dict[str, object] = {
    "plain": blocks,
    "wrapped": timed(blocks),
    "any arguments": lambda *args: NO,
    "a default more": lambda self, hook, state, ctx, more=1: NO,
    "static": staticmethod(lambda hook, state, ctx: NO),
    "class method": classmethod(blocks),
    "partial method": functools.partialmethod(blocks),
    "callable": Blocking(),
}
if sys.version_info < (3, 13):  # from then on Python warns of it, as it will become a method
    FIT["partial"] = functools.partial(blocks, None)


@pytest.mark.parametrize("member", FIT.values(), ids=FIT)
def test_what_answers_is_a_hook(member: object) -> None:
    plugin = made(before_tool=member)()
    assert "before_tool" in attached_plugin("p", plugin).hooks
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


def gives(value: object) -> Callable[[object], object]:
    return lambda self: value


async def waits_for_nothing(self: object) -> object:  # noqa: ASYNC124 - to be refused
    return ()


ATTRIBUTE_AS: dict[str, object] = {
    "method": gives(()),
    "static method": staticmethod(gives(())),
    "class method": classmethod(gives(())),
    "partial": functools.partial(gives(()), None),
    "partial method": functools.partialmethod(gives(())),
    "async": waits_for_nothing,
    "async property": property(waits_for_nothing),
    "generator property": property(yields),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # on purpose
}


@each_case(product(ATTRIBUTES, ATTRIBUTE_AS.values()))
def test_an_attribute_that_is_written_as_a_method_is_refused_with_its_class(name: str, member: object) -> None:
    with pytest.raises(BadPlugin, match=rf"its `{name}` is .* is read and never .*; (write|put) `(@property|{name} =)"):
        made(**{name: member})
    with pytest.raises(BadPlugin, match=f"its `{name}` is"):
        type("Mixed", (type("Mixin", (), {name: member}), Plugin), {})


NO_VALUES: dict[str, tuple[object, ...]] = {
    "key": (5, "", None, ("a",)),
    "declarations": (5, None, WorkTime(), (5,), frozenset({WorkTime()}), (WorkTime(), WorkTime()), (WorkTime,)),
    "tools_named": ("rm", None, (5,), 5),
    "priority": ("first", None, True, 1.5, 2**32),
    "critical": (1, "yes", None),
    "version": ("1", True, None),
}


@each_case([(name, actual) for name, value in NO_VALUES.items() for actual in value])
def test_an_attribute_of_a_wrong_type_is_refused_wherever_it_is_read_first(name: str, expected: object) -> None:
    def attached() -> None:
        unkeyed(made(**{name: property(gives(expected))})())

    for attempt in (attached, lambda: unkeyed(made(**{name: expected})())):
        with pytest.raises(BadPlugin, match=rf"its `{name}` is .*, which is not valid; it must be (a|True)"):
            attempt()


@pytest.mark.parametrize("name", ["priority", "critical", "version", "tools_named", "declarations"])
def test_an_attribute_that_is_a_wrong_constant_is_refused_with_its_class(name: str) -> None:
    with pytest.raises(BadPlugin, match=rf"its `{name}` is 1\.5, which is not valid; it must be (a|True)"):
        made(**{name: 1.5})


def declared(kind: type[Declaration], *fields: object, **named: object) -> Declaration:
    """Return a declaration with fields of whatever types."""
    return cast("Callable[..., Declaration]", kind)(*fields, **named)


NO_DECLARATIONS: tuple[Declaration, ...] = (
    *(declared(IdleHooks, names) for names in ("after_turn", None, (5,), ("after_turns",), ("on_event",))),
    *(declared(LongestScreened, chars) for chars in ("long", None, True, 1.5, 0, -1, 2**32)),
    *(declared(BroughtTools, tools) for tools in (None, ("iron",), (Plugin,), 5)),
    *(declared(BroughtCompactor, function) for function in (None, str, "write", lambda _leaving, _ask: "text")),
    *(declared(UsageLimits, max_usd=usd) for usd in ("5", -1.0, math.nan, True, 1e300)),
    *(declared(UsageLimits, **{name: -1}) for name in ("max_tokens", "max_turn_tokens")),
    *(declared(UsageLimits, **{name: math.inf}) for name in ("max_seconds", "max_turn_seconds")),
    declared(UsageLimits, shared=1),
    declared(EventLines, None, frozenset(), 80),
    declared(EventLines, "info", ("agent_end",), 80),
    declared(EventLines, "info", frozenset(), "80"),
)


@each_case(NO_DECLARATIONS)
def test_a_declaration_with_a_wrong_field_is_refused_and_says_what_is_right(wrong: Declaration) -> None:
    plugin = made(declarations=property(gives((WorkTime(), wrong))))()
    text = rf"its `{type(wrong).__name__}` is .*, which is not valid; it must be of (a|an|numbers) "
    with pytest.raises(BadPlugin, match=text):
        unkeyed(plugin)


class Hashless(type):
    """Metaclass of classes that cannot be in a set."""

    __hash__ = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]  # on purpose


def test_a_declaration_of_a_class_without_a_hash_is_refused_as_any_other_value() -> None:
    def strange(self: object) -> tuple[object, ...]:
        return (Hashless("Strange", (), {})(),) * 2

    with pytest.raises(BadPlugin, match=r"its `declarations` is .*, which is not valid"):
        unkeyed(made(declarations=property(strange))())


def test_a_declaration_is_found_by_its_class() -> None:
    limits = UsageLimits(max_tokens=5)
    plugin = made(declarations=(WorkTime(), limits))()
    assert unkeyed(plugin)[1] is plugin
    assert find_declaration(plugin, UsageLimits) is limits
    assert find_declaration(plugin, EventLines) is None


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_that_cannot_be_read_says_so(name: str) -> None:
    def fails(self: object) -> object:
        raise ZeroDivisionError

    with pytest.raises(BadPlugin, match=f"its `{name}` raised ZeroDivisionError"):
        unkeyed(made(**{name: property(fails)})())


def test_an_attribute_may_be_a_constant_a_property_or_a_field() -> None:
    @frozen
    class Fields(Plugin[None]):
        tools_named: tuple[str, ...] = ()  # pyright: ignore[reportIncompatibleMethodOverride]
        priority: int = 5  # type: ignore[misc]  # pyright: ignore[reportIncompatibleVariableOverride]

    for plugin in (
        Fields(("rm",), 7),
        made(tools_named=("rm",), priority=7)(),
        made(tools_named=property(lambda _: ["rm"]), priority=property(gives(7)))(),
    ):
        refuse_unknown_tools("p", plugin, ["rm"], more=False)
        assert attached_plugin("p", plugin).priority == 7


@each_case(product([name for name in OTHERS if name != "upgrade"], ["text", 5, None, property(gives("text"))]))
def test_a_method_that_is_written_as_an_attribute_is_refused_with_its_class(name: str, member: object) -> None:
    kind = "a property" if isinstance(member, property) else f"a `{type(member).__name__}`"
    with pytest.raises(BadPlugin, match=rf"its `{name}` is {kind}; write `def {name}\(self"):
        made(**{name: member})


@pytest.mark.parametrize("key", [5, "", None])
def test_a_key_that_is_no_text_is_refused(key: str) -> None:
    with pytest.raises(BadPlugin, match=r"its `key` is .*; give `Keyed` a text"):
        unkeyed(Keyed(key, made()()))


# Its first state


class Later(Plugin["Amount"]):
    """Its state is declared below."""


class LaterPerhaps(Plugin["AmountOrNone"]):
    """Its state is declared below, and may be None."""


Amount = int
AmountOrNone = int | None


@pytest.mark.parametrize(
    "cls", [types.new_class("One", (Plugin[int],)), types.new_class("Row", (Plugin[tuple[int, ...]],)), Later]
)
def test_a_plugin_with_a_state_and_without_init_is_refused_where_it_is_made(cls: type[AnyPlugin]) -> None:
    with pytest.raises(BadPlugin, match=r"its state is `.*`, and it has no `init`; write `def init\(self, ctx\)`"):
        cls()


def test_a_base_may_leave_init_to_its_subclasses() -> None:
    class Base(Plugin[int]):
        """What several count."""

        def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int]:
            return Continue(state + 1)

    class Counter(Base):
        """It begins."""

        def init(self, ctx: Context) -> int:
            return 0

    with pytest.raises(BadPlugin, match="no `init`"):
        Base()
    attached_plugin("p", Counter())


@pytest.mark.parametrize("state", [None, int | None, object, Any, int | tuple[str, ...] | None])
def test_a_state_that_may_be_none_needs_no_init(state: object) -> None:
    types.new_class("Fine", (Plugin[state],))()  # type: ignore[valid-type]  # made from a table
    LaterPerhaps()
    made()()


def test_an_init_that_forgets_to_return_is_no_first_state() -> None:
    class Forgets(Plugin[int]):
        def init(self, ctx: Context) -> int:  # type: ignore[empty-body]  # that is the mistake
            """Set it up."""

    hook_runner = LiveRunner(lambda _: None)
    hook_runner.attach("p", 0, Forgets())
    ruling = hook_runner.init(attached_plugin("p", Forgets()), Context)
    assert (ruling.verdict, ruling.critical) == (Verdict.ABORT, True)
    assert "`init` returned nothing (is a `return` missing?)" in ruling.reason


def test_names_of_ones_own_are_nobodys_business() -> None:
    made(_before_tool=blocks, helper=blocks, limit=3)
    with pytest.raises(BadPlugin, match="if you mean `tools_named`"):
        made(tool_named=("rm",))

    @frozen
    class Fields(Plugin):
        versions: tuple[str, ...] = ()
        on_weekends: bool = False

    attached_plugin("f", Fields())


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

    @dataclass(slots=True)
    class Slotted(Plugin):
        limit: int = 1

    for cls in (Defined, Loose, Data, Slotted):
        with pytest.raises(BadPlugin, match=r"`limit` can(not)? be set; decorate"):
            attached_plugin("p", cls())


def test_a_class_whose_setter_attrs_made_is_refused_where_it_joins() -> None:
    @define
    class Validated(Plugin):
        limit: int = attrs.field(default=1, validator=attrs.validators.instance_of(int))

    plugin = Validated()
    plugin.limit = 2
    with pytest.raises(BadPlugin, match=r"^plugin class `Validated`: its `limit` can be set; decorate"):
        attached_plugin("p", plugin)


@pytest.mark.parametrize("option", [[1], {"a": 1}, {1}, bytearray(b"x")])
def test_an_option_that_can_change_is_refused_where_it_joins(option: object) -> None:
    @frozen
    class Holding(Plugin):
        option: object = ()

    @dataclass(frozen=True, slots=True)
    class Slotted(Plugin):
        option: object = ()

    for cls in (Holding, Slotted):
        attached_plugin("p", cls((1,)))
        with pytest.raises(BadPlugin, match="its option `option` is a"):
            attached_plugin("p", cls(option))


@dataclass
class HalfFrozen:
    """A value of which one field can be set, and the other cannot."""

    fixed: int = 1
    loose: int = 1

    def __setattr__(self, name: str, value: object) -> None:
        if name == "fixed" and name in vars(self):
            raise AttributeError(name)
        object.__setattr__(self, name, value)


def test_an_option_of_which_one_attribute_can_be_set_is_refused() -> None:
    @frozen
    class Holding(Plugin):
        option: object = ()

    with pytest.raises(BadPlugin, match="its option `option` is a `HalfFrozen`"):
        attached_plugin("p", Holding(HalfFrozen()))


@pytest.mark.parametrize("option", [([],), ((1, {}),), MappingProxyType({"a": [1]})], ids=repr)
def test_an_option_that_holds_what_can_change_is_refused_too(option: object) -> None:
    @frozen
    class Table(Plugin[None]):
        rows: object

    with pytest.raises(BadPlugin, match=r"its option `rows` has a `\w+`, which can change; use "):
        attached_plugin("p", Table(option))


OPTIONS: dict[str, object] = {
    "subclass of dict": OrderedDict(a=1),
    "mapping of its own": UserDict(a=1),
    "array": array("i", [1]),
    "iterator": itertools.count(),
    "object": Waiting(),
    "hash of what is in it": (Row([]),),
    "defined": Loose(1),
    "frozen, with a list": Row([1]),
    "in a frozenset": frozenset({(1, Row(UserHash()))}),
    "function with a list": keeps_by_default,
    "closure": around([]),
    "partial": functools.partial(blocks, []),
    "method": [].append,
    "method of what can change": Loose(1).count,
    "cached": functools.lru_cache(blocks),
    "lock": Lock(),
}


@each_case(OPTIONS.values())
def test_an_option_that_is_no_value_is_refused(option: object) -> None:
    with pytest.raises(BadPlugin, match=r"its option `option` .*; use "):
        attached_plugin("p", Optional(option))


VALUES: dict[str, object] = {
    "nothing": None,
    "number": Decimal("1.5"),
    "day": date(2026, 11, 21),
    "zone": UTC,
    "path": PurePosixPath("a"),
    "pattern": re.compile("a"),
    "choice": Priority.CORE,
    "class": Waiting,
    "function": blocks,
    "wrapped": timed(blocks),
    "itself": recursive(),
    "partial": functools.partial(blocks, 1),
    "method": Row(()).first,
    "built in": len,
    "table": MappingProxyType({"a": frozenset({1})}),
    "json": freeze_object({"a": [1, {"b": 2}]}),
    "secret": Secret("KEY"),
    "row": Row((1, Row(()))),
    "marker": object(),
    "address": IPv4Address("127.0.0.1"),
}


@each_case(VALUES.values())
def test_a_value_is_an_option(option: object) -> None:
    attached_plugin("p", Optional(option))


MEMBERS: dict[str, object] = {
    "list": [],
    "mapping": {"a": 1},
    "set": {1},
    "counter": Counter(),
    "in a tuple": ((1, []),),
    "in a frozen mapping": MappingProxyType({"a": set[int]()}),
    "iterator": itertools.count(),
    "cached property": functools.cached_property(lambda self: NO),
    "cache": functools.lru_cache(blocks),
    "cache without end": functools.cache(blocks),
    "cached static method": staticmethod(functools.cache(blocks)),
    "default": keeps_by_default,
    "default by name": keeps_by_name,
    "static": staticmethod(keeps_by_default),
    "property": property(around([])),
    "wrapped": timed(keeps_by_default),
    "partial method": functools.partialmethod(blocks, []),
    "closure": around([]),
    "closure over a function that keeps": around(around({})),
    "rebinding": counting(),
    "rebinding deeper": counting_deeper(),
    "global": sets_global,
    "global, deeper": sets_global_deeper,
}


HOLDING = [("_kept", name) for name in MEMBERS]
HOLDING += [("before_tool", name) for name, member in MEMBERS.items() if isinstance(member, FunctionType)]


@each_case(HOLDING)
def test_a_class_that_holds_what_can_change_is_refused(name: str, kind: str) -> None:
    member = MEMBERS[kind]
    with pytest.raises(BadPlugin, match=f"its `{name}` (is|has|sets|keeps)"):
        made(**{name: member})
    with pytest.raises(BadPlugin, match=f"its `{name}` (is|has|sets|keeps)"):
        type("Mixed", (type("Mixin", (), {name: member}), Plugin), {})


@pytest.mark.parametrize(
    "member",
    [
        (1,),
        frozenset({1}),
        MappingProxyType({"a": (1,)}),
        re.compile("a"),
        Waiting,
        timed(blocks),
        around(1),
        recursive(),
    ],
    ids=lambda member: getattr(member, "__qualname__", str(member)),
)
def test_a_class_may_hold_constants(member: object) -> None:
    attached_plugin("p", made(_kept=member, before_tool=blocks)())


def test_a_variable_of_its_own_may_be_set_by_a_function_in_a_hook() -> None:
    def counts(self: object, hook: object, state: object, ctx: object) -> object:
        count = 0

        def one() -> None:
            nonlocal count
            count += 1

        one()
        return NO

    attached_plugin("p", made(before_tool=counts)())


@pytest.mark.parametrize("name", ["__setattr__", "__delattr__"])
def test_setting_attributes_in_a_way_of_ones_own_is_refused(name: str) -> None:
    with pytest.raises(BadPlugin, match=f"it has a `{name}` of its own; decorate"):
        made(**{name: lambda self, *given: None})
    made(**{name: getattr(object, name)})  # as attrs writes it: what then can be set is seen where it joins


def test_classes_of_the_package_are_tables_of_constants() -> None:
    """What is told to use instead can be used."""

    class Table(Plugin[None]):
        limits = MappingProxyType({"rm": 1})
        names = ("rm",)
        words = frozenset({"rm"})

    attached_plugin("t", Table())


def test_a_hook_that_was_set_on_the_class_later_is_looked_at_where_it_joins() -> None:
    class Late(Plugin[None]):
        """A guard without hooks yet."""

    Late.before_tool = blocks  # type: ignore[method-assign, assignment]
    attached_plugin("p", Late())
    Late.before_tool = waits  # type: ignore[method-assign, assignment]
    with pytest.raises(BadPlugin, match="its `before_tool` is async"):
        attached_plugin("p", Late())


def test_a_hook_of_a_base_that_stands_after_plugin_is_refused() -> None:
    class Mixin:
        before_tool = blocks

    with pytest.raises(BadPlugin, match="the `before_tool` of its base `Mixin` is never called: name that base before"):
        type("Guard", (Plugin, Mixin), {})
    attached_plugin("p", type("Guard", (Mixin, Plugin), {})())


@pytest.mark.parametrize("name", ["before_tool", "on_event"])
def test_a_method_on_the_object_is_refused_where_it_joins(name: str) -> None:
    plugin = made()()
    vars(plugin)[name] = blocks
    with pytest.raises(BadPlugin, match=f"its `{name}` is set on the object; define it in the class"):
        attached_plugin("p", plugin)


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
        attached_plugin("p", plugin)


def test_options_of_a_dataclass_are_told_and_can_be_updated() -> None:
    @dataclass(frozen=True)
    class Data(Plugin):
        limit: int = 1

    assert attached_plugin("p", Data(3)).options == {"limit": 3}
    assert updated(Data(3), {"limit": 4}) == Data(4)


def test_options_are_told_as_far_as_they_are_json() -> None:
    @frozen
    class Table(Mapping[str, int]):
        rows: int = 1

        def __getitem__(self, key: str) -> int:
            return self.rows

        def __iter__(self) -> Iterator[str]:
            return iter(["a"])

        def __len__(self) -> int:
            return 1

    for option, report in (
        (frozenset({"b", "a"}), {"option": ("a", "b")}),
        (frozenset({MoneyLimit(1.0)}), {}),
        (MoneyLimit(1.0), {}),
        (Table(), {}),
        (1j, {}),
        (None, {"option": None}),
    ):
        assert attached_plugin("p", Optional(option)).options == report


def test_what_is_no_plugin_or_has_no_options_is_told_so() -> None:
    with pytest.raises(BadPlugin, match="`Row`: it is no plugin; give an object of a subclass"):
        unkeyed(Row)  # type: ignore[arg-type]  # to be refused
    with pytest.raises(BadPlugin, match="`int`: it is no plugin"):
        unkeyed(5)  # type: ignore[arg-type]  # to be refused
    with pytest.raises(BadPlugin, match=r"it has no options, and was given 2"):
        made()(1, 2)  # type: ignore[call-arg]  # to be refused


def test_a_plugin_has_the_signature_of_its_init() -> None:
    assert inspect.signature(made()) == inspect.Signature()
    assert str(inspect.signature(Optional)) == "(option: 'object') -> None"

    class Mixin:
        def __init__(self, limit: int) -> None:
            pass

    misspelt = {"limits": 1}
    following = type("Behind", (Plugin, Mixin), {})
    assert str(inspect.signature(following)) == "(limit: 'int') -> 'None'"
    with pytest.raises(UnknownField):
        following(**misspelt)


def test_a_plugin_may_take_options_of_any_name() -> None:
    class Open(Plugin[None]):
        def __init__(self, first: int, **more: int) -> None:
            pass

    Open(1, anything=2)
    with pytest.raises(UnknownField):
        Optional(options=1)  # type: ignore[call-arg]  # to be refused


NAMED = made(tools_named=("edit_file",))


@pytest.mark.parametrize(
    ("tools", "more", "text"),
    [
        (("edit_file", "run"), False, None),
        (("edit_files", "run"), True, "did you mean `edit_files`?"),
        (("edit_files", "run"), False, "did you mean `edit_files`?"),
        (("edit", "run"), True, None),
        (("edit", "run"), False, "did you mean `edit`?"),
        (("run", "walk"), True, None),
        (("run", "walk"), False, "its tools are `run`, `walk`."),
    ],
)
def test_a_tool_that_a_plugin_names_is_looked_for(tools: tuple[str, ...], more: bool, text: str | None) -> None:
    if text is None:
        refuse_unknown_tools("p", NAMED(), tools, more=more)
        return
    with pytest.raises(BadOptions) as refused:
        refuse_unknown_tools("p", NAMED(), tools, more=more)
    assert f"they name the tool `edit_file`, and the session has none; {text} For a tool" in str(refused.value)


@pytest.mark.parametrize("guard", [SecurityGuard, HumanApproval, BudgetGuard])
def test_the_built_in_guards_are_critical(guard: type[AnyPlugin]) -> None:
    assert guard.critical
    assert attached_plugin("g", guard()).critical
