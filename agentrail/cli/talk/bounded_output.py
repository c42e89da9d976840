"""`output_of`: what a program prints, within bounds of time and size; it can neither read nor command the terminal."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final

CHUNK: Final = 64 * 1024

TOO_LONG: Final = "takes too long"


class OutputError(Exception):
    """A program has not done what it was to do; the text says why, as if its name stood before it."""

    def __init__(self, why: str, *, has_ended: bool = False) -> None:
        super().__init__(why)
        self.has_ended = has_ended
        """Whether the program ended by itself, with an exit status other than 0."""


def output_of(
    command: Sequence[str], content: bytes = b"", *, seconds: float, most: int, folder: Path | None = None
) -> bytes:
    """Run *command* with *content* as its input, and return what it prints, at most *most* bytes; it blocks.

    It is ended after *seconds*, with all that it has started. Raise `OutputError` if it does not end well by then.
    """
    if sys.platform == "win32":  # neither are pipes waited for there, nor is a whole group of processes ended
        raise OutputError("cannot be run on Windows; use the Windows Subsystem for Linux")
    try:
        process = subprocess.Popen(  # noqa: S603 - of the person, or found on PATH
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            start_new_session=True,  # without a terminal, which it could open by name
        )
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot be started: {error.strerror if isinstance(error, OSError) else error}") from None
    with process:
        try:
            output = _exchange(process, content, monotonic() + seconds, most)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    return output


def _exchange(process: subprocess.Popen[bytes], content: bytes, deadline: float, most: int) -> bytes:
    """Write *content* and read until the end of the output, or *most* bytes of it; then wait for the exit status."""
    source, target = process.stdout, process.stdin
    if source is None or target is None:
        raise OutputError("has no pipes")
    os.set_blocking(target.fileno(), False)
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        selector.register(target, selectors.EVENT_WRITE)
        while len(output) < most:
            ready = selector.select(max(deadline - monotonic(), 0))
            if not ready or monotonic() > deadline:
                raise OutputError(TOO_LONG)
            for key, _ in ready:
                if key.fileobj is source:
                    chunk = os.read(source.fileno(), CHUNK)
                    output += chunk
                    if not chunk:
                        _check_status(process, deadline)
                        return bytes(output)
                elif not (content := _rest(target.fileno(), content)):
                    selector.unregister(target)
                    target.close()
    return bytes(output[:most])


def _rest(descriptor: int, content: bytes) -> bytes:
    """Write as much of *content* as a pipe takes, and return the rest; nothing is left if nobody reads it."""
    try:
        return content[os.write(descriptor, content) :] if content else b""
    except BlockingIOError:
        return content
    except OSError:
        return b""


def _check_status(process: subprocess.Popen[bytes], deadline: float) -> None:
    """Raise `OutputError` unless the process ends well by the *deadline*."""
    try:
        status = process.wait(max(deadline - monotonic(), 0))
    except subprocess.TimeoutExpired:
        raise OutputError(TOO_LONG) from None
    if status != 0:
        raise OutputError(f"ended with exit status {status}", has_ended=True)
