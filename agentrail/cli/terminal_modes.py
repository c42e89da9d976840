"""The modes of a terminal, on systems that have them."""

from __future__ import annotations

import termios
import tty
from collections.abc import Generator
from contextlib import contextmanager


def hand_over_keys(number: int) -> None:
    """Have the terminal behind the file *number* hand over each key, unseen; Ctrl-C still makes a signal."""
    tty.setcbreak(number, termios.TCSADRAIN)


@contextmanager
def kept(number: int) -> Generator[None, None, None]:
    """Put the modes of the terminal behind the file *number* back at the end."""
    before = termios.tcgetattr(number)
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
