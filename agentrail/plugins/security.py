"""`SecurityGuard`: stops accidents and obvious attacks before a tool runs; without a sandbox it asks about commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs
from attrs import evolve, frozen

from agentrail.errors import BadOptions, BadPlugin
from agentrail.hooks.actions import Answered, Ask, AskAnswer, BlockTool, Continue, Failed, FindFiles, HoldTool, TimedOut
from agentrail.hooks.context import Context
from agentrail.hooks.declarations import BlockedPaths
from agentrail.hooks.hook_types import BeforeTool
from agentrail.hooks.plugin import Plugin, Priority
from agentrail.plugins.approval import approved_family, offered
from agentrail.plugins.arguments import (
    COMMAND_ARGS,
    DIRECTORY_ARGS,
    PATH_ARGS,
    command_lines,
    named,
    shown_as_json,
    texts,
    visible,
)
from agentrail.plugins.guards.permission_rules import facts_of, permits, problem_of, rules_of
from agentrail.plugins.options import (
    NO_NAMES,
    as_plain_set,
    as_set,
    as_tuple,
    check_flag,
    check_optional_seconds,
    check_texts,
)
from agentrail.plugins.shell.code_arguments import READ_BY_RULES
from agentrail.plugins.shell.command_line import Commands
from agentrail.plugins.shell.guarded_paths import ALLOWED_PATHS, BLOCKED_PATHS, PROTECTED_PATHS
from agentrail.plugins.shell.lexer_words import SimpleCommand, Unlexable, Word
from agentrail.plugins.shell.paths import Fence, ResolvedPath, directory, fence, join, resolve
from agentrail.plugins.shell.rule_context import MAYBE, NO, YES, Certainty, CommandScene, FolderSearch, assigned
from agentrail.plugins.shell.rules import ALL_RULES, RULES, without_messages
from agentrail.values.events.context import SecurityAudit
from agentrail.values.json import JsonObject
from agentrail.values.untrusted_values import brief
from agentrail.values.value import Value

MAX_FOLDERS: Final = 64
"""The most folders that are looked through for one call; with more, a person must decide."""


def request(looks: Iterable[FolderSearch], working: ResolvedPath, blocked: Fence) -> FindFiles | None:
    """Return the search that tells what is in the folders of *looks*; `None` if there are more than `MAX_FOLDERS`."""
    folders = {look: "/".join(look.folder[len(working.parts) :]) or "." for look in looks}
    on_disk = tuple(dict.fromkeys(folder for look, folder in folders.items() if look.on_disk))
    in_git = tuple(dict.fromkeys(folder for look, folder in folders.items() if look.in_git))
    if len(on_disk) + len(in_git) > MAX_FOLDERS:
        return None
    return FindFiles(tuple(sorted(blocked.firsts)), on_disk, in_git)


def problem(
    answer: AskAnswer | None, looks: Sequence[FolderSearch], working: ResolvedPath, blocked: Fence, allowed: Fence
) -> str | None:
    """Return why a person must decide, given the *answer* to the search; `None` if no blocked file was found."""
    match answer:
        case Answered(value=tuple() as paths):
            for path in map(str, paths):
                resolved = join(working, path)
                if allowed.find(resolved) is not None or not any(look.covers(resolved) for look in looks):
                    continue
                if blocked.find(resolved, within=working) is not None or blocked.is_beneath(resolved):
                    return f"`{path}` is there"
            return None
        case Failed(error=error):
            return f"it is not known what is there: {error}"
        case TimedOut(seconds=seconds):
            return f"it was not known within {seconds:g} seconds what is there"
        case _:
            return "it is not known what is there"


WRITERS: Final = ("apply_patch", "create_file", "delete_file", "edit_file", "move_file", "write_file")
"""Names of tools that write to the paths in their arguments."""

_ENCODED: Final = re.compile(r"%(?:00|25|2e|2f|5c|c0|c1|u[0-9a-f]{4})", re.IGNORECASE)
_TALKERS: Final = frozenset({"echo", "printf"})
_LEFT_OUT: Final = ("--exclude", "--ignore")


class Finding(Value):
    """A reason to block or hold a call, with its certainty."""

    certainty: Certainty
    """Whether the reason is certain (block) or possible (hold for a person)."""
    reason: str
    """The reason in words."""
    looks: tuple[FolderSearch, ...] = ()
    """The folders on whose contents it depends whether there is a reason."""


def _are_paths(guard: SecurityGuard, field: attrs.Attribute[tuple[str, ...]], paths: tuple[str, ...]) -> None:
    check_texts(guard, field, paths)
    for path in paths:
        if not path.strip("/~ ") and path not in {"/", "~"}:
            raise BadOptions("SecurityGuard", f"`{field.name}` has {path!r}, which names no path")
        if ".." in path.split("/") or "\0" in path:
            raise BadOptions(
                "SecurityGuard", f"`{field.name}` has {path!r}; write where it leads, without `..` and NUL"
            )


def _are_commands(guard: SecurityGuard, field: attrs.Attribute[tuple[str, ...]], lines: tuple[str, ...]) -> None:
    check_texts(guard, field, lines)
    for line in lines:
        if not re.fullmatch(r"[^\s|&;<>()$`'\"\\]+(?: [^\s|&;<>()$`'\"\\]+)*", line):
            problem = f"`blocked_commands` has {line!r}; write a program and words, with single blanks and no quotes"
            raise BadOptions("SecurityGuard", problem)


def _are_rules(guard: SecurityGuard, field: attrs.Attribute[frozenset[str]], names: frozenset[str]) -> None:
    check_texts(guard, field, names)
    if unknown := sorted(names - ALL_RULES):
        choices = ", ".join(sorted(ALL_RULES))
        raise BadPlugin("SecurityGuard", f"there are no rules {', '.join(unknown)}; the rules are {choices}")


def _are_allowing(guard: SecurityGuard, field: attrs.Attribute[tuple[str, ...]], rules: tuple[str, ...]) -> None:
    check_texts(guard, field, rules)
    for text in rules:
        if (problem := problem_of(text, allows=True)) is not None:
            raise BadOptions("SecurityGuard", f"`{field.name}` has {brief(text)}, {problem}")


UNCONFINED: Final = (
    "no sandbox hides what is blocked from its commands; on Linux install bubblewrap (`apt install bubblewrap`) and use"
    " `BubblewrapSandbox`, elsewhere work in a virtual machine; `allow_unconfined` lists commands that need no question"
)
"""Why a command is held that no rule holds, and what to do so that the next one is not."""


@frozen
class SecurityGuard(Plugin[None]):
    """Block calls that touch blocked paths or run blocked commands, and hold command lines that cannot be read.

    This is a filter for accidents and obvious attacks, not a sandbox. It knows the text of one call and what git
    tracks. It sees no links, no aliases, no settings, nothing that a script, a makefile or a program does once it runs,
    and nothing that other calls do meanwhile or have prepared.
    In `BubblewrapSandbox`, commands see nothing of what is blocked, by whatever program they come to it. Without it,
    each command is held for a person, unless `allow_unconfined` names it or its family is approved for always.
    In both it holds what it is not sure about: a word of which only the shell knows the value, an argument that is a
    program, what `xargs` is fed, and what git shows of commits, which a sandbox cannot hide.
    Of commits it holds all that are not of named files, such as `git show`, `git diff main`, `git log -p -- src`. Of
    what git tracks now it has the session look for blocked names (`FindFiles`): in `git diff`, `git grep x` and
    `git archive HEAD src`.
    An approved call passes. A block cannot be approved.
    """

    blocked_paths: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_are_paths)
    """Paths that are blocked, with all below them, in addition to `BLOCKED_PATHS`.

    They are written `/from/the/root`, `~/from/a/home`, or `a/b` for any folder; `*` is any text within a name.
    """
    protected_paths: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_are_paths)
    """Paths that are blocked for writing, in addition to `PROTECTED_PATHS`; in the same form."""
    allowed_paths: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_are_paths)
    """Exceptions from blocked and protected paths, in addition to `ALLOWED_PATHS`; in the same form."""
    blocked_commands: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_are_commands)
    """Commands that are blocked: a program, or a program and words among its arguments, in this order."""
    default_blocked_paths: bool = attrs.field(default=True, validator=check_flag)
    """Whether `BLOCKED_PATHS` are blocked too."""
    default_protected_paths: bool = attrs.field(default=True, validator=check_flag)
    """Whether `PROTECTED_PATHS` are protected too."""
    default_allowed_paths: bool = attrs.field(default=True, validator=check_flag)
    """Whether `ALLOWED_PATHS` are allowed too."""
    rules: frozenset[str] = attrs.field(default=ALL_RULES, converter=as_set, validator=_are_rules)
    """The names of the rules for commands that are enforced."""
    path_args: frozenset[str] = attrs.field(default=NO_NAMES, converter=as_plain_set, validator=check_texts)
    """Names of arguments that are paths, in addition to `PATH_ARGS`; case, `_` and `-` do not matter."""
    command_args: frozenset[str] = attrs.field(default=NO_NAMES, converter=as_plain_set, validator=check_texts)
    """Names of arguments that are commands, in addition to `COMMAND_ARGS`; case, `_` and `-` do not matter."""
    writers: frozenset[str] = attrs.field(default=NO_NAMES, converter=as_set, validator=check_texts)
    """Names of tools that write to the paths in their arguments, in addition to `WRITERS`."""
    timeout: float | None = attrs.field(default=120.0, validator=check_optional_seconds)
    """Seconds that a held call waits for a person; `None` if it waits for ever."""
    allow_unconfined: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_are_allowing)
    """Commands that are not held although no sandbox hides from them what is blocked; rules as in
    `PermissionPolicy.allow`, such as `shell(make test)`."""
    confined_tools: frozenset[str] = attrs.field(default=NO_NAMES, converter=as_set, validator=check_texts)
    """Names of tools whose commands see nothing of what is blocked; the session sets them, by its sandbox."""

    priority = Priority.SECURITY + 10
    critical = True

    @property
    def tools_named(self) -> tuple[str, ...]:
        """Names in `writers`; the session refuses to start if it has no such tool."""
        return tuple(sorted(self.writers))

    @property
    def declarations(self) -> tuple[BlockedPaths]:
        """What it blocks, and after a `!` what it allows: the sandbox that a session makes itself hides the same."""
        return (BlockedPaths((*self._blocked, *[f"!{pattern}" for pattern in self._allowed])),)

    def in_sandbox(self, hidden: tuple[str, ...], tools: frozenset[str]) -> SecurityGuard:
        """Return this guard with *tools* as `confined_tools`, if all that it blocks is *hidden*."""
        exceptions = {pattern[1:] for pattern in hidden if pattern.startswith("!")}
        is_confined = {*self._blocked} <= {*hidden} and exceptions <= {*self._allowed}
        return evolve(self, confined_tools=tools if is_confined else NO_NAMES)

    @property
    def _blocked(self) -> tuple[str, ...]:
        return (*(BLOCKED_PATHS if self.default_blocked_paths else ()), *self.blocked_paths)

    @property
    def _allowed(self) -> tuple[str, ...]:
        return (*(ALLOWED_PATHS if self.default_allowed_paths else ()), *self.allowed_paths)

    def before_tool(
        self, hook: BeforeTool, state: None, ctx: Context
    ) -> Continue[None] | BlockTool[None] | HoldTool[None] | Ask[None]:
        """Block the call, hold it for a person, or let it pass; first search the folders that it reads."""
        working = directory(ctx.working_dir)
        worst = Finding(NO, "")
        looks: list[Finding] = []
        for finding in self._findings(hook.name, hook.args, working):
            looks += [finding] if finding.looks else []
            if finding.certainty > worst.certainty:
                worst = finding
            if worst.certainty is YES:
                break
        if worst.certainty is YES:
            audit = SecurityAudit(hook.call_id, hook.name, "blocked", worst.reason)
            return BlockTool(worst.reason).reporting(audit)
        if hook.approved:
            return Continue()
        unconfined = self._unconfined(hook, ctx)
        if worst.certainty is MAYBE:  # who allows all but what is unconfined has to read that too
            is_held = isinstance(unconfined, HoldTool)
            return self._hold(hook, f"{worst.reason}; {UNCONFINED}" if is_held else worst.reason)
        if unconfined is not None:
            return unconfined
        return self._looked(hook, looks, working) if looks else Continue()

    def _unconfined(self, hook: BeforeTool, ctx: Context) -> Continue[None] | HoldTool[None] | None:
        """Hold the call if it runs commands that no sandbox confines, and nobody has allowed them; `None` if not."""
        command_args = COMMAND_ARGS | self.command_args
        if hook.name in self.confined_tools or not any(command_lines(hook.args, command_args)):
            return None
        call = facts_of(hook.name, hook.args, ctx.working_dir, self.path_args, command_args)
        if permits(rules_of(self.allow_unconfined), call, call.working):
            return None
        families = {line.family() if isinstance(line, Commands) and call.is_plain else None for line in call.lines}
        family = families.pop() if len(families) == 1 else None
        if approved_family(hook.name, family, None, ctx) is not None:
            return Continue(family=family)
        return self._hold(hook, f"{UNCONFINED}, in {shown_as_json(hook.args)}", offered(family, None, ctx))

    def _looked(
        self, hook: BeforeTool, findings: Sequence[Finding], working: ResolvedPath
    ) -> Continue[None] | HoldTool[None] | Ask[None]:
        """Ask for blocked names in the folders of *findings*; with the answer, hold the call or let it pass."""
        blocked, _, allowed = self._fences()
        looks = [look for finding in findings for look in finding.looks]
        search = request(looks, working, blocked)
        answer = hook.answer if hook.asked == search else None
        if answer is None and not hook.final and search is not None:
            return Ask(search)
        why = problem(answer, looks, working, blocked, allowed)
        return Continue() if why is None else self._hold(hook, f"{findings[0].reason}; {why}")

    def _hold(self, hook: BeforeTool, reason: str, family: str | None = None) -> HoldTool[None]:
        audit = SecurityAudit(hook.call_id, hook.name, "held", reason)
        hint = f"`{hook.name}` needs a look: {reason}"
        return HoldTool(hint, timeout=self.timeout, family=family).reporting(audit)

    def _findings(self, tool: str, args: JsonObject, working: ResolvedPath) -> Iterator[Finding]:
        bases = [working]
        for _, value, _ in named(args, DIRECTORY_ARGS):
            bases += (base for text in texts(value) for base in resolve(text, (working,)))
        for _, value, _ in named(args, PATH_ARGS | self.path_args):
            for text in texts(value):
                yield from self._path(text, tuple(bases), working, writes=tool in WRITERS or tool in self.writers)
        for text, line in command_lines(args, COMMAND_ARGS | self.command_args):
            if isinstance(line, Unlexable):
                yield Finding(MAYBE, f"{line.reason}, in `{visible(text)}`")
            else:
                yield from self._line(text, line, tuple(bases), working)

    def _path(
        self, text: str, bases: tuple[ResolvedPath, ...], working: ResolvedPath, *, writes: bool
    ) -> Iterator[Finding]:
        if "\0" in text or ("\n" not in text and ("\\" in text or _ENCODED.search(text))):
            yield Finding(YES, f"the path `{visible(text)}` has a NUL, a backslash or an encoded separator")
        blocked, protected, allowed = self._fences()
        for path in resolve(text, bases):
            if allowed.find(path) is not None:
                continue
            for around in (blocked, protected) if writes else (blocked,):
                if (pattern := around.find(path, within=working)) is not None:
                    yield Finding(YES, f"the path `{visible(text)}` is under `{pattern}`")

    def _fences(self) -> tuple[Fence, Fence, Fence]:
        """Return the compiled patterns (`Fence`) of the blocked, the protected and the allowed paths."""
        return (
            fence(self._blocked),
            fence((*(PROTECTED_PATHS if self.default_protected_paths else ()), *self.protected_paths)),
            fence(self._allowed),
        )

    def _line(
        self, text: str, line: Commands, bases: tuple[ResolvedPath, ...], working: ResolvedPath
    ) -> Iterator[Finding]:
        blocked, protected, allowed = self._fences()
        scene = CommandScene(line, bases, working, blocked, protected, allowed, assigned(line))
        for command in line:
            inner_scene = scene.within(command)
            for rule in RULES:
                if rule.name not in self.rules:
                    continue
                reason = f"{rule.reason} (rule `{rule.name}`), in `{visible(text)}`"
                answer, looks = rule.asks(command, inner_scene), tuple(rule.looks(command, inner_scene))
                if answer or looks:
                    yield Finding(max(answer, scene.brought) if looks else answer, reason, looks)
            for blocked_command in self.blocked_commands:
                if _runs(command, blocked_command.split()):
                    yield Finding(YES, f"`{blocked_command}` is a blocked command, in `{visible(text)}`")
            for word in _paths(command):
                answer, pattern = inner_scene.fenced(word, blocked)
                if not answer and command.program not in READ_BY_RULES:
                    answer, pattern = inner_scene.mentions(word, blocked)
                if answer:
                    yield Finding(answer, f"`{visible(word.text)}` is under `{pattern}`, in `{visible(text)}`")
            scene = scene.after(command)


def _runs(command: SimpleCommand, words: Sequence[str]) -> bool:
    """Whether *command* runs the program `words[0]` and has the other *words* in this order among its arguments."""
    program, *arguments = words
    if command.program != program.lower():
        return False
    texts = iter(word.text for word in command.args)
    return all(word in texts for word in arguments)


def _paths(command: SimpleCommand) -> Iterator[Word]:
    """Yield the words of *command* that may be paths; none if its program only prints its arguments."""
    yield from (redirection.target for redirection in command.redirections if redirection.names_file)
    yield from (assignment.assigned for assignment in command.assignments)
    yield from command.around
    if command.program not in _TALKERS:
        yield from (
            word for word in (*command.argv[:1], *without_messages(command)) if not word.text.startswith(_LEFT_OUT)
        )
