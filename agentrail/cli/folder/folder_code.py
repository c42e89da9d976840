"""The Python files of a folder that run if a setting is allowed: which ones they are, and digests of what is in them.

Each is read once: the bytes that are digested are those that this process compiles, or those that a program is started
from (`cli.folder.folder_program`).
"""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeAlias

from agentrail.adapters.python_file import NEVER_NEAR
from agentrail.cli.folder.folder_files import FolderFiles
from agentrail.cli.folder.surface import CodeFile
from agentrail.cli.output.bad_input import BadInputError

MAX_SOURCES: Final = 500
"""The most files that one of Python may import from beside it, the ones that these import included."""

MAX_LINKS: Final = 40
"""The most links that are followed on the way to a file, as systems do."""

Sources: TypeAlias = Mapping[Path, bytes]
"""The bytes of Python files, by path."""


def sources_of(path: Path, roots: Sequence[Path], files: FolderFiles, *, is_program: bool = False) -> Sources:
    """Return the bytes of the Python file at *path*, and of those below *roots* that it imports, as *files* reads them.

    Those of a program may stand in for modules of the standard library. Nothing is run to find them, so a module whose
    name is computed is not found. Raise `BadInputError` if one of the files cannot be read, if there are more than
    `MAX_SOURCES`, or if it is too much for *files*.
    """
    sources = {path: files.source(path)}
    waiting = [path]
    while waiting:
        importer = waiting.pop()
        for imported in (path for root in roots for path in _imports(importer, root, files, is_program=is_program)):
            if imported not in sources:
                if len(sources) > MAX_SOURCES:
                    raise BadInputError(f"{path} imports more than {MAX_SOURCES} files of its folder")
                sources[imported] = files.source(imported)
                waiting.append(imported)
    files.count(len(sources))
    return sources


def paths_of_others(sources: Sources, root: Path, files: FolderFiles) -> tuple[Path, ...]:
    """Return the paths below *root* at which a new file or folder would stand in for a module that *sources* import."""
    names: set[str] = set()
    for importer, content in sources.items():
        for start, module, _ in _imported(content, importer, root, is_program=False):
            names |= {module.partition(".")[0]} if start == root else set()
    free = [name for name in sorted(names) if name and not _is_there(root / name, files)]
    return tuple([path for name in free for path in (root / name, root / f"{name}.py")])


def _is_there(module: Path, files: FolderFiles) -> bool:
    return files.is_folder(module) or files.is_file(module.with_name(f"{module.name}.py"))


def code_of_sources(sources: Sources, folder: Path, files: FolderFiles) -> tuple[CodeFile, ...]:
    """Return the files *sources* with their digests, in order of their paths."""
    return in_order(digests_of(sources, files), folder.resolve(), files)


def digests_of(sources: Sources, files: FolderFiles) -> dict[Path, str]:
    """Return the digests of *sources*, by path."""
    return {path: files.digest_of(path, content) for path, content in sources.items()}


def in_order(
    digests: Mapping[Path, str], folder: Path, files: FolderFiles, named: Iterable[Path] = ()
) -> tuple[CodeFile, ...]:
    """Return the files of *digests*, in order of their paths; *folder* has no links.

    *named* are further paths of them, as the settings name them.
    """
    files.count(len(digests))
    by_path = {path.resolve(): digest for path, digest in digests.items()}
    links = {link: target for path in dict.fromkeys([*digests, *named]) for link, target in _links_on(path)}
    code = [
        CodeFile(
            _shown_path(path, folder), digest, tuple([_shown_path(link, folder) for link in _aliases(path, links)])
        )
        for path, digest in by_path.items()
    ]
    return tuple(sorted(code, key=attrgetter("path")))


def _aliases(path: Path, links: Mapping[Path, Path]) -> Iterator[Path]:
    """Yield the other paths of a file that *links* lead to, or to a folder around it."""
    return (link / path.relative_to(target) for link, target in links.items() if path.is_relative_to(target))


def _links_on(path: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the links on the way to the file at *path*, each with what it leads to in the end."""
    for _ in range(MAX_LINKS):
        link = next((part for part in (*reversed(path.parents), path) if part.is_symlink()), None)
        if link is None:
            return
        yield link, link.resolve()
        path = Path(os.path.normpath(link.parent / link.readlink() / path.relative_to(link)))


def _shown_path(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


# What a file of Python imports


def _imports(importer: Path, root: Path, files: FolderFiles, *, is_program: bool) -> tuple[Path, ...]:
    """Return the files below *root* that a Python file imports."""
    key = (importer, root, is_program)
    if key not in files.imports:
        paths: dict[Path, None] = {}
        for start, module, names in _imported(files.to_parse(importer), importer, root, is_program=is_program):
            package = add_module(start, module.split(".") if module else (), files, paths)
            if package is not None:
                for name in names:
                    add_module(package, (name,), files, paths)
        files.imports[key] = tuple(paths)
    return files.imports[key]


def _imported(
    content: bytes, importer: Path, root: Path, *, is_program: bool
) -> Iterator[tuple[Path, str, Sequence[str]]]:
    """Yield modules that a Python file imports: from which folder, the name, and what may be a module of it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as one about an escape sequence: whoever runs the file is told
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # it cannot be run either
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((root, alias.name, ()) for alias in node.names if is_program or _is_near(alias.name))
        elif isinstance(node, ast.ImportFrom) and (node.level or is_program or _is_near(node.module or "")):
            start = importer.parents[node.level - 1] if 0 < node.level <= len(importer.parents) else root
            yield start, node.module or "", [alias.name for alias in node.names]


def _is_near(name: str) -> bool:
    return name.partition(".")[0] not in NEVER_NEAR


def add_module(start: Path, parts: Sequence[str], files: FolderFiles, paths: dict[Path, None]) -> Path | None:
    """Add the files of the module *parts* below the folder *start*, and of the packages around it, to *paths*.

    Return its folder; `None` if there is none.
    """
    path = start
    for part in parts:
        if files.is_file(file := path / f"{part}.py"):
            paths[file] = None
        path = path / part
        if not files.is_folder(path):
            return None
        if files.is_file(file := path / "__init__.py"):
            paths[file] = None
    return path
