"""The modules of the package, for tests that look at their text: a process reads and parses each file once."""

from __future__ import annotations

import ast
import gc
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import agentrail

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = Path(agentrail.__file__).parent


def module_of(path: Path) -> str:
    """Return the dotted name of the module at *path*, `agentrail` included."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def texts_below(folder: str) -> Mapping[Path, str]:
    """Return the texts of the modules in a *folder* of the repository, by their paths in it."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT): path.read_text("utf-8") for path in paths}


@contextmanager
def uncollected() -> Generator[None]:
    """Keep the collector away from what is made meanwhile, also later.

    Trees are a million objects without a cycle: to look at them again and again takes longer than to make them.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@cache
def package_trees() -> Mapping[str, ast.Module]:
    """Return the trees by the names of their modules; a process that only collects the tests parses nothing."""
    with uncollected():
        return {module_of(ROOT / path): ast.parse(text) for path, text in texts_below("agentrail").items()}


@cache
def package_nodes() -> Mapping[str, Sequence[ast.AST]]:
    """Return all nodes of each tree: to walk through the trees takes nearly as long as to parse them."""
    with uncollected():
        return {module: tuple(ast.walk(tree)) for module, tree in package_trees().items()}


def functions_in(nodes: Iterable[ast.AST]) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions among *nodes*."""
    return [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Return the names of the functions of a file of tests, without importing it; none if there is no such file."""
    text = path.read_text("utf-8") if path.exists() else ""
    return frozenset(function.name for function in functions_in(ast.parse(text).body))
