"""`Hangup`: what SIGHUP does to the program: it ends it, or tells a host to read its certificate and keys anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import trio

TERMINAL: Final = Path("/dev/tty")
"""Names the terminal of each process that has one; nobody else can open it."""


class Hangup:
    """Who is told of SIGHUP, in one run of Trio.

    The system sends it when the terminal of the program goes away. Whoever administers a service sends it to have its
    configuration read anew. The two are told apart by the terminal, which the program no longer has in the first case.
    """

    def __init__(self) -> None:
        self._listeners: list[Callable[[], object]] = []
        self._had_terminal = _has_terminal()

    @property
    def ends(self) -> bool:
        """Whether a SIGHUP that comes now ends the program."""
        return not self._listeners or (self._had_terminal and not _has_terminal())

    def tell(self) -> None:
        """Call each listener."""
        for listener in tuple(self._listeners):
            listener()

    @contextmanager
    def listening(self, listener: Callable[[], object]) -> Generator[None]:
        """Call *listener* at each SIGHUP, instead of ending the program, until the `with` is left."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)


_RUNNING: Final[trio.lowlevel.RunVar[Hangup]] = trio.lowlevel.RunVar("agentrail-hangup")


def hangup() -> Hangup:
    """Return the `Hangup` of this run of Trio. Only `agentrail.run` listens to the signal."""
    try:
        return _RUNNING.get()
    except LookupError:
        made = Hangup()
        _RUNNING.set(made)
        return made


def _has_terminal() -> bool:
    try:
        os.close(os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
