"""A call that is swapped after its check, by a word in one of its objects, is found with every seed.

The spelling of the look-up makes no difference: all traps are read and found alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import pytest
from attrs import frozen

from agentrail.models import Json, JsonObject
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

Checked: TypeAlias = Continue[frozenset[str]] | BlockTool[frozenset[str]]
Swapped: TypeAlias = Continue[None] | ReplaceToolArgs[None]

# Traps: each guard looks the word up in another spelling. A guard that is not critical is not asked again about the new
# arguments, so a call that it would have blocked runs with its approval. Each plugin is right alone

SANCTIONED: Final = frozenset({"ACME", "Initech"})
PARTIES: Final = ("payer", "payee")
PATH: Final = ("order", "customer", "country")


@frozen
class Guard(Plugin[frozenset[str]]):
    """Blocks what `is_bad` names, and remembers the calls that it approved."""

    def init(self, ctx: Context) -> frozenset[str]:
        return frozenset()

    def before_tool(self, hook: BeforeTool, state: frozenset[str], ctx: Context) -> Checked:
        return BlockTool("that is not allowed", state) if self.is_bad(hook) else Continue(state | {hook.call_id})

    def is_bad(self, hook: BeforeTool) -> bool:
        raise NotImplementedError


def part(args: JsonObject, *names: str) -> object:
    """Return the part of *args* at the path *names*; `None` if there is none."""
    value: object = args
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


# Subscripts, all the way


@frozen
class Subscripts(Guard):
    def is_bad(self, hook: BeforeTool) -> bool:
        return hook.name == "transfer" and hook.args["to"]["account"] == "closed"  # type: ignore[index, call-overload]  # as a stranger would


@frozen
class Renamed(Plugin[None]):
    """Puts the new account in the place of an old one."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Swapped:
        if hook.name != "transfer" or hook.args["to"]["account"] != "old":  # type: ignore[index, call-overload]  # as a stranger would
            return Continue()
        return ReplaceToolArgs({**hook.args, "to": {**hook.args["to"], "account": "closed"}})  # type: ignore[dict-item]  # as a stranger would


# `get`, by a local name, and a word of the module


@frozen
class Gets(Guard):
    def is_bad(self, hook: BeforeTool) -> bool:
        order = hook.args.get("order", {})
        return isinstance(order, Mapping) and order.get("supplier") in SANCTIONED


@frozen
class Suppliers(Plugin[None]):
    """Buys at ACME what nobody else has."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Swapped:
        order = hook.args.get("order")
        if not isinstance(order, Mapping) or order.get("item") != "anvil":
            return Continue()
        return ReplaceToolArgs({**hook.args, "order": {**order, "supplier": "ACME"}})


# `in`: what is there at all


@frozen
class Contains(Guard):
    def is_bad(self, hook: BeforeTool) -> bool:
        options = hook.args.get("options")
        return hook.name == "deploy" and isinstance(options, dict) and "skip_tests" in options


@frozen
class Hotfixes(Plugin[None]):
    """Leaves out the tests of a hotfix."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Swapped:
        options = hook.args.get("options")
        if hook.name != "deploy" or not isinstance(options, dict) or "hotfix" not in options:
            return Continue()
        return ReplaceToolArgs({**hook.args, "options": {"skip_tests": True}})


# A loop over names


@frozen
class Loops(Guard):
    def is_bad(self, hook: BeforeTool) -> bool:
        if hook.name != "pay":
            return False
        for name in PARTIES:
            party = hook.args.get(name)
            if isinstance(party, Mapping) and party.get("status") == "barred":
                return True
        return False


