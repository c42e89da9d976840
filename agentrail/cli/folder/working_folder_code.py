"""Code that a program would load from the folder where it runs: found in its words and sources, and refused.

A program is started from a copy of its files, and works in the folder. There an agent writes: a path that is relative
to it leads past the copy. Only usual ways to write that are known; who wrote the program was trusted when it was
allowed, so nothing is looked for that somebody would hide.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from agentrail.cli.output.bad_input import BadInputError

CACHE_OPTION: Final = "pycache_prefix"
"""Option of Python (`-X`) with a folder of compiled modules, which it does not compare with their sources."""

_QUOTED: Final = r"""("[^"]*"|'[^']*'|[^\s;&|]*)"""
_HERE: Final = re.compile(r"\$(?:\{?PWD\}?|\(\s*pwd\s*\))|`pwd`")

_RUN: Final = re.compile(
    r"(?:^|[;&|({]|\b(?:then|do|else|exec|command|env)\b)[ \t]*"
    r"""(?:(?:\.|source|sh|bash|dash|zsh|ksh|node|ruby|perl|php|python[\d.]*)[ \t]+(?:-(?![mce])\w+[ \t]+)*["']?"""
    r"""([\w.][\w./-]*)|["']?(\.{1,2}/[\w./-]+))""",
    re.MULTILINE,
)
"""Matches a file that a script of a shell runs by a path from where it works."""

_OF_FOLDER: Final = {
    ".pl": re.compile(
        rb"""\b(?:require|do)\s*\(?\s*['"]\.{1,2}/|\buse\s+lib\s+(?:qw\s*\W\s*|\(?\s*['"])(?![/$])|@INC\s*,\s*['"](?![/$])"""
    ),
    ".rb": re.compile(
        rb"""\b(?:require|load)\s*\(?\s*['"]\.{1,2}/|(?:\$:|\$LOAD_PATH)\s*(?:<<|\.unshift\(?)\s*['"](?![/#])"""
    ),
    ".php": re.compile(rb"""\b(?:require|include)(?:_once)?\s*\(?\s*['"](?!/)"""),
    ".js": re.compile(
        rb"""\b(?:require|import)\s*\((?![^\n;]*(?:__dirname|__filename|import\.meta))"""
        rb"""[^\n;]*(?:process\s*\.\s*cwd\s*\(|\bresolve\s*\()"""
    ),
}
"""By ending: what matches code that is loaded by a path from where the program works."""

SAME: Final = {".pm": ".pl", ".mjs": ".js", ".cjs": ".js", ".ts": ".js", ".mts": ".js", ".cts": ".js"}
"""Endings of files of the same language."""

ADDING: Final = frozenset({"append", "extend", "insert"})
OF_MACHINE: Final = frozenset({"os", "pathlib", "Path", "PurePath", "str", "sys"})
"""Names in an expression that alone do not say in which folder a path is."""


def check_assignments(where: str, text: str, names: Iterable[str], folder: Path) -> None:
    """Raise `BadInputError` if *text*, of a command line or a script, gives a variable of *names* a path from there."""
    assigned = re.compile(rf"(?<![\w$])({'|'.join(sorted(names))})={_QUOTED}")
    for match in assigned.finditer(text):
        value = match[2].strip("\"'")
        if any(_leads_there(entry, folder) for entry in value.split(os.pathsep)) and value:
            problem = f"`{match[0]}` has it load code from the folder where it runs"
            raise BadInputError(f"{where}: {problem}; set the variable in the server's `env` instead")


def _leads_there(entry: str, folder: Path) -> bool:
    if entry.startswith("/"):
        return Path(os.path.realpath(entry)).is_relative_to(folder)
    if entry.startswith("-"):  # an option, such as one of NODE_OPTIONS
        return any(part.startswith(".") for part in re.split(r"[\s=]", entry))
    return _HERE.match(entry) is not None or not entry.startswith(("$", "`", "~"))


def check_script(path: Path, text: str) -> None:
    """Raise `BadInputError` if the script of a shell at *path* runs a file by a path from where it works."""
    for match in _RUN.finditer(text):
        name = match[1] or match[2]
        if not name.startswith("/"):
            problem = f"{path} runs {name} where it is, so that it can change after it was allowed"
            raise BadInputError(f'{problem}; name it by "$(dirname "$0")/{Path(name).name}"')


def check_shebang(path: Path, words: Iterable[str]) -> None:
    """Raise `BadInputError` if the *words* of the first line of the file *path* name a file from where it works."""
    for number, word in enumerate(words):
        if (number == 0 and not word.startswith("/")) or ("/" in word and not word.startswith(("/", "-"))):
            problem = f"the first line of {path} runs `{word}` of the folder where it is"
            raise BadInputError(f"{problem}; start the file by its interpreter, in `command`")


def check_source(path: Path, content: bytes) -> None:
    """Raise `BadInputError` if the file at *path*, of Perl, Ruby, PHP or JavaScript, loads code from where it works."""
    pattern = _OF_FOLDER.get(SAME.get(path.suffix, path.suffix))
    match = None if pattern is None else pattern.search(content)
    if match is not None:
        line = content.count(b"\n", 0, match.start()) + 1
        problem = f"{path} loads code from the folder where it runs (line {line}), past the copy of what was allowed"
        raise BadInputError(f"{problem}; have it name the file from the folder in which it lies itself")


def check_python(where: str, source: bytes, folder: Path) -> None:
    """Raise `BadInputError` if *source*, Python of *where*, imports from where it works, or from a path in *folder*."""
    if b"path" not in source and b"addsitedir" not in source:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as one about an escape sequence: whoever runs the file is told
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # it cannot be run either
        return
    for added in _added_to_path(tree):
        if _is_there(added, folder):
            problem = f"{where} imports from the folder where it runs (line {added.lineno}, `sys.path`)"
            raise BadInputError(f"{problem}; use the folder of `__file__`, as in `os.path.dirname(__file__)`")


def _added_to_path(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that are added to `sys.path`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            is_path = isinstance(node.func.value, ast.Attribute) and node.func.value.attr == "path"
            if (is_path and node.func.attr in ADDING) or node.func.attr == "addsitedir":
                yield node.args[-1]


def _is_there(added: ast.expr, folder: Path) -> bool:
    nodes = list(ast.walk(added))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    if any(isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "prefix"} for node in nodes):
        return False
    if {node.id for node in nodes if isinstance(node, ast.Name)} - OF_MACHINE:
        return False
    return not any(text.startswith("/") and not Path(text).is_relative_to(folder) for text in texts)
