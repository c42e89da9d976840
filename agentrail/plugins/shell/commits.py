"""Finds `git` commands that print or archive file contents from commits, and so could show a blocked file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from agentrail.plugins.shell.lexer_words import SimpleCommand, Word
from agentrail.plugins.shell.paths import PathPlace, meets
from agentrail.plugins.shell.programs import git_verb
from agentrail.plugins.shell.rule_context import MAYBE, NO, Certainty, CommandScene, given, worst
from agentrail.plugins.shell.searches import prints_all
from agentrail.plugins.shell.trees import holds, shows_archive
from agentrail.values.value import Value


class Dump(Value):
    """The conditions under which a sub-command of git prints contents of files."""

    if_asked: bool = False
    """Whether the sub-command prints contents only with an option that asks for patches."""
    unless_asked: bool = False
    """Whether the sub-command prints no contents with an option that asks for names or counts only."""
    of_revisions: bool = False
    """Whether the sub-command counts only with a revision: without one it shows changes that are not committed yet."""


_PATCH: Final = Dump(if_asked=True)
_ALWAYS: Final = Dump()
_TABLE: Final[Mapping[str, Dump]] = MappingProxyType(
    {
        "archive fast-export format-patch grep": _ALWAYS,
        "diff-files diff-index diff-tree log reflog stash whatchanged": _PATCH,
        "diff": Dump(unless_asked=True, of_revisions=True),
        "show": Dump(unless_asked=True),
    }
)
_BY_VERB: Final[Mapping[str, Dump]] = MappingProxyType(
    {verb: dump for listed, dump in _TABLE.items() for verb in listed.split()}
)
_ASKS: Final = re.compile(
    r"-(?![GILMOSXln])[A-Za-z0-9]*[pucU][A-Za-z0-9]*|--(?:binary|cc|patch|remerge-diff|unified)(?:[-=].*)?"
)
_NAMES_ONLY: Final = re.compile(
    r"-s|--(?:check|dirstat|name-only|name-status|no-patch|numstat|quiet|raw|shortstat|stat|summary)(?:=.*)?"
)
_STASHES: Final = frozenset({"list", "show"})
_ARCHIVE_VALUES: Final = frozenset({"-o", "--output", "--format", "--prefix"})
_FILE: Final = re.compile(r"(?:[\w@-][\w.@-]*/)*\w[\w-]*\.[A-Za-z]\w{0,4}")
"""Matches an operand that is taken for a file, not a revision, although no `--` is before it: it has an extension."""
_HERE: Final = Word(".")
_END: Final = "--"


def reads_commits(command: SimpleCommand, scene: CommandScene) -> Certainty:
    """Return whether *command* makes git print or archive stored files that may include a blocked one."""
    at = git_verb([word.text for word in command.args]) if command.program == "git" else len(command.args)
    verb = "".join(word.text for word in command.args[at : at + 1])
    dump = _BY_VERB.get(verb)
    if dump is None:
        return NO
    args = command.args[at + 1 :]
    texts = [word.text for word in args]
    end = texts.index(_END) if _END in texts else len(texts)
    operands = given(args[:end]).operands
    files = next((n for n, word in enumerate(operands) if _FILE.fullmatch(word.text)), len(operands))
    revisions = operands[:files]
    if not _prints(dump, verb, texts[:end], revisions):
        return NO
    paths = (*operands[files:], *args[end + 1 :])
    if verb == "archive":
        paths = () if shows_archive(command, scene) else _archived(args)
    elif verb == "grep":
        paths = args[end + 1 :]
    if verb == "grep" and prints_all(args[:end]):
        return MAYBE
    return worst(_path(word, scene) for word in paths or (_HERE,))


def _prints(dump: Dump, verb: str, options: Sequence[str], revisions: Sequence[Word]) -> bool:
    if verb == "stash" and not any(word.text in _STASHES for word in revisions[:1]):
        return False
    asked = any(map(_ASKS.fullmatch, options))
    if dump.if_asked or (dump.unless_asked and any(map(_NAMES_ONLY.fullmatch, options))):
        return asked
    if verb == "show" and revisions and all(":" in word.text for word in revisions):
        return False  # `REVISION:PATH` is one file of a commit, which the rules for paths check
    return bool(revisions) or not dump.of_revisions


def _archived(args: Sequence[Word]) -> tuple[Word, ...]:
    """Return the paths in the arguments of `git archive`, which follow the revision; empty if it writes to stdout."""
    if not given(args).has("o", "output"):
        return ()
    values = {n + 1 for n, word in enumerate(args) if word.text in _ARCHIVE_VALUES}
    return given([word for n, word in enumerate(args) if n not in values]).operands[1:]


def _path(word: Word, scene: CommandScene) -> Certainty:
    """Return whether a git pathspec may include a blocked file.

    In a pathspec `*` matches any text, and a leading `:` begins special syntax, which is not analysed.
    """
    if word.text.startswith(":"):
        return MAYBE
    aimed = scene.aim(word)
    if any(_meets_blocked(place, scene) for place in aimed.places):
        return MAYBE
    return holds(aimed, scene)


def _meets_blocked(place: PathPlace, scene: CommandScene) -> bool:
    last = "".join(place.folded[-1:])
    return not set(last).isdisjoint("*?[") and any(meets(last, name, hidden=True) for name in scene.blocked.lasts)
