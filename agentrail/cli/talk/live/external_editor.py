"""`ExternalEditor`: the program of the person in which a text is changed, in the place of the rows of the terminal."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final, NamedTuple

from agentrail.adapters.file_lock import create_private
from agentrail.adapters.user_folders import home
from agentrail.cli.output.bad_input import BadInputError

VARIABLES: Final = ("VISUAL", "EDITOR")
"""The environment variables that name the editor; the first that is set counts."""

HOW_TO_SET: Final = "no editor is set; `export VISUAL=vim` before agentrail starts has Ctrl-X Ctrl-E open vim"

FILE: Final = "text.md"
"""Name of the file that is edited."""

LARGEST: Final = 1024 * 1024
"""The most bytes of a text that is taken over."""

AT_ONCE: Final = 1.0
"""Seconds within which a person can have changed nothing: such an editor has left the text to a window of its own."""


class EditedText(NamedTuple):
    """What came of editing a text."""

    text: str
    """The text, as it is afterwards."""
    problem: str = ""
    """Why it may not be what the person meant; empty if all went well."""
    was_clean: bool = True
    """Whether the editor ended by itself, and so left the terminal as it had been."""


def editor_command(look_up: Callable[[str], str | None]) -> Sequence[str]:
    """Return the words that start the editor which the environment names.

    Raise `BadInputError` if it names none.
    """
    name = next((name for name in VARIABLES if (look_up(name) or "").strip()), None)
    if name is None:
        raise BadInputError(HOW_TO_SET)
    try:
        return shlex.split(look_up(name) or "")
    except ValueError as error:
        raise BadInputError(f"{name}={look_up(name)}: it is no command line ({error}); set it anew") from None


class ExternalEditor:
    """One run of an editor, of which a thread waits for the end."""

    def __init__(self, command: Sequence[str], source: int, target: int) -> None:
        """Create it; *source* and *target* are the descriptors of the terminal: standard output may lead elsewhere."""
        self._command = command
        self._source = source
        self._target = target
        self._process: subprocess.Popen[bytes] | None = None  # `None` before it has started
        self._has_to_end = False
        self._lock = threading.Lock()  # of the two above

    def edit(self, text: str) -> EditedText:
        """Have the person change *text*, in a file in a folder that nobody else can enter; both are removed then."""
        try:
            home().mkdir(mode=0o700, parents=True, exist_ok=True)
            with TemporaryDirectory(prefix="edit-", dir=home(), ignore_cleanup_errors=True) as folder:
                return self._edit_in(Path(folder, FILE), text)
        except (OSError, RuntimeError, ValueError) as error:  # no home; a NUL character in the variable
            why = f"{error.filename or ''}: {error.strerror}" if isinstance(error, OSError) else error
            return EditedText(text, f"the editor cannot be used: {why}")

    def end(self) -> None:
        """Ask the editor to end, because the conversation does."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End an editor that does not end when it is asked to; no-op if it has ended."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with self._lock:
            self._has_to_end = True
            if self._process is not None:
                with suppress(ProcessLookupError):
                    self._process.send_signal(number)

    def _edit_in(self, file: Path, text: str) -> EditedText:
        # What is typed may have bytes that are no UTF-8, as the names of files may
        content = text.encode("utf-8", "surrogateescape")
        with os.fdopen(create_private(file), "wb") as opened:
            opened.write(content)
        start = monotonic()
        status = self._run(file)
        with file.open("rb") as opened:
            new_content = opened.read(LARGEST + 1)
        if status > 0 or len(new_content) > LARGEST:
            return EditedText(text, self._problem(status), was_clean=status == 0)
        new_text = _text_of(new_content, text)
        if status < 0:
            return EditedText(new_text, self._problem(status), was_clean=False)
        has_window = new_text == text and monotonic() - start < AT_ONCE
        return EditedText(new_text, self._returned_at_once() if has_window else "")

    def _run(self, file: Path) -> int:
        """Return the exit status of the editor; of one that a signal ended, the number of the signal, negative."""
        with self._lock:
            if self._has_to_end:
                return -signal.SIGTERM
            # In the process group of agentrail, so that job control stops and continues both
            self._process = subprocess.Popen(  # noqa: S603 - the person's own editor
                [*self._command, str(file)], stdin=self._source, stdout=self._target, stderr=self._target
            )
        return self._process.wait()

    def _problem(self, status: int) -> str:
        if status > 0:
            return f"{Path(self._command[0]).name} ended with exit status {status}, so the text is as it was before"
        if status < 0:
            return f"{Path(self._command[0]).name} was ended by signal {-status}; the text is what it had written last"
        return f"the text has more than {LARGEST // 1024} KiB, and is as it was before; name a file by @ instead"

    def _returned_at_once(self) -> str:
        problem = f"{Path(self._command[0]).name} returned at once, and nothing was changed"
        return f"{problem}; one with a window of its own needs its option to wait, as in `code --wait`"


def _text_of(content: bytes, old_text: str) -> str:
    """Return *content* as text, without the line end that editors add."""
    text = content.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
    return text if old_text.endswith("\n") else text.removesuffix("\n")
