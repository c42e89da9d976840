"""The files of a folder that run if a setting is allowed: which ones they are, and digests of what is in them.

A file of Python that this process runs is read once: the bytes that are digested are the bytes that are compiled.
Files that a program runs are digested where they are, and looked at again right before each start.
"""

from __future__ import annotations

import ast
import errno
import hashlib
import os
import re
import stat
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from agentrail.cli.bad_input import BadInputError
from agentrail.cli.settings_file import content_of
from agentrail.cli.surface import CodeFile
from agentrail.plugins.shell.rules import RUN_BY_OTHERS

MAX_SOURCES: Final = 500
"""The most files that one of Python may import from beside it, the ones that these import included."""

MAX_PROGRAM: Final = 256 * 1024 * 1024
"""The most bytes of a file that a program of a setting runs: they are digested at each start."""

MAX_NAMED: Final = 10_000
"""The most paths that the words of one command line may name."""

_LONGEST: Final = 4095
"""The most bytes of a text that may be a path: systems take no longer one."""
_APART: Final = re.compile(r"""[\s=:;,&|()<>"'`]+""")
"""Matches what separates paths within a word, such as a script for `sh -c`."""

MAIN: Final = "__main__.py"
"""What Python runs of a folder that is named."""

_MODULE: Final = re.compile(r"\w+(?:\.\w+)*")
"""Matches what may be the name of a module: a program can take it in many ways, as `-m`, `-um`, `-c` or `app:run`."""

LOADERS: Final = RUN_BY_OTHERS | {"PYTHONPATH"}
"""Environment variables whose values name code; what others name, such as a database, may change."""

_NOT_NEAR: Final = sys.stdlib_module_names | {"agentrail"}
"""Modules that a file of a folder cannot stand in for."""


Sources: TypeAlias = Mapping[Path, bytes]
"""The bytes of Python files, by path."""


def sources_of(path: Path, root: Path) -> Sources:
    """Return the bytes of the Python file at *path*, and of those below *root* that it imports, each read once.

    Nothing is run to find them, so a module whose name is computed is not found. Raise `BadInputError` if one of the
    files cannot be read, or if there are more than `MAX_SOURCES`.
    """
    sources = {path: content_of(path)}
    waiting = [path]
    while waiting:
        importer = waiting.pop()
        for imported in _imported(sources[importer], importer, root):
            if imported not in sources:
                if len(sources) > MAX_SOURCES:
                    raise BadInputError(f"{path} imports more than {MAX_SOURCES} files of its folder")
                sources[imported] = content_of(imported)
                waiting.append(imported)
    return sources


def code_of_sources(sources: Sources, folder: Path) -> tuple[CodeFile, ...]:
    """Return the files *sources* with their digests, in order of their paths."""
    return _in_order({path: hashlib.sha256(content).hexdigest() for path, content in sources.items()}, folder)


def code_of_program(folder: Path, base: Path, command: Sequence[str], env: Mapping[str, str]) -> tuple[CodeFile, ...]:
    """Return the files that the words of *command*, and variables of *env* in `LOADERS`, name; it is run in *base*.

    A word may name several, as a script for `sh -c` does. Those count that are named relative to *base*, or to a folder
    that is named too, and those in *folder*. With a Python file come those that it imports. What a program finds by
    itself, such as `package.json`, is not known here. Raise `BadInputError` if a file is too large to be digested.
    """
    digests: dict[Path, str] = {}
    for path, root in _files(folder, base, command, env):
        if path in digests:
            continue
        if path.suffix == ".py":
            sources = sources_of(path, root)
            digests |= {near: hashlib.sha256(content).hexdigest() for near, content in sources.items()}
        elif (digest := _digest(path)) is not None:
            digests[path] = digest
    return _in_order(digests, folder)


