"""`Hangup`: what SIGHUP does to the program: it ends it, or tells a host to read its certificate and keys anew.

This module imports little: `agentrail serve` begins with it, before the imports that take most of its start.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

TERMINAL: Final = "/dev/tty"
"""Names the terminal of each process that has one; nobody else can open it."""

HANGUP: Final = "SIGHUP"
"""Name of the signal; some systems do not have it."""


class Hangup:
    """Tells its listeners of SIGHUP, in one run of Trio; without a listener, the signal ends the program.

    The system sends SIGHUP when the program's terminal goes away. An administrator sends it to a service to have its
    configuration read again. In the first case the program has lost its terminal, so the two can be told apart.
    """

    def __init__(self, *, is_noting: bool = False) -> None:
        """With *is_noting*, SIGHUP does not end the program while nobody listens yet."""
        self._listeners: list[Callable[[], object]] = []
        self._had_terminal = _has_terminal()
        self._is_noting = is_noting
        self._is_noted = False

    @property
    def ends(self) -> bool:
        """Whether a SIGHUP that comes now ends the program."""
        return not (self._is_noting or self._listeners) or (self._had_terminal and not _has_terminal())

    def tell(self) -> None:
        """Call each listener; if there is none yet, remember the signal and call the first one when it is added."""
        self._is_noted = not self._listeners
        for listener in tuple(self._listeners):
            listener()

    @contextmanager
    def listening(self, listener: Callable[[], object]) -> Generator[None]:
        """Call *listener* at each SIGHUP, instead of ending the program, until the `with` is left."""
        self._listeners.append(listener)
        if self._is_noted:
            self.tell()
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def note(self, number: int, _: FrameType | None) -> None:
        """Handle a SIGHUP while no run of Trio does: keep it for the first listener, or end the program."""
        if not self.ends:
            self.tell()
            return
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


_NOTING: Final[list[Hangup]] = []
"""The `Hangup` of `noting_hangups`: at most one, as a process has one handler of a signal."""


@contextmanager
def noting_hangups() -> Generator[None]:
    """Note SIGHUP until the `with` is left, for the host that will listen: one that starts is not ended by it.

    A signal that the process was started to ignore stays ignored.
    """
    number: signal.Signals | None = getattr(signal, HANGUP, None)
    if number is None or signal.getsignal(number) is signal.SIG_IGN:
        yield
        return
    hangup = Hangup(is_noting=True)
    earlier = signal.signal(number, hangup.note)
    _NOTING.append(hangup)
    try:
        yield
    finally:
        _NOTING.remove(hangup)
        signal.signal(number, earlier)


def noted_hangup() -> Hangup | None:
    """Return the `Hangup` of `noting_hangups`; `None` if nothing is noted."""
    return _NOTING[-1] if _NOTING else None


def _has_terminal() -> bool:
    """Whether the process has a controlling terminal; Windows has none, and no SIGHUP either."""
    if sys.platform == "win32" or not hasattr(os, "O_NOCTTY"):
        return False
    try:
        os.close(os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
