"""`ShellLines`: command lines that the person runs (`!ls`), whose output the model gets with the next text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.sandboxes.local import LocalSandbox
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.talk.prompt_input import fenced
from agentrail.ports.sandbox import Command
from agentrail.values.content import Part, Text

MARK: Final = "!"
"""Begins a line that is run."""

LONGEST: Final = 3600.0
"""The most seconds that a command line runs."""

MOST_KEPT: Final = 32 * 1024
"""The most bytes of an output that are kept, half from its beginning and half from its end."""


class ShellLines:
    """The command lines of one conversation, of which one runs at a time."""

    def __init__(self, folder: Path, show: Callable[[str, str], None]) -> None:
        """Create it; *show* gets each command line with what it has printed."""
        self._folder = folder
        self._show = show
        self._outputs: list[str] = []
        self._scope: trio.CancelScope | None = None

    @property
    def is_running(self) -> bool:
        """Whether a command line runs."""
        return self._scope is not None

    async def run(self, line: str) -> None:
        """Run *line* in the folder, with the environment that commands of tools have, and keep what it prints."""
        if self._scope is not None:
            raise BadInputError(f"{MARK}{line}: another command runs; Escape stops it")
        self._scope = trio.CancelScope()
        with self._scope:
            try:
                command = Command(line, timeout=LONGEST, merge=True, keep=MOST_KEPT)
                execution = await LocalSandbox(self._folder).execute(command)
            finally:
                self._scope = None
            end = "" if execution.exit_code == 0 else f"(exit status {execution.exit_code})"
            output = "\n".join(filter(None, (execution.stdout.text.rstrip("\n"), end))) or "(nothing)"
            self._outputs.append(f"I ran `{line}`:\n\n{fenced(output)}")
            self._show(line, output)

    def stop(self) -> bool:
        """Stop what runs; return whether there was anything."""
        if self._scope is None:
            return False
        self._scope.cancel()
        return True

    def added_to(self, message: str | tuple[Part, ...]) -> str | tuple[Part, ...]:
        """Return *message* with the outputs that the model has not got yet."""
        texts, self._outputs = "".join(f"\n\n{output}" for output in self._outputs), []
        if isinstance(message, str) or not texts:
            return f"{message}{texts}" if isinstance(message, str) else message
        return (*message, Text(texts.strip("\n")))
