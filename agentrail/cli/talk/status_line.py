"""`StatusLine`: a row below the typed text that a command of the person's own settings prints."""

from __future__ import annotations

from functools import partial
from typing import Final

import trio

from agentrail.adapters.user_folders import home
from agentrail.api.session_values import Status
from agentrail.cli.output.screen import Tone, aside, clipped, escaped, one_line
from agentrail.cli.talk.bounded_output import OutputError, output_of
from agentrail.cli.talk.terminal import Terminal
from agentrail.codec.json_text import to_text
from agentrail.core.context_window import window_of
from agentrail.values.json import JsonObject

SECONDS: Final = 0.1
"""The most seconds that the command may take."""

PAUSE: Final = 0.3
"""Seconds between two runs of the command, however often the session changes."""

MOST: Final = 4_096
"""The most bytes of what it prints that are read."""

LONGEST: Final = 500
"""The most characters of the row, of which the terminal shows what fits."""

SHORT: Final = 30
"""The most columns that are shown of a command that fails."""

SHELL: Final = "/bin/sh"


class StatusLine:
    """Runs the command when the session has changed, in a thread, so that no key and no event waits for it."""

    def __init__(self, command: str, terminal: Terminal, folder: str) -> None:
        """Create it; without a *command* it does nothing. *folder* is that in which the agent works."""
        self._command = command if terminal.keys else ""
        self._terminal = terminal
        self._folder = folder
        self._facts = b""  # what the next run gets
        self._has_changed = trio.Event()
        self._has_failed = False  # whether that it fails was shown

    def note(self, status: Status, last_read: int) -> None:
        """Have the command run soon with what the session does now; *last_read*: tokens that the model read last."""
        self._facts = f"{to_text(status_facts(status, last_read, self._folder))}\n".encode()
        self._has_changed.set()

    async def keep(self) -> None:
        """Run the command after each change, and show its row; return at once if there is none."""
        while self._command:
            await self._has_changed.wait()
            self._has_changed = trio.Event()
            # Not in the folder of the agent, where tools such as git read what an agent may have written
            run = partial(
                output_of, [SHELL, "-c", self._command], self._facts, seconds=SECONDS, most=MOST, folder=home()
            )
            try:
                output = await trio.to_thread.run_sync(run)
            except OutputError as error:
                self._fail(str(error))
            else:
                row = output.decode("utf-8", "replace").partition("\n")[0].rstrip("\r")
                self._terminal.tell_own(escaped(row[:LONGEST]))
            await trio.sleep(PAUSE)

    def _fail(self, why: str) -> None:
        """Tell once that the command fails; its last row stays."""
        if not self._has_failed:
            self._has_failed = True
            bound = f" (it may take {SECONDS * 1000:.0f} ms)" if why.startswith("takes") else ""
            command = clipped(escaped(one_line(self._command)), SHORT)
            self._terminal.show((aside(f"  the command of your status line, `{command}`, {why}{bound}", Tone.DIM),))


def status_facts(status: Status, last_read: int, folder: str) -> JsonObject:
    """Return what the command gets of the session."""
    usage = status.usage
    return {
        "session": status.session_id,
        "folder": folder,
        "model": status.model,
        "phase": status.phase,
        "waits_for_you": bool(status.held),
        "turns": status.turn,
        "queued": status.queued,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
        "context_tokens": last_read,
        "context_window": window_of(status.model),
    }
