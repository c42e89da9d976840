"""The layout of the package: a picture that can be drawn, and names that are used once."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final

import pytest

from tests.parsed import PACKAGE, module_of, package_nodes, package_trees

MOST_ROOMS: Final = 12
MOST_ARROWS: Final = 35
MOST_MODULES_TWICE: Final = 31


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the modules of ours that a module imports, wherever it does so."""
    ours = package_trees()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("agentrail"):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in ours else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in ours)


@cache
def _imports() -> Mapping[str, frozenset[str]]:
    return {name: frozenset(_imported(nodes)) for name, nodes in package_nodes().items()}


def _room(name: str, package: str) -> str | None:
    """Return the file or folder at the first level of *package* that a module is in."""
    return name.removeprefix(f"{package}.").split(".")[0] if name.startswith(f"{package}.") else None


def _arrows(package: str) -> set[tuple[str, str]]:
    pairs = {(_room(name, package), _room(other, package)) for name, others in _imports().items() for other in others}
    return {(one, other) for one, other in pairs if one is not None and other is not None and one != other}


def _circles(arrows: set[tuple[str, str]]) -> set[str]:
    """Return the rooms from which arrows lead back to them."""
    below: dict[str, set[str]] = defaultdict(set)
    for one, other in arrows:
        below[one].add(other)
    found: set[str] = set()
    for room in tuple(below):
        seen, waiting = set[str](), list(below[room])
        while waiting:
            reached = waiting.pop()
            if reached not in seen:
                seen.add(reached)
                waiting += below.get(reached, ())
        if room in seen:
            found.add(room)
    return found


@pytest.mark.long
def test_no_circle_is_in_the_picture_of_any_package() -> None:
    packages = {name.rpartition(".")[0] for name in package_trees() if "." in name}
    assert {package: found for package in packages if (found := _circles(_arrows(package)))} == {}


@pytest.mark.long
def test_the_picture_of_the_runtime_can_be_drawn() -> None:
    arrows = _arrows("agentrail.runtime")
    rooms = {room for name in package_trees() if (room := _room(name, "agentrail.runtime")) is not None}
    assert len(rooms) <= MOST_ROOMS, sorted(rooms)
    assert len(arrows) <= MOST_ARROWS, sorted(arrows)


def test_few_modules_have_the_name_of_another() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for name in map(module_of, PACKAGE.rglob("*.py")):
        homes[name.rpartition(".")[2]].append(name)
    twice = {word: found for word, found in homes.items() if len(found) > 1 and word != "__main__"}
    assert len(twice) <= MOST_MODULES_TWICE, twice
