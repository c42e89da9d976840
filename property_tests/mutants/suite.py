"""Runs the tests against a broken package, and stops at the first that fails."""

from __future__ import annotations

import importlib
import resource
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias

Test: TypeAlias = tuple[str, Callable[[], None]]
"""The name of a test, and the test."""

SECONDS: Final = 10.0
"""Seconds of CPU time that a test may take."""
MEMORY: Final = 2 * 1024**3
"""Bytes of memory that a process may take."""

ROOT: Final = Path(__file__).parents[2]


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


def little_memory() -> None:
    """Limit the memory of this process to `MEMORY`, so that an endless mutant fails."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def notice(likeliest: tuple[str, ...] = ()) -> str | None:
    """Run the tests, those of the *likeliest* modules first, until one fails, and return its name."""
    for folder, name in sorted(modules(), key=lambda found: _place(found[1], likeliest)):
        try:
            with limited():
                module = importlib.import_module(f"{folder.replace('/', '.')}.{name}")
        except (Exception, EndlessError):  # noqa: BLE001 - a module that cannot be imported counts as failed
            return f"{folder}/{name}.py"
        for test, run in tests_of(module):
            if fails(run):
                return test
    return None


def _place(name: str, likeliest: tuple[str, ...]) -> int:
    known = name.removeprefix("test_")
    return likeliest.index(known) if known in likeliest else len(likeliest)


def modules() -> list[tuple[str, str]]:
    """Return the modules of tests that are run, by folder and name."""
    return [
        (folder, path.stem)
        for folder in ("tests/cells", "tests/core", "tests/hooks")
        for path in sorted((ROOT / folder).glob("test_*.py"))
    ]


def steps() -> Iterator[Test]:
    """Yield each test of the machine: its name, and a function that runs it."""
    for module in load("tests/cells", "tests/core"):
        yield from tests_of(module)


def load(*wanted: str) -> list[ModuleType]:
    """Import all test modules in the *wanted* folders; importing a module of `tests/cells` registers its cells."""
    return [
        importlib.import_module(f"{folder.replace('/', '.')}.{name}")
        for folder, name in modules()
        if not wanted or folder in wanted
    ]


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
