"""`Leftovers`: what tests leave behind in their process, where pytest would not tell of it.

A worker leaves by `os._exit`, so what Python does or says at the end of a process is done here: functions that were
registered with `atexit` are called, threads that go on and coroutines that nobody awaited are looked for.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CoroutineType
from typing import Final, TypeAlias

Problem: TypeAlias = tuple[int | None, str]
"""The place of the test that has left something, if that is known, and what it has left."""

OF_PYTEST: Final = "PYTEST_CURRENT_TEST"
"""The variable that pytest itself changes with each test."""

CACHED_THREAD: Final = "Trio thread "
"""How the names of threads begin that Trio keeps for the next call."""


AT_ITS_END: Final = 0.1
"""Seconds that a thread has for the end of its last call."""


class Leftovers:
    """What the tests of one worker change in its process, or leave in it."""

    def __init__(self) -> None:
        self._folder = os.getcwd()  # noqa: PTH109 - compared as text
        self._environment = _environment()
        self._threads: dict[threading.Thread, int | None] = dict.fromkeys(threading.enumerate())
        self._changes: dict[str, int] = {}
        """What differs from the beginning, and the test after which it did first."""
        atexit._clear()  # noqa: SLF001 - as `multiprocessing` does; those of the process that forked this one are its own

    def look(self, index: int) -> None:
        """Note what is different after the test at *index* for the first time; its fixtures may still be there."""
        now = set(self._differences())
        self._changes = {change: self._changes.get(change, index) for change in now}
        for thread in threading.enumerate():
            self._threads.setdefault(thread, index)

    def end_piece(self) -> list[Problem]:
        """Return what is still changed after the last test of a piece, and change it back."""
        problems = [
            (self._changes.get(change), f"after this test {change}: use `monkeypatch`")
            for change in self._differences()
        ]
        if problems:
            os.chdir(self._folder)
            for name in _environment().keys() - self._environment.keys():
                del os.environ[name]
            os.environ.update(self._environment)
        self._changes.clear()
        return problems

    def end(self) -> list[Problem]:
        """Do what Python does at the end of a process; return what was left, when all fixtures have ended."""
        threads = [
            (
                self._threads.get(thread),
                f"the thread {thread.name!r}, begun in this test, has not ended, as Python would wait for",
            )
            for thread in self._left_threads()
            if not thread.daemon
        ]
        return [*threads, *_failures_at_exit(), *_coroutines()]

    def daemons(self) -> list[Problem]:
        """Return the threads that go on after all fixtures, and would end with the process."""
        return [
            (self._threads.get(thread), f"the thread {thread.name!r}")
            for thread in self._left_threads()
            if thread.daemon
        ]

    def _differences(self) -> Iterator[str]:
        try:
            folder = os.getcwd()  # noqa: PTH109 - compared as text
        except FileNotFoundError:
            folder = "one that is gone"
        if folder != self._folder:
            yield f"the current folder is {folder}"
        environment = _environment()
        for name in sorted(environment.keys() | self._environment.keys()):
            if environment.get(name) != self._environment.get(name):
                yield f"the variable {name} of the environment is another"

    def _left_threads(self) -> Iterator[threading.Thread]:
        for thread in threading.enumerate():
            if not thread.name.startswith(CACHED_THREAD) and self._threads.get(thread, 0) is not None:
                thread.join(AT_ITS_END)
                if thread.is_alive():
                    yield thread


def _environment() -> Mapping[str, str]:
    return {name: value for name, value in os.environ.items() if name != OF_PYTEST}


def _failures_at_exit() -> list[Problem]:
    """Call what tests have registered with `atexit`; return what was raised."""
    with _unraisable() as texts:
        atexit._run_exitfuncs()  # noqa: SLF001 - as `multiprocessing` does
    return [(None, f"a function that was registered with `atexit` has failed: {text}") for text in texts]


def _coroutines() -> Iterator[Problem]:
    """Find the coroutines that were made and never begun, and that something still refers to."""
    gc.unfreeze()
    gc.collect()
    names: set[str] = set()
    for thing in gc.get_objects():
        if isinstance(thing, CoroutineType) and inspect.getcoroutinestate(thing) == inspect.CORO_CREATED:
            thing.close()
            names.add(thing.__qualname__)
    for name in sorted(names):
        yield None, f"the coroutine {name!r} was never awaited, and something has kept it"


@contextmanager
def _unraisable() -> Iterator[list[str]]:
    """Collect what Python cannot raise."""
    texts: list[str] = []

    def note(unraisable: sys.UnraisableHookArgs) -> None:
        texts.append(repr(unraisable.exc_value))

    hook: Callable[[sys.UnraisableHookArgs], object] = sys.unraisablehook
    sys.unraisablehook = note
    try:
        yield texts
    finally:
        sys.unraisablehook = hook
