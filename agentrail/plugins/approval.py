"""`HumanApproval`: lets a person decide about calls before they run; an approval for always may end after a time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs
from attrs import frozen

from agentrail.hooks.actions import Answered, Ask, AskAnswer, Continue, Failed, FindGitPrograms, HoldTool, TimedOut
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import BeforeTool
from agentrail.hooks.plugin import Plugin, Priority
from agentrail.plugins.arguments import COMMAND_ARGS, INERT_ARGS, command_lines, shown_as_json, visible
from agentrail.plugins.options import (
    NO_NAMES,
    as_plain_set,
    as_tuple,
    check_optional_seconds,
    check_text,
    check_texts,
    plain_argument,
)
from agentrail.plugins.shell.code_arguments import has_subscript
from agentrail.plugins.shell.command_line import QUIET_WRAPPERS, Commands, writes_file
from agentrail.plugins.shell.lexer_words import SimpleCommand, Unlexable, trusted
from agentrail.plugins.shell.paths import meets
from agentrail.plugins.shell.rule_context import assigned
from agentrail.plugins.shell.rules import unsure
from agentrail.values.json import FrozenObject, JsonObject
from agentrail.values.value import Value

_UNTIL: Final = ", until "
_LAST: Final = 253_402_300_799
"""The last second of the year 9999: no later one is written, so that dates compare as texts."""


def offered(family: str | None, seconds: float | None, ctx: Context) -> str | None:
    """Return the approval "for always" to offer to a person: for *family*, ending *seconds* from now (`None`: never).

    Return `None` if no such approval is possible: without a family, or for 0 seconds.
    """
    if family is None or seconds == 0 or _UNTIL in family:
        return None
    return family if seconds is None else f"{family}{_UNTIL}{_date(ctx.now_ms / 1000 + seconds)}"


def approved_family(tool: str, family: str | None, seconds: float | None, ctx: Context) -> str | None:
    """Return the stored approval that covers *family* of *tool* and has not expired; `None` if there is none."""
    if family is None or _UNTIL in family:
        return None
    if seconds is None:
        return family if (tool, family) in ctx.approved_always else None
    now, latest = _date(ctx.now_ms / 1000), _date(ctx.now_ms / 1000 + seconds)
    pairs = ((approved, approved.rpartition(_UNTIL)) for name, approved in ctx.approved_always if name == tool)
    ends = [(end, approved) for approved, (base, _, end) in pairs if base == family and now < end <= latest]
    return max(ends)[1] if ends else None


def _date(seconds: float) -> str:
    """Return the UTC date and time of *seconds* since 1970.

    It uses arithmetic, because `datetime` can read the clock.
    """
    days, rest = divmod(int(min(max(seconds, 0), _LAST)), 86_400)
    days += 719_468  # Years begin on the 1st of March here, so that a leap day is the last day of its year.
    era, day = divmod(days, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    year += era * 400 + month // 10
    return f"{year:04}-{(month + 2) % 12 + 1:02}-{day:02} {rest // 3_600:02}:{rest // 60 % 60:02}:{rest % 60:02} UTC"


SAFE_COMMANDS: Final = (
    "[",
    "basename",
    "cat",
    "cksum",
    "cmp",
    "comm",
    "cut",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "false",
    "fgrep",
    "file",
    "find",
    "git blame",
    "git describe",
    "git diff",
    "git grep",
    "git log",
    "git ls-files",
    "git rev-parse",
    "git shortlog",
    "git show",
    "git status",
    "grep",
    "head",
    "id",
    "ls",
    "md5sum",
    "nl",
    "od",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rg",
    "sha1sum",
    "sha256sum",
    "sort",
    "stat",
    "tail",
    "test",
    "tr",
    "tree",
    "true",
    "uname",
    "wc",
    "which",
    "whoami",
)
"""The default of `safe_commands`: commands that only read. With an option that makes them do more, they are held."""

MAX_SHOWN: Final = 10
"""The most settings of git that a person is told."""

TOOLS: Final = ("shell", "write_file", "edit_file")
"""The tools that are held by default, if the session has them."""

_UNSAFE: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = MappingProxyType(
    {
        "[": ("", ("-v", "-R")),
        "file": ("C", ("--compile",)),
        "find": (
            "",
            (
                "-delete",
                "-exec",
                "-execdir",
                "-fls",
                "-fprint",
                "-fprint0",
                "-fprintf",
                "-ok",
                "-okdir",
                "-files0-from",
            ),
        ),
        "git": (
            "O",
            (
                "--exec",
                "--ext-diff",
                "--open-files-in-pager",
                "--output",
                "--recurse-submodules",
                "--submodule",
                "--textconv",
            ),
        ),
        "printf": ("v", ()),
        "rg": ("", ("--hostname-bin", "--pre")),
        "sort": ("oT", ("--compress-program", "--output", "--temporary-directory")),
        "test": ("", ("-v", "-R")),
        "tree": ("oR", ()),
    }
)
"""For commands of `SAFE_COMMANDS`: the options that make them write files or run programs.

