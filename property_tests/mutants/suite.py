"""Runs the tests of the machine in this process, one by one, without pytest."""

from __future__ import annotations

import importlib
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from types import ModuleType
from typing import Final, TypeAlias

from property_tests.mutants.operators import ROOT

Test: TypeAlias = tuple[str, Callable[[], None]]
"""The name of a test, and the test."""

SECONDS: Final = 10.0
"""Seconds of CPU time that a test may take."""


class EndlessError(BaseException):
    """A test takes too long. It is no `Exception`, so that no code on the way takes it for an error of a plugin."""


def _stop(*_: object) -> None:
    raise EndlessError


@contextmanager
def limited() -> Iterator[None]:
    """Stop a test that takes more than `SECONDS` of CPU time; this counts as a failure."""
    signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)


def steps() -> Iterator[Test]:
    """Yield each test of the machine: its name, and a function that runs it."""
    for folder in ("tests/cells", "tests/core"):
        for module in load(folder):
            yield from tests_of(module)


def load(folder: str) -> list[ModuleType]:
    """Import all test modules in *folder*."""
    names = (path.stem for path in sorted((ROOT / folder).glob("test_*.py")))
    return [importlib.import_module(f"{folder.replace('/', '.')}.{name}") for name in names]


def tests_of(module: ModuleType) -> Iterator[Test]:
    """Yield the tests of *module*, one for each set of parameters, without those that Hypothesis has to run."""
    for name, test in sorted(vars(module).items()):
        if name.startswith("test_") and not hasattr(test, "hypothesis"):
            yield from _bound(module, name)


def _bound(module: ModuleType, name: str) -> Iterator[Test]:
    test: Callable[..., None] = getattr(module, name)
    node = f"{module.__name__.replace('.', '/')}.py::{name}"
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    for given in product(*(_values(*mark.args) for mark in reversed(marks))):
        flat = tuple(value for values in given for value in values)
        yield f"{node}[{'-'.join(map(str, flat))}]" if flat else node, _with(test, flat)


def _values(names: str | Sequence[str], values: Iterable[object]) -> list[tuple[object, ...]]:
    many = len(names.split(",") if isinstance(names, str) else names) > 1
    return [tuple(value) if many and isinstance(value, Iterable) else (value,) for value in values]


def _with(test: Callable[..., None], given: tuple[object, ...]) -> Callable[[], None]:
    return lambda: test(*given)


def fails(test: Callable[[], None]) -> bool:
    """Whether *test* fails."""
    try:
        with limited():
            test()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - any error counts as failed; errors of pytest are no `Exception`
        return True
    return False
