"""Draws rules and calls whose commands are known, from a seed, and compares what plugins of permissions say of them."""

from __future__ import annotations

from random import Random
from typing import Final

from agentrail import BlockTool, Context, Continue, HoldTool
from agentrail.models import Json
from agentrail.plugins import BeforeTool, HumanApproval, PermissionMode, PermissionPolicy
from agentrail.testing import Choose

_RULES: Final = ("git status", "git push", "rm *", "sudo *", "cat src/*", "make *")
_COMMANDS: Final = {
    "git status": "git status",
    "git push": "git push",
    "rm -r x": "rm *",
    "cat src/a": "cat src/*",
    "make": "make *",
}
"""Commands, each with the one rule that names it."""
_JOINS: Final = (" && ", "; ", " | ", "\n")
_WRAPPED: Final = ("sudo {}", "env {}", "sh -c '{}'", "echo $({})", "A=1 {}", "{} > x", "$X {}")
_MODES: Final[tuple[PermissionMode, ...]] = ("default", "strict", "strict", "dont_ask", "bypass")
_PATHS: Final = {"src/a": True, "src/b/c": True, "/w/src/a": True, "src/../a": False, "a": False, "src/b/../a": False}
"""Paths, each with whether `src/**` allows it in the folder `/w`."""
_HERE: Final = Context(working_dir="/w", now_ms=1_000_000)


_VERDICTS: Final[dict[type[object], str]] = {Continue: "passes", BlockTool: "blocked", HoldTool: "held"}


def _said(action: object) -> str:
    return _VERDICTS[type(action)]


def _hook(args: dict[str, Json], tool: str = "shell", *, approved: bool = False) -> BeforeTool:
    return BeforeTool(tool, args, "c", approved)


def broken_permissions(number: int) -> str | None:
    """Draw rules and calls whose commands are known; compare what the plugins say with a plain reading of the page."""
    choose = Choose(Random(number).randrange)
    return _line(choose) or _path(choose) or _child(choose) or _always(choose) or _approval(choose)


def _line(choose: Choose) -> str | None:
    deny, ask, allow = (tuple(choose.some(_RULES, percent)) for percent in (30, 20, 70))
    mode = choose.pick(_MODES)
    commands = [choose.pick(tuple(_COMMANDS)) for _ in range(choose.number(1, 3))]
    around = choose.pick(_WRAPPED) if choose.percent(40) else "{}"
    line = choose.pick(_JOINS).join((around.format(commands[0]), *commands[1:]))
    rules = {_COMMANDS[command] for command in commands} | ({"sudo *"} if around.startswith("sudo") else set())
    lists = [tuple(f"shell({rule})" for rule in listed) for listed in (deny, ask, allow)]
    policy = PermissionPolicy(deny=lists[0], ask=lists[1], allow=lists[2], mode=mode)
    approved = choose.percent(30)
    said = _said(policy.before_tool(_hook({"command": line}, approved=approved), None, _HERE))
    unread = around.startswith("$X")
    allowed = around == "{}" and rules <= set(allow)
    asked = bool(rules & set(ask)) and not unread and mode != "bypass"
    if rules & set(deny) and not unread:
        return None if said == "blocked" else "denied"
    if mode == "strict" and not (asked or allowed):
        return None if said == "blocked" else "strict"
    doubtful = (asked or (unread and bool(deny or (ask and mode != "bypass")))) and not approved
    wanted = ("blocked" if mode == "dont_ask" else "held") if doubtful else "passes"
    return None if said == wanted else f"{wanted}"


def _path(choose: Choose) -> str | None:
    policy = PermissionPolicy(allow=["write_file(src/**)"], mode="strict")
    paths = [choose.pick(tuple(_PATHS)) for _ in range(choose.number(1, 2))]
    said = _said(policy.before_tool(_hook({"paths": tuple(paths)}, "write_file"), None, _HERE))
    return None if (said == "passes") is all(_PATHS[path] for path in paths) else "paths"


def _child(choose: Choose) -> str | None:
    policy = PermissionPolicy(allow=["write_file(src/**)", "shell(make *)"], mode="strict")
    child = policy.inherited(None, _HERE)
    there = _HERE.but(working_dir=choose.pick(("/etc", "/w/src", "/")))
    call = choose.pick((_hook({"command": "make"}), _hook({"path": "../src/a"}, "write_file"), _hook({"path": "a"})))
    same = isinstance(child, PermissionPolicy) and _said(child.before_tool(call, None, there)) == "blocked"
    return None if same else "a child is allowed more"


def _always(choose: Choose) -> str | None:
    seconds = choose.number(1, 100)
    hook = _hook({"command": "git push"})
    for plugin in (PermissionPolicy(ask=["shell"], always_seconds=seconds), HumanApproval(always_seconds=seconds)):
        held = plugin.before_tool(hook, None, _HERE)
        if not isinstance(held, HoldTool) or held.family is None:
            return "held"
        later = choose.number(0, 200)
        ctx = _HERE.but(now_ms=_HERE.now_ms + later * 1000, approved_always=frozenset({("shell", held.family)}))
        if (_said(plugin.before_tool(hook, None, ctx)) == "passes") is not (later < seconds):
            return "always"
    return None


def _approval(choose: Choose) -> str | None:
    args: dict[str, Json] = {"command": choose.pick(("ls", "cat a | wc -l"))}
    more = choose.pick(("", "timeout", "folder", "env"))
    if more:
        args[more] = "x"
    said = _said(HumanApproval().before_tool(_hook(args), None, _HERE))
    return None if said == ("held" if more in {"folder", "env"} else "passes") else "approval"
