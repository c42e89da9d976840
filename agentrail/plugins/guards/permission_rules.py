"""Reads the rules of `PermissionPolicy`, `tool` or `tool(pattern)`, and matches them with calls.

Rules of `deny` and `ask` are read widely (`naming`): a call that they may mean is told from one that they do not.
Rules of `allow` are read narrowly (`permits`): only a call that is plainly what the rule says matches.

Reads from a call what rules may know of it: its commands, what those may run, and its paths.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, TypeAlias

from agentrail.plugins.arguments import DIRECTORY_ARGS, INERT_ARGS, PATH_ARGS, command_lines, named, texts
from agentrail.plugins.guards.launchers import may_run
from agentrail.plugins.options import plain_argument
from agentrail.plugins.shell.command_line import Commands
from agentrail.plugins.shell.lexer_words import UNKNOWN, SimpleCommand, Unlexable, Word, names, trusted
from agentrail.plugins.shell.paths import HOME_PARENTS, ResolvedPath, directory, fence, fold, meets, resolve
from agentrail.plugins.shell.rule_context import MAYBE, NO, YES, Certainty, CommandScene, assigned, worst
from agentrail.plugins.shell.rules import RULES
from agentrail.values.json import Json, JsonObject
from agentrail.values.value import Value

MAX_PATHS: Final = 32
"""The most paths, and the most command lines, of a call that rules are compared with; no rule allows more."""
MAX_PATH: Final = 4_096
"""The most characters of a path that a rule is compared with; no rule allows a longer one."""


class CallFacts(Value, gc=True):
    """The facts of a call that rules are matched with: its tool, commands and paths."""

    tool: str
    """Name of the tool."""
    lines: tuple[Commands | Unlexable, ...]
    """The command lines, parsed."""
    possible: tuple[Commands | Unlexable, ...]
    """What programs such as `npx` and `docker exec` may run in those lines."""
    paths: tuple[str, ...]
    """The paths, as text."""
    working: ResolvedPath
    """The session's folder."""
    bases: tuple[ResolvedPath, ...]
    """The folders at which relative paths may begin: the session's, and those that the call names."""
    is_whole: bool
    """Whether `lines` and `paths` are all that the arguments have; if not, some are too many, too long or no text."""
    is_plain: bool
    """Whether nothing in the arguments makes the commands or paths mean something else."""


def facts_of(
    tool: str, args: JsonObject, working_dir: str, path_args: frozenset[str], command_args: frozenset[str]
) -> CallFacts:
    """Return the facts of a call with *args*; *path_args* and *command_args* are names of arguments in plain form."""
    working = directory(working_dir)
    lines = tuple(line for _, line in islice(command_lines(args, command_args), MAX_PATHS + 1))
    items = [item for _, item, _ in named(args, PATH_ARGS | path_args)]
    all_texts = tuple(text for item in items for text in texts(item))
    paths = tuple(text for text in all_texts[:MAX_PATHS] if len(text) <= MAX_PATH)
    folders = [text for _, item, _ in named(args, DIRECTORY_ARGS) for text in texts(item) if text in paths]
    folder_paths = [folder for text in folders for folder in resolve(text, (working,))]
    bases = tuple(dict.fromkeys((working, *folder_paths)))
    is_whole = all(map(_is_text, items)) and paths == all_texts and len(lines) <= MAX_PATHS
    is_plain = is_whole and (not lines or all(plain_argument(key) in command_args | INERT_ARGS for key in args))
    lines = lines[:MAX_PATHS]
    return CallFacts(tool, lines, tuple(may_run(lines)), paths, working, bases, is_whole, is_plain)


def _is_text(arg: Json) -> bool:
    """Whether *arg*, an argument that holds paths, is a text or a list of texts."""
    return isinstance(arg, str) or (isinstance(arg, Sequence) and len(texts(arg)) == len(arg))


