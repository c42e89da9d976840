"""What a reader of their pages has broken of `PermissionPolicy` and `HumanApproval`, and the search that finds it."""

from __future__ import annotations

from random import Random
from typing import Final

from agentrail import BlockTool, Context, Continue, HoldTool
from agentrail.models import Json
from agentrail.plugins import BeforeTool, HumanApproval, PermissionMode, PermissionPolicy, approval
from agentrail.plugins.guards import permission_rules
from agentrail.testing import Choose
from property_tests.planted.change import Change

# ruff: noqa: SLF001 - private parts are what is broken here

CHANGES: Final = (
    Change(
        "approval_beats_deny",
        "what a person has approved runs, although a rule denies it",
        PermissionPolicy.before_tool,
        "if answer is YES), None)) is not None:",
        "if answer is YES), None)) is not None and not hook.approved:",
        "permissions",
    ),
    Change(
        "approval_beats_strict",
        "what a person has approved runs, although no rule allows it and the mode is strict",
        PermissionPolicy.before_tool,
        'self.mode == "strict" and not certain',
        'self.mode == "strict" and not hook.approved and not certain',
        "permissions",
    ),
    Change(
        "bypass_holds_nothing",
        "in the mode bypass, what a rule may deny runs",
        PermissionPolicy.before_tool,
        "if hook.approved or not (denying or asking):",
        'if hook.approved or self.mode == "bypass" or not (denying or asking):',
        "permissions",
    ),
    Change(
        "wrappers_are_allowed",
        "a rule allows its command under `sudo` and `env` too",
        permission_rules._permits_command,
        "command.assignments or command.via or command.around",
        "command.assignments",
        "permissions",
    ),
    Change(
        "wrappers_hide_what_is_denied",
        "the wrapper of a command is not compared with rules that deny",
        permission_rules._covers_command,
        "for wrapper in command.via:",
        "for wrapper in ():",
        "permissions",
    ),
    Change(
        "always_lasts_for_ever",
        "an approval for always counts after its time",
        approval.approved_family,
        "now < end <=",
        "end <=",
        "permissions",
    ),
)

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


GUARDS: Final = {"permissions": broken_permissions}
"""The searches by name: each takes a seed, and returns what is wrong, or `None`."""
