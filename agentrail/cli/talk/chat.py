"""`agentrail chat`: a conversation with a session in the terminal, which outlives it.

It imports what the first prompt needs, and the rest when keys are read already.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from agentrail.app import process
from agentrail.cli.chat_options import LAST, ChatOptions
from agentrail.cli.command_options import CHOSEN, options_of
from agentrail.cli.exit_codes import INTERRUPTED, KEPT_STOP_WITHIN, WRONG_USAGE, leave_unread
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.error_text import in_own_words
from agentrail.cli.output.exit_status import DONE, status_of_error, tell, tell_more
from agentrail.cli.output.printed_lines import PrintedLines, own_output
from agentrail.cli.output.screen import line
from agentrail.cli.quick_imports import imported
from agentrail.cli.talk.terminal import Terminal
from agentrail.cli.trust.own_commands import OwnCommands, allowed_commands, may_have_commands
from agentrail.cli.trust.trust_question import ask_about
from agentrail.cli.trust.trust_store import settings_of
from agentrail.errors import AgentrailError, SupervisorStuck, UsageError
from agentrail.lazy import LazyModule

SESSIONS: Final = "agentrail.cli.talk.chat_sessions"
"""The module with what a first prompt does not need, such as the host."""

if TYPE_CHECKING:
    from agentrail.cli.settings.project_settings import ProjectSettings
    from agentrail.cli.talk import chat_sessions
else:
    chat_sessions = LazyModule(SESSIONS)

SAMPLES: Final[Mapping[str, str]] = {
    "README.md": (
        "# A folder to play in\n\n"
        "Everything here is made up, and deleted when you leave.\n"
        "The agent can list, read, write and search these files, and nothing outside of this folder.\n"
    ),
    "notes.txt": (
        "Monday: water the plants.\n"
        "Tuesday: tea with Ada at four.\n"
        "Wednesday: the session that crashed is back by itself.\n"
    ),
    "docs/guide.md": (
        "# A short guide\n\n"
        "1. A session is an actor: it owns a mailbox and handles one message at a time.\n"
        "2. What you type while it works is steering.\n"
        "3. An abort never waits.\n"
    ),
    "src/tea.py": (
        '"""How long tea takes."""\n\n'
        "# TODO: green tea wants cooler water\n"
        'MINUTES = {"black": 4, "green": 2, "herbal": 6}\n'
    ),
}
"""The sample files, by path, that a fresh folder gets."""


def fill(folder: Path) -> None:
    """Write the sample files (`--samples`) into *folder*."""
    for name, text in SAMPLES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def main(**words: object) -> int:
    """Converse with the arguments *words* of `ChatOptions`, and return the exit code."""
    logging.getLogger("agentrail").addHandler(logging.NullHandler())
    try:
        options = options_of(ChatOptions, words)
        settings = settings_of(options.working_folder, ask_about) if options.obeys_folder else None
        own_commands = _commands_for(options)
        screen = own_output(sys.stdout)
        terminal = Terminal(sys.stdin, screen)
        if options.session == CHOSEN:
            session = chat_sessions.choose(options, settings, terminal)
            if session is None:
                return DONE
            options = options.but(resume=session)
        if options.session not in {None, LAST}:  # the last one is never a stranger's: it is not asked about
            chat_sessions.ask_first(options, settings)
    except (BadInputError, OSError) as error:
        tell(f"agentrail: {error}")
        return WRONG_USAGE
    except AgentrailError as error:  # such as a damaged record of the session
        return status_of_error(error)
    code = process.run(partial(conversation, options, settings, own_commands, terminal), stop_within=KEPT_STOP_WITHIN)
    if terminal.is_gone:
        leave_unread(screen)
    return INTERRUPTED if code is None else max(code, int(terminal.is_gone))


def _commands_for(options: ChatOptions) -> OwnCommands:
    """Return the commands that the folder has of its own; ask about those that nobody has allowed yet."""
    if options.has_samples or not options.has_config or not may_have_commands(options.working_folder):
        return OwnCommands()
    from agentrail.cli.talk.console_commands import NAMES  # noqa: PLC0415 - most folders have no commands

    return allowed_commands(options.working_folder, NAMES, ask_about)


async def conversation(
    options: ChatOptions, settings: ProjectSettings | None, own_commands: OwnCommands, terminal: Terminal
) -> int:
    """Run the conversation in its folder, and return the exit code; print an `AgentrailError` that ends it.

    Keys are read from the beginning on: what is typed while the sessions are opened is taken when they are.
    """
    try:
        with _working_folder(options) as folder, PrintedLines(terminal.show).caught():
            terminal.title = f"agentrail: {folder.name}"
            async with terminal.opened():
                # In a thread that is left behind, as it takes long: a signal that ends the program is obeyed at once
                await trio.to_thread.run_sync(partial(imported, SESSIONS, freeze=True), abandon_on_cancel=True)
                well = await chat_sessions.converse(options, settings, own_commands, terminal, folder)
    except BadInputError as error:
        tell(f"agentrail: {error}")
        tell_more(error)
        return WRONG_USAGE
    except AgentrailError as error:
        tell(f"agentrail: {in_own_words(str(error))}")
        tell_more(error)
        if isinstance(error, SupervisorStuck):
            raise
        return WRONG_USAGE if isinstance(error, UsageError) else 1
    terminal.show((line("Bye."),))
    return int(not well)


@contextmanager
def _working_folder(options: ChatOptions) -> Generator[Path, None, None]:
    """Yield the folder of the conversation; with samples, a temporary one, deleted afterwards."""
    if not options.has_samples:
        yield options.working_folder
        return
    with tempfile.TemporaryDirectory(prefix="agentrail-", ignore_cleanup_errors=True) as fresh:
        folder = Path(fresh).resolve() / "samples"
        fill(folder)
        yield folder
