"""Reads from a call what rules may know of it: its commands, what those may run, and its paths."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from agentrail.plugins.arguments import DIRECTORY_ARGS, INERT_ARGS, PATH_ARGS, command_lines, named, texts
from agentrail.plugins.guards.launchers import may_run
from agentrail.plugins.guards.runners import within
from agentrail.plugins.options import plain
from agentrail.plugins.shell.command_line import Commands
from agentrail.plugins.shell.lexer_words import Unlexable
from agentrail.plugins.shell.paths import PathPlace, directory, resolve
from agentrail.values.json import Json, JsonObject
from agentrail.values.value import Value

MOST_PATHS: Final = 32
"""The most paths, and the most command lines, of a call that rules are compared with; no rule allows more."""
LONGEST_PATH: Final = 4_096
"""The most characters of a path that a rule is compared with; no rule allows a longer one."""


class CallFacts(Value, gc=True):
    """What rules may know of a call: its commands and paths."""

    tool: str
    """Name of the tool."""
    lines: tuple[Commands | Unlexable, ...]
    """The command lines, parsed."""
    within: tuple[Commands | Unlexable, ...]
    """What programs such as `docker exec` run in those lines."""
    possible: tuple[Commands | Unlexable, ...]
    """What programs such as `npx` and `valgrind` may run in those lines."""
    paths: tuple[str, ...]
    """The paths, as text."""
    working: PathPlace
    """The session's folder."""
    bases: tuple[PathPlace, ...]
    """The folders at which relative paths may begin: the session's, and those that the call names."""
    is_whole: bool
    """Whether `lines` and `paths` are all that the arguments have; if not, some are too many, too long or no text."""
    is_plain: bool
    """Whether nothing in the arguments makes the commands or paths mean something else."""


def facts_of(
    tool: str, args: JsonObject, working_dir: str, path_args: frozenset[str], command_args: frozenset[str]
) -> CallFacts:
    """Return the commands and the paths among *args*; the names in *path_args* and *command_args* are plain."""
    working = directory(working_dir)
    lines = tuple(line for _, line in islice(command_lines(args, command_args), MOST_PATHS + 1))
    found = [item for _, item, _ in named(args, PATH_ARGS | path_args)]
    said = tuple(text for item in found for text in texts(item))
    paths = tuple(text for text in said[:MOST_PATHS] if len(text) <= LONGEST_PATH)
    folders = [text for _, item, _ in named(args, DIRECTORY_ARGS) for text in texts(item) if text in paths]
    places = [place for text in folders for place in resolve(text, (working,))]
    bases = tuple(dict.fromkeys((working, *places)))
    is_whole = all(map(_is_text, found)) and paths == said and len(lines) <= MOST_PATHS
    is_plain = is_whole and (not lines or all(plain(key) in command_args | INERT_ARGS for key in args))
    lines = lines[:MOST_PATHS]
    inner = tuple(within(lines))
    possible = tuple(may_run((*lines, *inner)))
    return CallFacts(tool, lines, inner, possible, paths, working, bases, is_whole, is_plain)


def _is_text(found: Json) -> bool:
    """Whether *found*, an argument that is a path, is a text or a list of texts."""
    return isinstance(found, str) or (isinstance(found, Sequence) and len(texts(found)) == len(found))
