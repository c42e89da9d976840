"""The files of a folder that run if a setting is allowed: which ones they are, and digests of what is in them.

A file of Python that this process runs is read once: the bytes that are digested are the bytes that are compiled.
Files that a program runs are digested where they are, and looked at again right before each start.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from agentrail.cli.bad_input import BadInputError
from agentrail.cli.folder_files import FolderFiles
from agentrail.cli.surface import CodeFile
from agentrail.plugins.shell.rules import RUN_BY_OTHERS

MAX_SOURCES: Final = 500
"""The most files that one of Python may import from beside it, the ones that these import included."""

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


def sources_of(path: Path, root: Path, files: FolderFiles) -> Sources:
    """Return the bytes of the Python file at *path*, and of those below *root* that it imports, as *files* reads them.

    Nothing is run to find them, so a module whose name is computed is not found. Raise `BadInputError` if one of the
    files cannot be read, if there are more than `MAX_SOURCES`, or if it is too much for *files*.
    """
    sources = {path: files.source(path)}
    waiting = [path]
    while waiting:
        for imported in _imports(waiting.pop(), root, files):
            if imported not in sources:
                if len(sources) > MAX_SOURCES:
                    raise BadInputError(f"{path} imports more than {MAX_SOURCES} files of its folder")
                sources[imported] = files.source(imported)
                waiting.append(imported)
    files.count(len(sources))
    return sources


def code_of_sources(sources: Sources, folder: Path, files: FolderFiles) -> tuple[CodeFile, ...]:
    """Return the files *sources* with their digests, in order of their paths."""
    return _in_order(_digests(sources, files), folder.resolve(), files)


def code_of_program(
    folder: Path, base: Path, command: Sequence[str], env: Mapping[str, str], files: FolderFiles
) -> tuple[CodeFile, ...]:
    """Return the files that the words of *command*, and variables of *env* in `LOADERS`, name; it is run in *base*.

    A word may name several, as a script for `sh -c` does. Those count that are named relative to *base*, or to a folder
    that is named too, and those in *folder*. With a Python file come those that it imports. What a program finds by
    itself, such as `package.json`, is not known here. Raise `BadInputError` if it is too much for *files*.
    """
    folder = folder.resolve()
    digests: dict[Path, str] = {}
    for path, root in _files(folder, base, command, env, files):
        if path in digests:
            continue
        if path.suffix == ".py":
            digests |= _digests(sources_of(path, root, files), files)
        elif (digest := files.digest(path)) is not None:
            digests[path] = digest
    return _in_order(digests, folder, files)


def _digests(sources: Sources, files: FolderFiles) -> dict[Path, str]:
    return {path: files.digest_of(path, content) for path, content in sources.items()}


def _in_order(digests: Mapping[Path, str], folder: Path, files: FolderFiles) -> tuple[CodeFile, ...]:
    files.count(len(digests))
    by_path = {_shown_path(path.resolve(), folder): digest for path, digest in digests.items()}
    return tuple([CodeFile(path, by_path[path]) for path in sorted(by_path)])


def _shown_path(place: Path, folder: Path) -> str:
    return str(place.relative_to(folder) if place.is_relative_to(folder) else place)


# The files of a command line


def _files(
    folder: Path, base: Path, command: Sequence[str], env: Mapping[str, str], files: FolderFiles
) -> Iterator[tuple[Path, Path]]:
    """Yield the regular files that a command line names, each with the folder from which it would import others."""
    texts = dict.fromkeys(_texts(command, env))
    named = [base / text for text in texts]
    places = [base, *(place for place in named if files.is_in(place, folder) and files.is_folder(place))]
    modules = [text for text in texts if _MODULE.fullmatch(text)]
    for place in places:
        for text in (*texts, MAIN):
            path = place / text
            if (not Path(text).is_absolute() or files.is_in(path, folder)) and files.is_file(path):
                yield path, path.parent
        for name in modules:
            paths: dict[Path, None] = {}
            _walk(place, [*name.split("."), "__main__"], files, paths)
            yield from ((path, place) for path in paths)


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


# What a file of Python imports


def _imports(importer: Path, root: Path, files: FolderFiles) -> tuple[Path, ...]:
    """Return the files below *root* that a Python file imports."""
    key = (importer, root)
    if key not in files.imports:
        paths: dict[Path, None] = {}
        for start, module, names in _imported(files.to_parse(importer), importer, root):
            package = _walk(start, module.split(".") if module else (), files, paths)
            if package is not None:
                for name in names:
                    _walk(package, (name,), files, paths)
        files.imports[key] = tuple(paths)
    return files.imports[key]


def _imported(content: bytes, importer: Path, root: Path) -> Iterator[tuple[Path, str, Sequence[str]]]:
    """Yield modules that a Python file imports: from which folder, the name, and what may be a module of it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as one about an escape sequence: whoever runs the file is told
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # it cannot be run either
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((root, alias.name, ()) for alias in node.names if _is_near(alias.name))
        elif isinstance(node, ast.ImportFrom) and (node.level or _is_near(node.module or "")):
            start = importer.parents[node.level - 1] if 0 < node.level <= len(importer.parents) else root
            yield start, node.module or "", [alias.name for alias in node.names]


def _is_near(name: str) -> bool:
    return name.partition(".")[0] not in _NOT_NEAR


def _walk(start: Path, parts: Sequence[str], files: FolderFiles, paths: dict[Path, None]) -> Path | None:
    """Add the files of the module *parts* below the folder *start*, and of the packages around it, to *paths*.

    Return its folder; `None` if there is none.
    """
    place = start
    for part in parts:
        if files.is_file(file := place / f"{part}.py"):
            paths[file] = None
        place = place / part
        if not files.is_folder(place):
            return None
        if files.is_file(file := place / "__init__.py"):
            paths[file] = None
    return place