LONGEST: Final = 200
"""The most characters of a rule."""
MAX_PARTS: Final = 64
"""The most parts of a path that a rule is compared with; no rule allows a longer one."""
_HIDING: Final = tuple(
    rule for rule in RULES if rule.name in {"argument-program", "git-runs", "pipe-to-shell", "run-by-others"}
)
"""The rules of `SecurityGuard` that tell whether a command runs something that its words do not show."""

FOREIGN: Final = ":*"
"""How other programs write that any words may follow; here it would be a part of the last word, and match nothing."""

_ANY: Final = "*"
_DEEP: Final = "**"
_SERVER: Final = "__"
_NOWHERE: Final = "/dev/null"
_RULE: Final = re.compile(r"([A-Za-z0-9_*?-]+)(?:\((.*)\))?", re.DOTALL)
_SHELL: Final = re.compile(r"[;&|<>$`'\"\\(){}\[\]!#]")
_ODD: Final = re.compile(r"[\0-\x1f\x7f\\]|%(?:00|25|2e|2f|5c|c0|c1|u[0-9a-f]{4})", re.IGNORECASE)
_TAKES_VARIABLES: Final = names("declare export go gmake local make readonly typeset")
_BETWEEN: Final = re.compile(r"[\s;&|<>()`'\"$,:=]+")
_LEAVES: Final = ("-", "/", "~")


class PermissionRule(Value):
    """A rule: a tool, and a pattern of its commands or paths."""

    text: str
    """The rule as it was written."""
    tool: str
    """Name of the tool, where `*` is any text and `?` any character."""
    pattern: str | None
    """Pattern of the commands or paths; `None` if all calls of the tool are meant."""

    @property
    def words(self) -> tuple[str, ...]:
        """The pattern, split into the words of a command."""
        return tuple(_ANY if word == _DEEP else word for word in (self.pattern or _ANY).split())

    @property
    def is_any(self) -> bool:
        """Whether the rule matches all calls of its tool, because it has no pattern or `*`."""
        return self.pattern is None or self.pattern in {_ANY, _DEEP}


Naming: TypeAlias = list[tuple[Certainty, PermissionRule]]
"""The rules that name a call, each with how certain that is."""


def problem_of(text: str, *, allows: bool) -> str | None:
    """Return why *text* is not a valid rule, and what to write; `None` if it is valid. *allows*: it is in `allow`."""
    match = _RULE.fullmatch(text)
    if len(text) > LONGEST:
        return f"which is longer than {LONGEST} characters; write several shorter rules"
    if match is None or match[2] == "":
        return (
            "which is no rule; write `tool` for all calls of a tool, or `tool(pattern)`, such as `shell(git status *)`"
        )
    pattern = match[2]
    if pattern is None:
        return None
    if not pattern.isprintable() or pattern != pattern.strip() or "  " in pattern:
        return "whose pattern has blanks at an end or in a row, or invisible characters; write words with single blanks"
    if pattern.endswith(FOREIGN):
        return f"whose `{FOREIGN}` is the form of other programs; write `{match[1]}({pattern.removesuffix(FOREIGN)} *)`"
    if odd := _SHELL.search(pattern):
        return (
            f"whose pattern has `{odd[0]}`; write one program and its words, or one path, with `*`, `**` and `?` only"
        )
    for part in re.split(r"[ /]", pattern):
        if part == "..":
            return "whose pattern has `..`; write where it leads"
        if _DEEP in part and part != _DEEP:
            return "in which `**` is not a whole part of a path; write `*` for any text within a name"
    if allows and pattern.startswith("~"):
        return "whose pattern begins at a home, which is not known; write the path from the root"
    if allows and " " in pattern and _is_glob(pattern.partition(" ")[0]):
        return "which leaves open what program runs; name the program, and write a rule for each"
    return None


@lru_cache(maxsize=64)
def rules_of(listed: tuple[str, ...]) -> tuple[PermissionRule, ...]:
    """Return the rules that the texts *listed* describe, all of which have passed `problem_of`; cached."""
    matches = ((text, _RULE.fullmatch(text)) for text in listed)
    return tuple(PermissionRule(text, match[1], match[2]) for text, match in matches if match is not None)


