"""What a file of JavaScript imports from beside it, and which folders `node_modules` it needs. Nothing is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from agentrail.cli.folder.folder_files import FolderFiles

SUFFIXES: Final = (".js", ".mjs", ".cjs", ".json", ".node", ".ts", ".mts", ".cts")
"""The endings with which a module is looked for whose name has none, in order."""

SCRIPTS: Final = frozenset(SUFFIXES) - {".json", ".node"}

PACKAGE: Final = "package.json"
MODULES: Final = "node_modules"

_NAMED: Final = re.compile(
    rb"""(?:\b(?:require(?:\.resolve)?|import)\s*\(\s*|\b(?:from|import)\s*)(['"])([^'"\n]+)\1"""
)
"""Matches the name of a module in a call of `require` or `import`, and in a statement."""

_BESIDE: Final = re.compile(
    rb"""\b(?:require|import)\s*\(\s*(?:path\s*\.\s*)?(?:join|resolve)\s*\(\s*(?:__dirname|import\.meta\.dirname)\s*,"""
    rb"""\s*(['"])([^'"\n]+)\1\s*\)"""
)
"""Matches the path of a module that is given from the folder of the file."""

_MAIN: Final = re.compile(rb'"main"\s*:\s*"([^"\n]+)"')


class Imports(NamedTuple):
    """What a script and its imports need."""

    files: tuple[Path, ...]
    """The script itself and the files that it imports, with each `package.json` around them."""
    trees: tuple[Path, ...]
    """The folders `node_modules` in which packages are that they import."""


def imports_of(script: Path, folder: Path, files: FolderFiles) -> Imports:
    """Return what *script*, which lies in *folder*, imports of that folder."""
    paths: dict[Path, None] = {script: None}
    trees: dict[Path, None] = {}
    waiting = [script]
    while waiting:
        importer = waiting.pop()
        parents = [parent for parent in importer.parents if parent.is_relative_to(folder)]
        paths |= dict.fromkeys(path for parent in parents if files.is_file(path := parent / PACKAGE))
        for name in _names(importer, files):
            if name.startswith("."):
                module = module_at(importer.parent / name, files)
                if module is not None and module not in paths:
                    paths[module] = None
                    waiting.append(module)
            else:
                first = name.split("/")[0]
                trees |= dict.fromkeys(
                    parent / MODULES for parent in parents if files.is_folder(parent / MODULES / first)
                )
    return Imports(tuple(paths), tuple(trees))


def module_at(path: Path, files: FolderFiles) -> Path | None:
    """Return the file of the module at *path*, as Node looks for it; `None` if there is none."""
    if files.is_file(path):
        return path
    for suffix in SUFFIXES:
        if files.is_file(candidate := path.with_name(path.name + suffix)):
            return candidate
    if not files.is_folder(path):
        return None
    main = _MAIN.search(files.to_parse(path / PACKAGE)) if files.is_file(path / PACKAGE) else None
    inside = (main[1].decode(errors="replace"), "index") if main else ("index",)
    modules = (module_at(path / name, files) for name in inside)
    return next((module for module in modules if module is not None), None)


def _names(path: Path, files: FolderFiles) -> Iterator[str]:
    if path.suffix in SCRIPTS:
        for match in _NAMED.finditer(files.to_parse(path)):
            yield match[2].decode(errors="replace")
        for match in _BESIDE.finditer(files.to_parse(path)):
            yield "./" + match[2].decode(errors="replace").lstrip("/")
