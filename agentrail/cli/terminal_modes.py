"""The modes of a terminal, on systems that have them."""

from __future__ import annotations

import termios
import tty
from collections.abc import Generator
from contextlib import contextmanager


def hand_over_keys(number: int) -> None:
    """Make the terminal of file descriptor *number* send single keys without echo; Ctrl-C still sends SIGINT."""
    tty.setcbreak(number, termios.TCSADRAIN)


@contextmanager
def kept(number: int) -> Generator[None, None, None]:
    """Restore the modes of the terminal of file descriptor *number* when the block ends."""
    before = termios.tcgetattr(number)
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def drop_typed_ahead(number: int) -> None:
    """Discard what was typed at the terminal of file descriptor *number* and not read yet."""
    termios.tcflush(number, termios.TCIFLUSH)