# Wide: `deny` and `ask`


def naming(rules: Sequence[PermissionRule], call: CallFacts) -> Naming:
    """Return those of *rules* that match *call*, or may match it."""
    mine = [rule for rule in rules if means_tool(rule, call.tool)]
    least = MAYBE if not all(rule.is_any for rule in mine) and _runs_unseen((*call.lines, *call.possible), call) else NO
    verdicts = [(YES if rule.is_any else max(least, _covers(rule, call)), rule) for rule in mine]
    return [(certainty, rule) for certainty, rule in verdicts if certainty is not NO]


def _runs_unseen(lines: Sequence[Commands | Unlexable], call: CallFacts) -> bool:
    """Whether one of *lines* runs something that its words do not show, such as code or a script that it writes."""
    return any(_hides(line, call) for line in lines if isinstance(line, Commands))


def _hides(line: Commands, call: CallFacts) -> bool:
    nothing = fence(())
    scene = CommandScene(line, call.bases, call.working, nothing, nothing, nothing, assigned(line))
    for command in line:
        inner_scene = scene.within(command)
        if command.program != "find" and any(rule.asks(command, inner_scene) is not NO for rule in _HIDING):
            return True  # the command that `find` runs is in *line* as a command of its own
        scene = scene.after(command)
    return False


def _covers(rule: PermissionRule, call: CallFacts) -> Certainty:
    """Return whether *rule*, which has a pattern, matches *call*; `MAYBE` if the text of the call does not tell."""
    by_path = worst(_covers_path(rule.pattern or "", text, call) for text in call.paths)
    if (
        call.lines
    ):  # a word such as `create` may stand in an argument for commands, with the path in an argument beside it
        lines = worst(_covers_line(rule.words, line) for line in call.lines)
        possible = min(MAYBE, worst(_covers_line(rule.words, line) for line in call.possible))
        return max(by_path if by_path is YES else NO, lines, possible, NO if call.is_whole else MAYBE)
    return by_path if call.paths and call.is_whole else max(by_path, MAYBE)


def means_tool(rule: PermissionRule, name: str) -> bool:
    """Whether *rule* is about the tool *name*, in any case; the name of a server stands for all its tools."""
    rule_tool, tool = fold(rule.tool), fold(name)
    return meets(rule_tool, tool, hidden=True) or tool.startswith(rule_tool + _SERVER)


def _covers_line(words: Sequence[str], line: Commands | Unlexable) -> Certainty:
    if isinstance(line, Unlexable):
        return MAYBE
    return worst(certainty for command in line for certainty in _covers_command(words, command))


def _covers_command(words: Sequence[str], command: SimpleCommand) -> Iterator[Certainty]:
    """Yield how certain it is that *words* match *command*, or a wrapper that runs it."""
    if not command.argv:
        return
    yield _covers_argv(words, command.program, command.args)
    for wrapper in command.via:
        name = wrapper.rpartition("/")[2]
        yield _covers_argv(words, name, (*command.around, *command.argv))
        yield min(MAYBE, _covers_argv(words[:1], name, ()))  # *command* does not have all words of its wrapper
    for name in {trusted(text) for word in command.args for text in _sides(word.text) if text.startswith("/")}:
        if "/" not in name:  # the path of a program, which *command* may run
            yield min(MAYBE, _covers_argv(words[:1], name, ()))
    values = [assignment.assigned.text for assignment in command.assignments]
    if command.program in _TAKES_VARIABLES:
        values += [text.partition("=")[2] for text in (word.text for word in command.args)]
    for name in {part.rpartition("/")[2] for value in values for part in _BETWEEN.split(value)}:
        yield min(MAYBE, _covers_argv(words[:1], name, ()))  # the program may run the value of the variable


def _sides(text: str) -> tuple[str, str]:
    """Return *text*, and the part of it after its first `=`."""
    return text, text.partition("=")[2]


