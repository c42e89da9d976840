"""Traps: a guard checks a word within an argument that is an object, and another plugin changes it after the check.

Each guard looks the word up in another spelling. A guard that is not critical is not asked again about the new
arguments, so a call that it would have blocked runs with its approval. Each plugin is right alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from attrs import frozen

from agentrail.models import JsonObject
from agentrail.plugins import AnyPlugin, BeforeTool, BlockTool, Context, Continue, Plugin, ReplaceToolArgs
from agentrail.testing import Trace
from tests.testing.candidates import asked_about

Checked: TypeAlias = Continue[frozenset[str]] | BlockTool[frozenset[str]]
Swapped: TypeAlias = Continue[None] | ReplaceToolArgs[None]

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
