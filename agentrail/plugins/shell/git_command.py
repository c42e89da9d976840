"""Finds `git` commands that print or archive file contents from commits, and so could show a blocked file.

No list tells which files all commits had, so whole commits and folders of them may have a blocked one. Of the files
that git tracks now there is a list, the index: `SecurityGuard` has the session look for blocked names in it
(`FolderSearch`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from agentrail.plugins.shell.code_arguments import git_verb
from agentrail.plugins.shell.lexer_words import SimpleCommand, Word, names
from agentrail.plugins.shell.paths import ResolvedPath, meets
from agentrail.plugins.shell.rule_context import (
    CHANGES_DIRECTORY,
    MAYBE,
    NO,
    TALKERS,
    Certainty,
    CommandScene,
    FolderSearch,
    parse_args,
    worst,
)
from agentrail.plugins.shell.search_commands import searched
from agentrail.values.value import Value


class Dump(Value):
    """When a sub-command of git prints the contents of files."""

    if_asked: bool = False
    """Whether the sub-command prints contents only with an option that asks for patches."""
    unless_asked: bool = False
    """Whether the sub-command prints no contents with an option that asks for names or counts only."""
    tracked: bool = False
    """Whether the sub-command, without a revision, shows only files that git tracks now."""
    if_verbose: bool = False
    """Whether the sub-command prints contents only with `--verbose`: those of changed files that git tracks."""


_PATCH: Final = Dump(if_asked=True)
_ALWAYS: Final = Dump()
_TABLE: Final[Mapping[str, Dump]] = MappingProxyType(
    {
        "archive fast-export format-patch": _ALWAYS,
        "grep": Dump(tracked=True),
        "diff-files diff-index diff-tree log reflog stash whatchanged": _PATCH,
        "diff": Dump(unless_asked=True, tracked=True),
        "show": Dump(unless_asked=True),
        "commit status": Dump(if_verbose=True),
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
_VERBOSE: Final = re.compile(r"-(?![mFCct])[A-Za-z]*v[A-Za-z]*|--verb(?:o(?:s(?:e)?)?)?")
"""Matches what makes `git status` and `git commit` show changes; git takes a long option that is cut short."""
_STASHES: Final = frozenset({"list", "show"})
_ARCHIVE_VALUES: Final = frozenset({"-o", "--output", "--format", "--prefix"})
_FILE: Final = re.compile(r"(?:[\w@*-][\w.@*-]*/)*[\w*][\w*-]*\.[A-Za-z]\w{0,4}")
"""Matches what is taken for a file: it has an extension."""
_PLAIN_FILES: Final = names(
    "changelog copying dockerfile gemfile justfile license makefile procfile readme vagrantfile"
)
"""Names of files without an extension."""
_OF_HEAD: Final = frozenset({"--cached", "--staged"})
_ELSEWHERE: Final = ("git-dir", "no-index", "remote", "submodule", "untracked", "work-tree")
"""Options with which git reads other files than those that the index of this repository names."""
_HERE: Final = Word(".")
_END: Final = "--"


class GitOutput(Value, gc=True):
    """The files whose contents a `git` command shows."""

    verb: str
    """The sub-command."""
    revisions: tuple[Word, ...]
    """The operands before the paths: commits, and whatever else is no path."""
    paths: tuple[Word, ...]
    """The files and folders that it is limited to; empty if it shows all."""
    tracked: bool
    """Whether all that it can show is in the index, or was until the last commit."""
    of_head: bool
    """Whether it shows the last commit too, of which the index need not have all files any more."""


def reads_commits(command: SimpleCommand, scene: CommandScene) -> Certainty:
    """Return whether *command* makes git print or archive stored files, among which a blocked one may be.

    So may a command that reads what git has put on the disk in the same line: a sandbox hides what was there before.
    """
    if scene.brought and command.program not in {"git", *CHANGES_DIRECTORY, *TALKERS}:
        return MAYBE
    output = _git_output(command, scene)
    if output is None:
        return NO
    certainty = worst(_path(word, scene) for word in output.paths)
    if output.tracked:
        return certainty
    return certainty if output.paths and all(map(_is_file, output.paths)) else MAYBE


def looks_up(command: SimpleCommand, scene: CommandScene) -> Iterator[FolderSearch]:
    """Yield the folders whose tracked files *command* shows; they must be searched for blocked names.

    A path that is taken for a file is looked at on the disk, because it may be a folder.
    """
    output = _git_output(command, scene)
    if output is None:
        return
    if not output.tracked:
        for word in output.paths:
            yield from scene.looks(word)
        return
    for word in output.paths or (_HERE,):
        for look in scene.looks(word):  # in a pathspec of git, `*` also matches `/`
            yield look.but(path=look.path.but(parts=look.folder), on_disk=output.of_head, in_git=True)


def _git_output(command: SimpleCommand, scene: CommandScene) -> GitOutput | None:
    """Return the files that *command* shows; `None` if it shows no contents of files."""
    verb_index = git_verb([word.text for word in command.args]) if command.program == "git" else len(command.args)
    verb = "".join(word.text for word in command.args[verb_index : verb_index + 1])
    dump = _BY_VERB.get(verb)
    if dump is None:
        return None
    args = command.args[verb_index + 1 :]
    texts = [word.text for word in args]
    end = texts.index(_END) if _END in texts else len(texts)
    operands = searched(args[:end]) if verb == "grep" else parse_args(args[:end]).operands
    files = next((n for n, word in enumerate(operands) if _is_path(word.text)), len(operands))
    revisions = operands[:files]
    if not _prints(dump, verb, texts[:end], revisions):
        return None
    of_head = not _OF_HEAD.isdisjoint(texts[:end])
    paths = (*operands[files:], *args[end + 1 :])
    tracked = dump.tracked and not revisions
    if verb == "archive":
        (revisions, paths), of_head = _archived(args), True
        tracked = bool(paths) and [word.text for word in revisions] == ["HEAD"]
    elsewhere = parse_args(command.args).has("", *_ELSEWHERE) or any(n.startswith("GIT_") for n in scene.assigned)
    return GitOutput(verb, revisions, paths, tracked and not elsewhere, of_head)


def _is_path(text: str) -> bool:
    """Whether git reads an operand as a path, not as a revision, although there is no `--` before it."""
    return text.endswith("/") or _FILE.fullmatch(text) is not None


def _is_file(word: Word) -> bool:
    return _FILE.fullmatch(word.text) is not None or word.text.rpartition("/")[2].lower() in _PLAIN_FILES


def _prints(dump: Dump, verb: str, options: Sequence[str], revisions: Sequence[Word]) -> bool:
    if verb == "stash" and not any(word.text in _STASHES for word in revisions[:1]):
        return False
    if dump.if_verbose:
        return any(map(_VERBOSE.fullmatch, options))
    is_asked = any(map(_ASKS.fullmatch, options))
    if dump.if_asked or (dump.unless_asked and any(map(_NAMES_ONLY.fullmatch, options))):
        return is_asked
    # `REVISION:PATH` is one file of a commit; the rules for paths check it
    return not (verb == "show" and revisions and all(":" in word.text for word in revisions))


def _archived(args: Sequence[Word]) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """Return the revision and the paths in the arguments of `git archive`."""
    values = {n + 1 for n, word in enumerate(args) if word.text in _ARCHIVE_VALUES}
    operands = parse_args([word for n, word in enumerate(args) if n not in values]).operands
    return operands[:1], operands[1:]


def _path(word: Word, scene: CommandScene) -> Certainty:
    """Return whether a git pathspec may include a blocked file.

    In a pathspec `*` matches any text, and a leading `:` begins special syntax, which is not analysed.
    """
    if word.text.startswith(":"):
        return MAYBE
    aimed = scene.aim(word)
    if any(_meets_blocked(path, scene) for path in aimed.paths):
        return MAYBE
    return NO if all(path.is_under(scene.working) for path in aimed.paths) else MAYBE


def _meets_blocked(path: ResolvedPath, scene: CommandScene) -> bool:
    last = "".join(path.folded[-1:])
    return not set(last).isdisjoint("*?[") and any(meets(last, name, hidden=True) for name in scene.blocked.lasts)
