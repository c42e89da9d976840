"""Which tests cover which cell of which table; `test_registry.py` checks that no cell is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import pytest
from attrs import frozen

Test: TypeAlias = Callable[[], None]
Key: TypeAlias = tuple[str, ...]


@frozen
class Case:
    """A test of a cell."""

    name: str
    """Name of the test in a report."""
    run: Callable[[], None]
    """Runs the test."""


CALLS: Final[dict[Key, list[Case]]] = {}
"""Call and state → tests."""
FAILURES: Final[dict[Key, list[Case]]] = {}
"""Case of "When things go wrong" → tests."""
MATRIX: Final[dict[Key, list[Case]]] = {}
"""Hook and action → tests."""
FOLDS: Final[dict[Key, list[Case]]] = {}
"""Sentence of "How the answers combine" → tests."""
FIGURES: Final[dict[Key, list[Case]]] = {}
"""Sentence with a figure → tests."""

TABLES: Final = {"calls": CALLS, "failures": FAILURES, "matrix": MATRIX, "folds": FOLDS, "figures": FIGURES}


def _register(table: dict[Key, list[Case]], keys: Iterable[Key]) -> Callable[[Test], Test]:
    def registered(test: Test) -> Test:
        for key in keys:
            table.setdefault(key, []).append(Case(f"{test.__module__}.{test.__name__}", test))
        return test

    return registered


def cell(call: str, *states: str) -> Callable[[Test], Test]:
    """Register a test for *call* in each of *states*."""
    return _register(CALLS, [(call, state) for state in states])


def failure(*cases: str) -> Callable[[Test], Test]:
    """Register a test for rows of "When things go wrong"."""
    return _register(FAILURES, [(case,) for case in cases])


def matrix_cell(hook: str, *actions: str) -> Callable[[Test], Test]:
    """Register a test for *hook* answered by each of *actions*."""
    return _register(MATRIX, [(hook, action) for action in actions])


def fold(*rules: str) -> Callable[[Test], Test]:
    """Register a test for rules of "How the answers combine"."""
    return _register(FOLDS, [(rule,) for rule in rules])


def figure(*sentences: str) -> Callable[[Test], Test]:
    """Register a test for sentences with a figure."""
    return _register(FIGURES, [(sentence,) for sentence in sentences])


def each_of(
    table: dict[Key, list[Case]], names: str, keys: Iterable[Key]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a test for each of *keys*; pytest runs it once for each, with the parts of the key as arguments."""
    expected_keys = list(keys)

    def registered(test: Callable[..., None]) -> Callable[..., None]:
        for key in expected_keys:
            name = f"{test.__module__}.{test.__name__}[{'-'.join(key)}]"
            table.setdefault(key, []).append(Case(name, _bound(test, key)))
        parametrized: Callable[..., None] = pytest.mark.parametrize(names, expected_keys)(test)
        return parametrized

    return registered


def _bound(test: Callable[..., None], key: Key) -> Callable[[], None]:
    return lambda: test(*key)


def all_cases() -> list[Case]:
    """Return every registered test once."""
    actual = {case.name: case for table in TABLES.values() for cases in table.values() for case in cases}
    return list(actual.values())
