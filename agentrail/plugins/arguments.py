"""Finds the paths and the commands among the arguments of a call, by the arguments' names, at any depth."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from agentrail.plugins.options import plain_argument
from agentrail.plugins.shell.command_line import Commands, lex_argv, parse_commands
from agentrail.plugins.shell.lexer_words import Unlexable, names
from agentrail.values.json import Json, JsonObject

PATH_ARGS: Final = names(
    "cwd dest destination dir directory dst file filename filepath files folder inputpath newpath"
    " oldpath outputpath path paths root source src target targetpath workdir workingdir workingdirectory"
)
"""Names of arguments that are paths, in lower case, without `_` and `-`."""

COMMAND_ARGS: Final = names("bash cmd command commandline commands script shellcommand")
"""Names of arguments that are commands, in lower case, without `_` and `-`."""

DIRECTORY_ARGS: Final = names("cwd folder workdir workingdir workingdirectory")
"""Names of arguments that say where a command runs."""

INERT_ARGS: Final = names("background description maxoutput reason timeout timeoutms timeouts timeoutseconds")
"""Names of arguments that do not change what a command does."""

NO_TEXT: Final = Unlexable("a command that is no text", 0)
"""What a command is read as that is no text, nor a list of texts."""

LONGEST: Final = 2_000
"""The most characters of a command or path that a person is shown."""

_MORE_ARGS: Final = names("args arguments argv")
_INVISIBLE: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def named(args: Json, names: frozenset[str]) -> Iterator[tuple[str, Json, JsonObject]]:
    """Yield name, value and enclosing object of each argument, at any depth, whose name in plain form is in *names*."""
    rest: list[Json] = [args]
    while rest:
        value = rest.pop()
        if isinstance(value, Mapping):
            yield from (
                (plain_argument(key), item, value) for key, item in value.items() if plain_argument(key) in names
            )
            rest.extend(value.values())
        elif isinstance(value, Sequence) and not isinstance(value, str):
            rest.extend(value)


def texts(value: Json) -> tuple[str, ...]:
    """Return *value* as a tuple of texts: a text alone, or the texts of a list; empty for anything else."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Sequence):
        return tuple(item for item in value if isinstance(item, str))
    return ()


def command_lines(args: Json, names: frozenset[str]) -> Iterator[tuple[str, Commands | Unlexable]]:
    """Yield each command in *args* as text, and parsed; commands are the arguments whose plain name is in *names*.

    A list is one command with its arguments, or several commands if its name is in the plural. If the same object also
    has a list of arguments, such as `args`, that belongs to the command. Arguments in one text are read as a shell
    would read them behind the command, and as one word. An object in which nothing has such a name is a command that is
    no text.
    """
    for name, value, beside in named(args, names):
        argv = texts(value)
        others = [item for key, item in beside.items() if plain_argument(key) in _MORE_ARGS]
        more = [text for item in others for text in texts(item)]
        if isinstance(value, Mapping):
            if value and not any(named(value, names)):  # otherwise the commands in *value* are found by their own names
                yield json.dumps(value, ensure_ascii=False), NO_TEXT
            continue
        if not isinstance(value, Sequence):
            continue
        if argv and any(isinstance(item, str) for item in others):
            joined = " ".join((*argv, *more))
            yield joined, parse_commands(joined)
        if not argv or len(argv) != (1 if isinstance(value, str) else len(value)):
            yield json.dumps(value, ensure_ascii=False), NO_TEXT
        elif isinstance(value, str) and not more:
            yield value, parse_commands(value)
        elif isinstance(value, str):
            yield " ".join((value, *more)), lex_argv((value, *more))
        elif name.endswith("s"):
            yield from ((text, parse_commands(text)) for text in argv)
        else:
            yield " ".join((*argv, *more)), lex_argv((*argv, *more))


def visible(text: str) -> str:
    """Return *text* with invisible characters escaped, cut to `LONGEST` characters with a note."""
    cut = "".join(char if char.isprintable() else _INVISIBLE.get(char) or _escaped(char) for char in text[:LONGEST])
    return cut if len(text) <= LONGEST else f"{cut}… ({len(text) - LONGEST} more characters)"


def shown_as_json(value: Json) -> str:
    """Return *value* as JSON text for a person, escaped and cut as `visible` does it."""
    return visible(json.dumps(value, ensure_ascii=False))


def _escaped(char: str) -> str:
    return f"\\u{{{ord(char):04x}}}"