def _covers_argv(words: Sequence[str], program: str, args: Sequence[Word]) -> Certainty:
    """Return whether *program* matches the first of *words*, and *args* have the others in this order."""
    if not meets(fold(words[0].rpartition("/")[2]), fold(program), hidden=True):
        return NO
    patterns = [fold(word) for word in words[1:] if word != _ANY]
    rest = iter(args)
    if all(
        any(not word.is_unknown and meets(text, fold(word.text), hidden=True) for word in rest) for text in patterns
    ):
        return YES
    return MAYBE if all(any(_may_be(word, text) for word in args) for text in patterns) else NO


def _may_be(word: Word, text: str) -> bool:
    """Whether *word*, as the shell expands it, may match *text*, which is a word of a rule."""
    if word.is_unknown:
        return True
    folded = fold(word.text)
    return meets(text, folded, hidden=True) or (word.globs and (_is_glob(text) or meets(folded, text, hidden=True)))


def _is_glob(pattern: str) -> bool:
    return not {"*", "?"}.isdisjoint(pattern)


def _covers_path(pattern: str, text: str, call: CallFacts) -> Certainty:
    """Return whether *pattern* matches the path *text* or a folder above it; `MAYBE` if it may match below the path."""
    if _ODD.search(text):
        return MAYBE
    anchor, pattern_parts = _anchored(pattern)
    certainty = NO
    for path in resolve(text, call.bases):
        if len(path.parts) > MAX_PARTS:
            return MAYBE
        parts = path.folded
        start = _start(anchor, path)
        if start is not None and _fits((*([] if anchor else [_DEEP]), *pattern_parts, _DEEP), parts[start:]):
            return YES
        above = parts if anchor == "/" else _below(path, call.working, folded=True)
        if (
            anchor != "~"
            and above is not None
            and len(above) < len(pattern_parts)
            and _fits(pattern_parts[: len(above)], above)
        ):
            certainty = MAYBE
    return certainty


def _anchored(pattern: str) -> tuple[str, tuple[str, ...]]:
    """Return the root of *pattern* (`/`, `~`, or empty for any folder), and its parts in the form for comparison."""
    anchor = pattern[0] if pattern[0] in {"/", "~"} else ""
    return anchor, tuple(fold(part) for part in pattern.removeprefix("~").split("/") if part not in {"", "."})


def _start(anchor: str, path: ResolvedPath) -> int | None:
    """Return the index in *path* from which a pattern with this *anchor* is compared; `None` if it cannot match."""
    folded = path.folded
    if not anchor:
        return 0
    if anchor == "/":
        return 0 if path.absolute else None
    if not path.absolute:
        return 0
    if folded[:1] == ("root",):
        return 1
    return 2 if folded[1:] and folded[0] in HOME_PARENTS else None


# Narrow: `allow`


def permits(rules: Sequence[PermissionRule], call: CallFacts, root: ResolvedPath) -> bool:
    """Whether *rules* allow everything that *call* does; patterns are relative to the folder *root*."""
    mine = [rule for rule in rules if _is_tool(rule.tool, call.tool)]
    if any(rule.pattern is None for rule in mine):
        return True
    if not mine or not call.is_plain:
        return False
    if call.lines:
        if root != call.working or _runs_unseen(call.lines, call):
            return False
        commands = [command for line in call.lines if isinstance(line, Commands) for command in line]
        is_readable = all(isinstance(line, Commands) and len(line) > 0 for line in call.lines)
        return is_readable and all(any(_permits_command(rule.words, command) for rule in mine) for command in commands)
    if not call.paths:
        return any(rule.is_any for rule in mine)
    return all(any(_permits_path(rule.pattern or "", text, call, root) for rule in mine) for text in call.paths)