First the short options, as letters; then whole words, of which `--words` may also be given shortened.
"""


class Judgement(Value):
    """The plugin's findings about a call, which decide whether it is held."""

    question: str
    """The command or call, as text for the person who decides."""
    family: str | None
    """The family of commands that an answer "always" would approve; `None` if there is none."""
    safe: bool = False
    """Whether the call may run without approval."""
    runs_commands: bool = True
    """Whether it runs command lines."""
    has_git: bool = False
    """Whether one of its commands is git, which may run programs that the repository names."""


@frozen
class HumanApproval(Plugin[None]):
    """Hold calls of certain tools until a person approves them; commands that only read pass.

    A command line passes if it can be parsed, its commands are all in `safe_commands`, and it neither writes a file
    nor assigns a variable. An answer "always" covers the family of the commands, or all calls of a tool that runs none.
    If one is git, the session is asked first (`FindGitPrograms`) whether the repository could make it run a program, as
    `core.fsmonitor` and `diff.external` do: then it is held, and so it is if that is not known.
    """

    tools: tuple[str, ...] = attrs.field(default=TOOLS, converter=as_tuple, validator=check_texts)
    """Names of the tools whose calls are held, where `*` is any text and `?` any character.

    The session must have each tool that is named without these, except the default ones.
    """
    safe_commands: tuple[str, ...] = attrs.field(default=SAFE_COMMANDS, converter=as_tuple, validator=check_texts)
    """Beginnings of commands that pass without approval: a program, or a program and the words after it."""
    timeout: float | None = attrs.field(default=120.0, validator=check_optional_seconds)
    """Seconds that a held call waits for a person; `None` if it waits for ever."""
    command_args: frozenset[str] = attrs.field(default=NO_NAMES, converter=as_plain_set, validator=check_texts)
    """Names of arguments that are commands, in addition to `COMMAND_ARGS`; case, `_` and `-` do not matter."""
    always_seconds: float | None = attrs.field(default=None, validator=check_optional_seconds)
    """Seconds from the question on for which an approval for always counts; `None`: for ever, 0: it cannot be given."""

    reach: str | None = attrs.field(default=None, validator=attrs.validators.optional(check_text))
    """What commands reach of the network, for the person who decides about one; `None` if nothing is said of it."""

    priority = Priority.SECURITY + 20
    critical = True

    @property
    def tools_named(self) -> tuple[str, ...]:
        """Names in `tools` that are neither patterns nor defaults; the session refuses to start without these tools."""
        return tuple(name for name in self.tools if name not in TOOLS and not {"*", "?", "["} & set(name))

    def asks_about(self, tool: str) -> bool:
        """Whether calls of *tool* are held, except those that run only commands that read."""
        return any(meets(pattern, tool, hidden=True) for pattern in self.tools)

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | HoldTool[None] | Ask[None]:
        """Hold the call if a person must decide about it; first ask what a repository of git could make it run."""
        if hook.approved or not self.asks_about(hook.name):
            return Continue()
        judgement = self._judgement(hook.name, hook.args)
        if judgement.safe and not judgement.has_git:
            return Continue()
        approved = approved_family(hook.name, judgement.family, self.always_seconds, ctx)
        if approved is not None:
            return Continue(family=approved)
        question = judgement.question
        if judgement.safe:
            answer = hook.answer if hook.asked == FindGitPrograms() else None
            if answer is None and not hook.final:
                return Ask(FindGitPrograms())
            problem = _program_of_git(answer)
            if problem is None:
                return Continue()
            question = f"{question}; {problem}"
        if self.reach and judgement.runs_commands:
            question = f"{question}; {self.reach}"
        return HoldTool(question, timeout=self.timeout, family=offered(judgement.family, self.always_seconds, ctx))

    def _judgement(self, tool: str, args: JsonObject) -> Judgement:
        command_args = COMMAND_ARGS | self.command_args
        lines = tuple(command_lines(args, command_args))
        if not lines:
            return Judgement(f"`{tool}` wants to run with {shown_as_json(args)}", tool, runs_commands=False)
        question = f"`{tool}` wants to run " + " and ".join(dict.fromkeys(f"`{visible(text)}`" for text, _ in lines))
        for _, line in lines:
            if isinstance(line, Unlexable):
                return Judgement(f"{question}; it cannot be read because of {line.reason}", None)
        others = FrozenObject(
            {key: item for key, item in args.items() if plain_argument(key) not in command_args | INERT_ARGS}
        )
        if others:
            return Judgement(f"{question} with {shown_as_json(others)}", None)
        readable = [line for _, line in lines if isinstance(line, Commands)]
        families = {line.family() for line in readable}
        has_git = any(command.name == "git" for line in readable for command in line)
        family = families.pop() if len(families) == 1 else None
        return Judgement(question, family, all(map(self._is_safe, readable)), has_git=has_git)

    def _is_safe(self, line: Commands) -> bool:
        names_assigned = assigned(line)
        return len(line) > 0 and all(self._passes(command, names_assigned) for command in line)

    def _passes(self, command: SimpleCommand, names_assigned: frozenset[str]) -> bool:
        """Whether *command* is in `safe_commands` and only reads.

        A command that is only harmless redirections passes too.

        More are assignments, words that only the shell knows, wrappers that are not in `QUIET_WRAPPERS`, options that
        make it write or run something, and redirections to files.
        """
        if command.assignments or writes_file(command):
            return False
        if any(trusted(name) not in QUIET_WRAPPERS for name in command.via) or unsure(command, names_assigned):
            return False
        texts = (command.name, *(word.text for word in command.args))
        listed = any(texts[: len(words)] == words for words in (tuple(safe.split()) for safe in self.safe_commands))
        return not command.argv or (listed and not _does_more(command))


