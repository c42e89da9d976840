"""Runs tests against what is broken, and stops at the first that notices."""

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
"""Seconds of its own that a test may take."""
MEMORY: Final = 2 * 1024**3
"""Bytes that a process may take."""

ROOT: Final = Path(__file__).parents[2]


class EndlessError(BaseException):
    """A test does not come to its end; no `Exception`, so that nothing on the way takes it for a plugin's."""


def _stop(*_: object) -> None:
    raise EndlessError


@contextmanager
def limited() -> Iterator[None]:
    """Stop a test that goes round in circles, or eats all memory: it has noticed too."""
    signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)


def little_memory() -> None:
    """Let this process have no more memory than the tests need."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def notice(likeliest: tuple[str, ...] = ()) -> str | None:
    """Run the tests, those of the *likeliest* modules first, until one fails, and return its name."""
    for folder, name in sorted(modules(), key=lambda found: _place(found[1], likeliest)):
        try:
            with limited():
                module = importlib.import_module(f"{folder.replace('/', '.')}.{name}")
        except (Exception, EndlessError):  # noqa: BLE001 - a module that cannot even record its scripts has noticed
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
    """Yield every test that does steps, by name, as something to call."""
    for module in load("tests/cells", "tests/core"):
        yield from tests_of(module)


def load(*wanted: str) -> list[ModuleType]:
    """Import every module of tests in the *wanted* folders; those of the cells register them."""
    return [
        importlib.import_module(f"{folder.replace('/', '.')}.{name}")
        for folder, name in modules()
        if not wanted or folder in wanted
    ]


def tests_of(module: ModuleType) -> Iterator[Test]:
    """Yield the tests of *module*, one for each set of parameters; those that draw examples need a runner."""
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
    """Whether *test* notices something."""
    try:
        with limited():
            test()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - whatever it raises, it has noticed; what pytest raises is no `Exception`
        return True
    return False