@frozen
class Nominees(Plugin[None]):
    """Lets another one pay for who is on leave."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Swapped:
        for name in ("payer", "approver"):
            party = hook.args.get(name)
            if hook.name == "pay" and isinstance(party, Mapping) and party.get("status") == "on leave":
                return ReplaceToolArgs({**hook.args, "payer": {"status": "barred"}})
        return Continue()


# Patterns


@frozen
class Patterns(Guard):
    def is_bad(self, hook: BeforeTool) -> bool:
        match hook.name, hook.args:
            case "mail", {"message": {"to": {"domain": "rival.example"}}}:
                return True
            case _:
                return False


@frozen
class Aliases(Plugin[None]):
    """Writes to the domain that has bought another."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Swapped:
        match hook.args:
            case {"message": {"to": {"domain": "bought.example"}}}:
                return ReplaceToolArgs({**hook.args, "message": {"to": {"domain": "rival.example"}}})
            case _:
                return Continue()


# Assignments within a condition


@frozen
class Walrus(Guard):
    def is_bad(self, hook: BeforeTool) -> bool:
        return (
            isinstance(box := hook.args.get("box"), Mapping)
            and isinstance(label := box.get("label"), str)
            and label.startswith("hazard")
        )


@frozen
class Labels(Plugin[None]):
    """Labels boxes from a number on."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Swapped:
        if (
            isinstance(box := hook.args.get("box"), Mapping)
            and isinstance(count := box.get("count"), int)
            and count > 70
        ):
            return ReplaceToolArgs({**hook.args, "box": {"label": "hazard: heavy"}})
        return Continue()


# A comprehension


@frozen
class Comprehends(Guard):
    fields: tuple[str, ...] = ("owner", "group")

    def is_bad(self, hook: BeforeTool) -> bool:
        rights = hook.args.get("rights")
        return isinstance(rights, dict) and any(rights.get(field) == "root" for field in self.fields)


@frozen
class Adopts(Plugin[None]):
    """Gives what nobody owns to root."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Swapped:
        rights = hook.args.get("rights")
        if not isinstance(rights, dict) or "nobody" not in [rights.get(field) for field in ("owner", "heir")]:
            return Continue()
        return ReplaceToolArgs({**hook.args, "rights": dict.fromkeys(rights, "root")})


# A helper that is given the path


@frozen
class Helped(Guard):
    def is_bad(self, hook: BeforeTool) -> bool:
        return hook.name == "ship" and part(hook.args, *PATH) == "Cuvania"


@frozen
class Reroutes(Plugin[None]):
    """Ships to where a harbour is."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Swapped:
        if hook.name != "ship" or part(hook.args, "order", "customer", "harbour") != "Port Sy":
            return Continue()
        return ReplaceToolArgs({**hook.args, "order": {"customer": {"country": "Cuvania"}}})


# A loop over what is there


@frozen
class Items(Guard):
    def is_bad(self, hook: BeforeTool) -> bool:
        headers = hook.args.get("headers")
        if hook.name != "fetch" or not isinstance(headers, Mapping):
            return False
        return any(name == "authorization" and value == "admin" for name, value in headers.items())


@frozen
class Upgrades(Plugin[None]):
    """Puts the new header in the place of an old one."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Swapped:
        headers = hook.args.get("headers")
        if hook.name != "fetch" or not isinstance(headers, Mapping) or headers.keys().isdisjoint({"x-admin"}):
            return Continue()
        return ReplaceToolArgs({**hook.args, "headers": {"authorization": "admin"}})


# Two words at once, with `try`


@frozen
class Tries(Guard):
    def is_bad(self, hook: BeforeTool) -> bool:
        try:
            target = hook.args["target"]
            return bool(target["host"] == "db" and target["mode"] == "write")  # type: ignore[index, call-overload]  # as a stranger would
        except (KeyError, TypeError):
            return False