def _program_of_git(answer: AskAnswer | None) -> str | None:
    """Return why git may run a program of the repository, given the *answer*; `None` if it runs none."""
    match answer:
        case Answered(value=()):
            return None
        case Answered(value=tuple() as found):
            return f"git may run a program by {', '.join(f'`{visible(str(name))}`' for name in found[:MAX_SHOWN])}"
        case Failed(error=error):
            return f"it is not known whether git runs a program: {visible(error)}"
        case TimedOut(seconds=seconds):
            return f"it was not known within {seconds:g} seconds whether git runs a program"
        case _:
            return "it is not known whether git runs a program"


def _does_more(command: SimpleCommand) -> bool:
    """Whether an option, or an unknown word that may be one, makes a read-only command write files or run programs."""
    if command.name not in _UNSAFE:
        return False
    if command.name in {"[", "printf", "test"} and has_subscript([word.text for word in command.args]):
        return True
    letters, words = _UNSAFE[command.name]
    for word in command.args:
        text = word.text.partition("=")[0]
        if word.expands and word.may_be_option:
            return True
        if text in words or (
            text.startswith("--") and len(text) > len("--") and any(w.startswith(text) for w in words)
        ):
            return True
        if re.match(r"-[^-]", text) and not set(letters).isdisjoint(word.text):
            return True
    return False
