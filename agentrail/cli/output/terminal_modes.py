"""The modes of a terminal, on systems that have them."""

from __future__ import annotations

import fcntl
import sys
import termios
from contextlib import suppress
from typing import TypeAlias

Modes: TypeAlias = list[int | list[bytes | int]]


def modes_of(number: int) -> Modes:
    """Return the modes of the terminal of file descriptor *number*."""
    return termios.tcgetattr(number)


def set_modes(number: int, modes: Modes) -> None:
    """Set the modes of the terminal of file descriptor *number*."""
    termios.tcsetattr(number, termios.TCSADRAIN, modes)


def drop_typed_ahead(number: int) -> None:
    """Discard what was typed at the terminal of file descriptor *number* and not read yet; no-op if it is gone."""
    with suppress(termios.error):
        termios.tcflush(number, termios.TCIFLUSH)


def typed_ahead(number: int) -> int:
    """Return how many bytes of whole lines were typed at the terminal of *number* and not read yet; 0 if it is gone."""
    try:
        count = fcntl.ioctl(number, termios.FIONREAD, bytes(4))
    except OSError:
        return 0
    return int.from_bytes(count, sys.byteorder)