def _in_order(digests: Mapping[Path, str], folder: Path) -> tuple[CodeFile, ...]:
    by_path = {_shown_path(path, folder): digest for path, digest in digests.items()}
    return tuple([CodeFile(path, by_path[path]) for path in sorted(by_path)])


def _shown_path(path: Path, folder: Path) -> str:
    place, folder = path.resolve(), folder.resolve()
    return str(place.relative_to(folder) if place.is_relative_to(folder) else place)


def _digest(path: Path) -> str | None:
    """Return the digest of the file at *path*, `None` unless it is a regular one."""
    try:
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would be waited for
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}") from None
    with os.fdopen(number, "rb") as file:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > MAX_PROGRAM:
            most = f"has more than {MAX_PROGRAM // 1024 // 1024} MiB"
            raise BadInputError(f"{path} is named by a program's command line and {most}; put it outside of the folder")
        return hashlib.file_digest(file, "sha256").hexdigest()


# The files of a command line


def _files(folder: Path, base: Path, command: Sequence[str], env: Mapping[str, str]) -> Iterator[tuple[Path, Path]]:
    """Yield the regular files that a command line names, each with the folder from which it would import others."""
    texts = dict.fromkeys(_texts(command, env))
    places = [base, *(base / text for text in texts if _is_in(base / text, folder) and _is_there((base / text).is_dir))]
    if len(texts) * len(places) > MAX_NAMED:
        raise BadInputError(f"the command line of a program names more than {MAX_NAMED} paths")
    modules = [text for text in texts if _MODULE.fullmatch(text)]
    for place in places:
        for text in (*texts, MAIN):
            path = place / text
            if (not Path(text).is_absolute() or _is_in(path, folder)) and _is_there(path.is_file):
                yield path, path.parent
        for name in modules:
            for path in (*_modules(place, name), *_modules(place, f"{name}.__main__")):
                yield path, place


def _texts(command: Sequence[str], env: Mapping[str, str]) -> Iterator[str]:
    """Yield all texts in a command line that may be paths."""
    program = command[:1]
    if program and "/" not in program[0]:  # it is looked for in the folders of `PATH`, not in the one where it runs
        program = [str(Path(entry) / program[0]) for entry in env.get("PATH", "/").split(os.pathsep)]
    for word in (*program, *command[1:], *(text for name, text in env.items() if name in LOADERS)):
        for text in (word, *_APART.split(word)):
            for part in (text, text[2:] if text.startswith("-") else ""):
                if part and "\0" not in part and len(os.fsencode(part)) <= _LONGEST:
                    yield part


def _is_there(look: Callable[[], bool]) -> bool:
    """Return what *look* returns about a path; nothing has a name that is too long: a word may be a token, or code."""
    try:
        return look()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise


def _is_in(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


# What a file of Python imports


def _imported(content: bytes, importer: Path, root: Path) -> Iterator[Path]:
    """Yield the files below *root* that a Python file imports."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as one about an escape sequence: whoever runs the file is told
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # it cannot be run either
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _near(root, alias.name)
        elif isinstance(node, ast.ImportFrom):
            start = importer.parents[node.level - 1] if 0 < node.level <= len(importer.parents) else root
            for name in [node.module or "", *(f"{node.module or ''}.{alias.name}" for alias in node.names)]:
                yield from _modules(start, name.strip(".")) if node.level else _near(root, name)


def _near(root: Path, name: str) -> Iterator[Path]:
    return iter(()) if name.partition(".")[0] in _NOT_NEAR else _modules(root, name)


def _modules(start: Path, name: str) -> Iterator[Path]:
    """Yield the files of the module *name* below the folder *start*, with those of the packages around it."""
    place = start
    for part in ("", *name.split(".")):
        if "/" in part or "\0" in part:
            return
        place = place / part
        candidates = (place / "__init__.py", *([place.with_name(f"{part}.py")] if part else ()))
        yield from (path for path in candidates if path != start / "__init__.py" and _is_there(path.is_file))
