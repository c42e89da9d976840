"""Recognises `find` commands that cannot find a blocked file, because they search for other names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from agentrail.plugins.shell.lexer_words import SimpleCommand, Word, names
from agentrail.plugins.shell.rule_context import CommandScene
from agentrail.plugins.shell.searches import fits

_NAMES: Final = names("-iname -name")
_NARROWS: Final = names("-depth -empty -exec -iname -maxdepth -mindepth -mtime -name -newer -print -print0 -size -type")
"""Options of `find` that cannot make it find more files: each leaves files out, or says what is done with each."""
_PLACED: Final = "{}"
_QUIET_XARGS: Final = re.compile(r"-[0rt]*(?:[nP][0-9]*)?|[0-9]+|--(?:null|no-run-if-empty)")


def finds_others(command: SimpleCommand, scene: CommandScene) -> bool:
    """Whether *command* is a `find` in the session's folder by names none of which is part of a blocked path.

    Commands in `-exec` must take each file as a separate word, `{}`.
    """
    if command.program != "find" or any(word.expands for word in command.args):
        return False
    found = [word.text for before, word in pairwise(command.argv) if before.text in _NAMES]
    if not found or any(fits(name, scene.blocked.names) for name in found):
        return False
    told = tuple(_without_commands(command.args))
    starts = tuple(_starts(told))
    if any(word.text[:1] in {"-", "!", "(", ",", ")"} and word.text not in _NARROWS for word in told[len(starts) :]):
        return False
    if any(_PLACED in word.text and word.text != _PLACED for word in command.args):
        return False
    return all(place.is_under(scene.working) for word in starts or (Word("."),) for place in scene.aim(word).places)


def fed_by_find(command: SimpleCommand, scene: CommandScene) -> bool:
    """Whether the line begins with a `find` that passes `finds_others`, and `xargs` gives *command* its output only."""
    match tuple(scene.commands):
        case (first, second, *_) if second is command and len(command.via) == 1:
            quiet = all(_QUIET_XARGS.fullmatch(word.text) for word in command.around)
            redirected = any(not found.writes for found in command.redirections) or first.redirections
            return quiet and not redirected and finds_others(first, scene)
        case _:
            return False


def _starts(told: tuple[Word, ...]) -> Iterator[Word]:
    for word in told:
        if word.text[:1] in {"-", "!", "("}:
            return
        yield word


def _without_commands(args: tuple[Word, ...]) -> Iterator[Word]:
    """Yield the arguments of `find` without the commands that it runs, whose words are read as commands."""
    inner = False
    for before, word in pairwise((Word(""), *args)):
        inner = (inner and before.text not in {";", "+"}) or before.text == "-exec"
        if not inner:
            yield word
