"""Examines `git grep`, for the files that it reads, and `find`, for whether it can find a blocked file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from agentrail.plugins.shell.lexer_words import SimpleCommand, Word, names
from agentrail.plugins.shell.paths import meets
from agentrail.plugins.shell.rule_context import CommandScene, parse_args

_GIVES_PATTERN: Final = re.compile(r"-[A-Za-z0-9]*[ef].*|--(?:regexp|file)(?:=.*)?")
_TAKES_VALUE: Final = re.compile(
    r"-[A-Za-z0-9]*[efABCmdDgtT]|--(?:regexp|file|i?glob|include|exclude|exclude-dir|max-count|type)"
)


def searched(args: Sequence[Word]) -> tuple[Word, ...]:
    """Return the operands of a search except its pattern: the files and folders that it reads."""
    operands = _operands(args)
    return operands if any(_GIVES_PATTERN.fullmatch(word.text) for word in args) else operands[1:]


def fits(glob: str, lasts: frozenset[str]) -> bool:
    """Whether there may be a name that matches both *glob* and one of the patterns *lasts*."""
    name_glob = glob.rpartition("/")[2].casefold()
    return any(meets(name_glob, last, hidden=True) or meets(last, name_glob, hidden=True) for last in lasts)


def _operands(args: Sequence[Word]) -> tuple[Word, ...]:
    values = {n + 1 for n, word in enumerate(args) if _TAKES_VALUE.fullmatch(word.text)}
    return parse_args([word for n, word in enumerate(args) if n not in values]).operands


_NAMES: Final = names("-iname -name")
_NARROWS: Final = names("-depth -empty -exec -iname -maxdepth -mindepth -mtime -name -newer -print -print0 -size -type")
"""Options of `find` that cannot make it find more files: each leaves files out, or says what is done with each."""
_PLACED: Final = "{}"
_QUIET_XARGS: Final = re.compile(r"-[0rt]*(?:[nP][0-9]*)?|[0-9]+|--(?:null|no-run-if-empty)")


def finds_others(command: SimpleCommand, scene: CommandScene) -> bool:
    """Whether *command* is a `find` in the session's folder whose name patterns match no part of a blocked path.

    Commands in `-exec` must take each file as a separate word, `{}`.
    """
    if command.program != "find" or any(word.expands for word in command.args):
        return False
    patterns = [word.text for previous, word in pairwise(command.argv) if previous.text in _NAMES]
    if not patterns or any(fits(name, scene.blocked.names) for name in patterns):
        return False
    args = tuple(_without_commands(command.args))
    starts = tuple(_starts(args))
    if any(word.text[:1] in {"-", "!", "(", ",", ")"} and word.text not in _NARROWS for word in args[len(starts) :]):
        return False
    if any(_PLACED in word.text and word.text != _PLACED for word in command.args):
        return False
    return all(path.is_under(scene.working) for word in starts or (Word("."),) for path in scene.aim(word).paths)


def fed_by_find(command: SimpleCommand, scene: CommandScene) -> bool:
    """Whether *command* gets its files by `xargs` only, from a `find` at the beginning that passes `finds_others`."""
    match tuple(scene.commands):
        case (first, second, *_) if second is command and len(command.via) == 1:
            quiet = all(_QUIET_XARGS.fullmatch(word.text) for word in command.around)
            redirected = any(not redirection.writes for redirection in command.redirections) or first.redirections
            return quiet and not redirected and finds_others(first, scene)
        case _:
            return False


def _starts(args: tuple[Word, ...]) -> Iterator[Word]:
    for word in args:
        if word.text[:1] in {"-", "!", "("}:
            return
        yield word


def _without_commands(args: tuple[Word, ...]) -> Iterator[Word]:
    """Yield the arguments of `find` without the words of the commands that it runs, which are checked separately."""
    inner = False
    for previous, word in pairwise((Word(""), *args)):
        inner = (inner and previous.text not in {";", "+"}) or previous.text == "-exec"
        if not inner:
            yield word