@frozen
class Promotes(Plugin[None]):
    """Writes to the main database what a copy cannot take."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Swapped:
        try:
            is_copy = hook.args["target"]["host"] == "replica" and hook.args["target"]["mode"] == "write"  # type: ignore[index, call-overload]  # as a stranger would
        except (KeyError, TypeError):
            return Continue()
        return ReplaceToolArgs({**hook.args, "target": {"host": "db", "mode": "write"}}) if is_copy else Continue()


# An object in a list


@frozen
class Listed(Guard):
    def is_bad(self, hook: BeforeTool) -> bool:
        lines = hook.args.get("lines")
        return isinstance(lines, list | tuple) and any(
            isinstance(line, Mapping) and line.get("sku") == "recalled" for line in lines
        )


@frozen
class Substitutes(Plugin[None]):
    """Orders what is there in the place of what is sold out."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Swapped:
        lines = hook.args.get("lines")
        for line in lines if isinstance(lines, list | tuple) else ():
            if isinstance(line, Mapping) and line.get("sku") == "sold out":
                return ReplaceToolArgs({**hook.args, "lines": [{"sku": "recalled"}]})
        return Continue()


# A loop over all arguments, and parts of texts


def flags(args: JsonObject) -> list[str]:
    """Return the flags of all arguments that have one, in small letters."""
    full = [value.get("flag") for value in args.values() if isinstance(value, Mapping)]
    return [flag.lower() for flag in full if isinstance(flag, str)]


@frozen
class Flagged(Guard):
    def is_bad(self, hook: BeforeTool) -> bool:
        return hook.name == "sign" and any(flag.startswith("red") for flag in flags(hook.args))


@frozen
class Escalates(Plugin[None]):
    """Flags what waits for long in red."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Swapped:
        if hook.name != "sign" or not any("overdue" in flag for flag in flags(hook.args)):
            return Continue()
        return ReplaceToolArgs({"deed": {"flag": "Red"}})


TRAPS: Final[Mapping[str, tuple[Guard, AnyPlugin]]] = {
    "subscripts": (Subscripts(), Renamed()),
    "get": (Gets(), Suppliers()),
    "in": (Contains(), Hotfixes()),
    "loop over names": (Loops(), Nominees()),
    "patterns": (Patterns(), Aliases()),
    "walrus": (Walrus(), Labels()),
    "comprehension": (Comprehends(), Adopts()),
    "helper": (Helped(), Reroutes()),
    "items": (Items(), Upgrades()),
    "try": (Tries(), Promotes()),
    "list": (Listed(), Substitutes()),
    "all": (Flagged(), Escalates()),
}
"""The guard and the plugin that changes the arguments, by the spelling of the look-up."""


def approvals_hold(guard: Guard) -> Callable[[Trace], None]:
    """Return an invariant: no call runs that *guard* approved and would block as it runs."""

    def no_approved_call_was_changed_into_a_bad_one(trace: Trace) -> None:
        request = asked_about(trace, type(guard).__name__)
        for start in trace.started:
            if type(request.get(start.call_id)) is Continue:
                runs = BeforeTool(name=start.name, args=start.args, call_id=start.call_id)
                assert not guard.is_bad(runs), "a bad call was approved"

    return no_approved_call_was_changed_into_a_bad_one


SEEDS: Final = range(12 if CAMPAIGN else 1)


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


TRIED: Final = [
    *[pytest.param(spelling, (), id=f"{spelling}-alone") for spelling in TRAPS],
    *[pytest.param(spelling, SHIPPED, id=f"{spelling}-among five") for spelling in [*TRAPS][:: 1 if CAMPAIGN else 4]],
]
"""The pairs, alone and among other plugins, where one takes seconds: CI tries a few of those."""


@pytest.mark.long
@pytest.mark.parametrize(("spelling", "others"), TRIED)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_seed_finds_the_swap_in_each_spelling(seed: int, spelling: str, others: tuple[AnyPlugin, ...]) -> None:
    guard, swap = TRAPS[spelling]
    conflict = find_conflict((guard, swap, *others), approvals_hold(guard), seed=seed)
    assert conflict is not None
    assert conflict.plugins == (guard, swap)
    # The pair comes first, so these are the first of the examples that are tried unasked
    report = order_report((guard, swap, *others), seed=seed, examples=60)
    assert (guard, swap, "before_tool") in [(actual.first, actual.second, actual.hook) for actual in report]