def _is_tool(tool: str, name: str) -> bool:
    """Whether the rule's *tool* matches *name* exactly; a wild card does not match the `__` after a server's name."""
    if tool == _ANY:
        return True
    rule_parts, name_parts = tool.split(_SERVER), name.split(_SERVER)
    return len(rule_parts) == len(name_parts) and all(
        meets(part, text, hidden=True) for part, text in zip(rule_parts, name_parts, strict=True)
    )


def _permits_command(words: Sequence[str], command: SimpleCommand) -> bool:
    """Whether *words* match *command* word by word, and no redirection, variable or wrapper makes it do more."""
    if not command.argv or command.assignments or command.via or command.around:
        return False
    if any(redirection.names_file and redirection.target.text != _NOWHERE for redirection in command.redirections):
        return False
    if any(word.expansions & UNKNOWN for word in command.argv) or command.argv[0].expands:
        return False
    if tuple(words) == (_ANY,):
        return True
    program, *rest = words
    return command.name == program and _says(rest, command.args)


def _says(words: Sequence[str], args: Sequence[Word]) -> bool:
    """Whether *words* match *args* one by one; a word `*` matches any number of them."""
    ends = {0}
    for word in words:
        if word == _ANY:
            ends = set(range(min(ends), len(args) + 1)) if ends else ends
        else:
            ends = {end + 1 for end in ends if end < len(args) and _is_word(word, args[end])}
    return len(args) in ends


def _is_word(pattern: str, word: Word) -> bool:
    """Whether *pattern* matches *word*; a wild card matches no option, no absolute path, and no `..`."""
    text = word.text
    if word.expands:
        return False
    if not _is_glob(pattern):
        return text == pattern
    if pattern[0] in {"*", "?"} and text.startswith(_LEAVES):
        return False
    return not any(map(_is_upwards, text.split("/"))) and meets(pattern, text, hidden=True)


def _permits_path(pattern: str, text: str, call: CallFacts, root: ResolvedPath) -> bool:
    pattern_parts = tuple(part for part in pattern.split("/") if part not in {"", "."})
    for path in plain_paths(text, call):
        parts = path.parts if pattern.startswith("/") and path.absolute else None
        if not pattern.startswith("/"):
            parts = _below(path, root)
        if parts is None or not _fits(pattern_parts, parts):
            return False
    return bool(plain_paths(text, call))


def plain_paths(text: str, call: CallFacts) -> tuple[ResolvedPath, ...]:
    """Return the paths that *text* may name; none if it goes upwards or to a home, or has odd characters."""
    odd = _ODD.search(text) or text.startswith("~") or text[:5].lower() == "file:" or not text.isprintable()
    if odd or not text or any(map(_is_upwards, text.split("/"))):
        return ()
    paths = resolve(text, call.bases)
    return () if any(len(path.parts) > MAX_PARTS for path in paths) else paths


def is_below(text: str, call: CallFacts, root: ResolvedPath) -> bool:
    """Whether the path *text* is surely below *root*, and neither it nor a folder on the way is hidden."""
    all_parts = [_below(path, root) for path in plain_paths(text, call)]
    return bool(all_parts) and all(parts and not any(part.startswith(".") for part in parts) for parts in all_parts)


def _is_upwards(part: str) -> bool:
    """Whether *part* of a path is `..`, or looks so to some file system."""
    return len(part) > 1 and not unicodedata.normalize("NFKC", part).strip(" .")


def _below(path: ResolvedPath, root: ResolvedPath, *, folded: bool = False) -> tuple[str, ...] | None:
    """Return the parts of *path* below *root*; `None` if it is not below."""
    if not path.known or not path.is_under(root):
        return None
    return (path.folded if folded else path.parts)[len(root.parts) :]


def _fits(pattern_parts: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether *pattern_parts* match *parts* one by one; `**` matches any number of parts, `*` any text within one."""
    ends = {0}
    for part in pattern_parts:
        if part == _DEEP:
            ends = set(range(min(ends), len(parts) + 1)) if ends else ends
        else:
            ends = {end + 1 for end in ends if end < len(parts) and meets(part, parts[end], hidden=True)}
    return len(parts) in ends
