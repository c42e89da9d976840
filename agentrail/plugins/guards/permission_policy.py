"""`PermissionPolicy`: rules about which calls may run, which may not, and about which a person is asked."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

import attrs
from attrs import evolve, frozen

from agentrail.errors import BadOptions
from agentrail.hooks.actions import BlockTool, Continue, HoldTool
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import BeforeTool
from agentrail.hooks.plugin import AnyPlugin, Plugin, Priority
from agentrail.plugins.approval import approved_family, offered
from agentrail.plugins.arguments import COMMAND_ARGS, shown_as_json
from agentrail.plugins.guards.permission_rules import (
    CallFacts,
    Naming,
    facts_of,
    is_below,
    means_tool,
    naming,
    permits,
    problem_of,
    rules_of,
)
from agentrail.plugins.options import (
    NO_NAMES,
    as_plain_set,
    as_tuple,
    check_choice,
    check_optional_seconds,
    check_texts,
)
from agentrail.plugins.shell.command_line import Commands
from agentrail.plugins.shell.paths import ResolvedPath, directory
from agentrail.plugins.shell.rule_context import YES
from agentrail.values import untrusted_values
from agentrail.values.json import JsonObject, freeze_object

PermissionMode: TypeAlias = Literal["default", "strict", "accept_edits", "dont_ask", "bypass"]

EDITS: Final = frozenset({"edit_file", "write_file"})
"""The tools whose calls the mode `accept_edits` accepts."""


def _are_rules(policy: PermissionPolicy, field: attrs.Attribute[tuple[str, ...]], rules: tuple[str, ...]) -> None:
    check_texts(policy, field, rules)
    for text in rules:
        problem = problem_of(text, allows=field.name == "allow")
        if problem is not None:
            raise BadOptions("PermissionPolicy", f"`{field.name}` has {untrusted_values.brief(text)}, {problem}")


def _is_folder(_policy: PermissionPolicy, _field: attrs.Attribute[str | None], value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise BadOptions(
            "PermissionPolicy", f"its `root` is {untrusted_values.brief(value)}; give the path of a folder, or None"
        )


@frozen
class PermissionPolicy(Plugin[None]):
    """Block the calls that `deny` names, hold for a person those that `ask` names, and let pass those of `allow`.

    The lists are read in this order, and the first that names a call decides. What none names passes, unless the mode
    is `strict`. A rule is a tool, or a tool and a pattern of its commands or paths: `shell(git status *)`,
    `write_file(src/**)`. `deny` and `ask` are read widely: they name all that they may mean, and what cannot be told is
    held for a person. `allow` is read narrowly: each command of a line must be what a rule says, word by word.
    Nothing lets a denied call pass: no mode, no approval, and no other plugin.
    """

    deny: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_are_rules)
    """Rules of calls that are blocked."""
    ask: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_are_rules)
    """Rules of calls that are held until a person approves them."""
    allow: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_are_rules)
    """Rules of calls that pass, also in the mode `strict`."""
    mode: PermissionMode = attrs.field(default="default", validator=check_choice(*get_args(PermissionMode)))
    """What happens to other calls, and to those that `ask` names.

    `default` lets the others pass, `strict` blocks them, `accept_edits` lets edits of the session's files pass that
    `ask` names, `dont_ask` blocks what would be held, and `bypass` reads `deny` alone.
    """
    timeout: float | None = attrs.field(default=120.0, validator=check_optional_seconds)
    """Seconds that a held call waits for a person; `None` if it waits for ever."""
    always_seconds: float | None = attrs.field(default=None, validator=check_optional_seconds)
    """Seconds from the question on for which an approval for always counts; `None`: for ever, 0: it cannot be given."""
    path_args: frozenset[str] = attrs.field(default=NO_NAMES, converter=as_plain_set, validator=check_texts)
    """Names of arguments that are paths, in addition to `PATH_ARGS`; case, `_` and `-` do not matter."""
    command_args: frozenset[str] = attrs.field(default=NO_NAMES, converter=as_plain_set, validator=check_texts)
    """Names of arguments that are commands, in addition to `COMMAND_ARGS`; case, `_` and `-` do not matter."""
    root: str | None = attrs.field(default=None, validator=_is_folder)
    """The folder at which patterns of `allow` begin; `None` if it is the session's. It is set for sub-agents, so that
    one in another folder is allowed nothing that its parent is not."""

    priority = Priority.SECURITY + 30
    critical = True

    @property
    def tools_named(self) -> tuple[str, ...]:
        """Names of tools in the rules, without patterns; the session refuses to start if it has no such tool."""
        rules = rules_of((*self.deny, *self.ask, *self.allow))
        return tuple(dict.fromkeys(rule.tool for rule in rules if {"*", "?"}.isdisjoint(rule.tool)))

    def describe(self) -> JsonObject:
        """Return the plugin's purpose, its mode and its rules."""
        return freeze_object(
            {
                "name": "PermissionPolicy",
                "description": "deny → ask → allow, by rules for tools, commands and paths",
                "mode": self.mode,
                "deny": list(self.deny),
                "ask": list(self.ask),
                "allow": list(self.allow),
            }
        )

    def inherited(self, state: None, ctx: Context) -> AnyPlugin:
        """Return the plugin for a sub-agent: equal, but patterns in `allow` stay relative to this session's folder."""
        from_here = self.mode == "accept_edits" or any(rule.pattern is not None for rule in rules_of(self.allow))
        return evolve(self, root=ctx.working_dir) if from_here and self.root is None else self

    def before_tool(
        self, hook: BeforeTool, state: None, ctx: Context
    ) -> Continue[None] | BlockTool[None] | HoldTool[None]:
        """Block the call that is about to run, hold it for a person, or let it pass."""
        rules = rules_of((*self.deny, *self.ask))
        if self.mode != "strict" and not any(means_tool(rule, hook.name) for rule in rules):
            return Continue()
        call = facts_of(hook.name, hook.args, ctx.working_dir, self.path_args, COMMAND_ARGS | self.command_args)
        root = directory(ctx.working_dir if self.root is None else self.root)
        denying = naming(rules_of(self.deny), call)
        if (sure := next((rule for answer, rule in denying if answer is YES), None)) is not None:
            return BlockTool(f"the rule `{sure.text}` denies it")
        asking = [] if self._asks_nothing(call, root) else naming(rules_of(self.ask), call)
        certain = any(answer is YES for answer, _ in asking)
        if self.mode == "strict" and not certain and not permits(rules_of(self.allow), call, root):
            return BlockTool("no rule allows it, and the mode is `strict`")
        if hook.approved or not (denying or asking):
            return Continue()
        return self._hold(hook, call, denying, asking, ctx)

    def _asks_nothing(self, call: CallFacts, root: ResolvedPath) -> bool:
        """Whether the mode overrides the rules in `ask` for *call*."""
        return self.mode == "bypass" or (self.mode == "accept_edits" and _is_edit(call, root))

    def _hold(
        self, hook: BeforeTool, call: CallFacts, denying: Naming, asking: Naming, ctx: Context
    ) -> Continue[None] | BlockTool[None] | HoldTool[None]:
        """Hold the call; let it pass if its family is approved for always.

        If the mode allows no questions, block it.
        """
        certain = not denying and all(answer is YES for answer, _ in asking)
        family = _family(call, asking) if certain else None
        approved = approved_family(hook.name, family, self.always_seconds, ctx)
        if approved is not None:
            return Continue(family=approved)
        why = f"{_listed(denying)} may deny it, which cannot be told" if denying else f"{_listed(asking)} asks"
        if self.mode == "dont_ask":
            return BlockTool(f"{why}, and the mode is `dont_ask`")
        what = f"`{hook.name}` wants to run with {shown_as_json(hook.args)}; {why}"
        return HoldTool(what, timeout=self.timeout, family=offered(family, self.always_seconds, ctx))


def _listed(rules: Naming) -> str:
    return ", ".join(f"`{rule.text}`" for _, rule in rules)


def _family(call: CallFacts, asking: Naming) -> str | None:
    """Return the family that an approval for always covers, with the rules; `None` if the commands do not share one."""
    rules = ", ".join(rule.text for _, rule in asking)
    if not call.lines:
        return rules
    families = {line.family() if isinstance(line, Commands) and call.is_plain else None for line in call.lines}
    family = families.pop() if len(families) == 1 else None
    return None if family is None else f"{family} ({rules})"


def _is_edit(call: CallFacts, root: ResolvedPath) -> bool:
    """Whether *call* only edits files below *root*."""
    if call.tool not in EDITS or call.lines or not call.paths or not call.is_plain:
        return False
    return all(is_below(text, call, root) for text in call.paths)
