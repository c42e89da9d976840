"""`agentrail chat`: a conversation with a session in the terminal, which outlives it."""

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

import agentrail
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.app import process
from agentrail.app.supervisor_options import SupervisorOptions
from agentrail.cli.agent_seal import AgentSeal
from agentrail.cli.agent_source import AgentSource, profile_of
from agentrail.cli.bad_input import BadInputError
from agentrail.cli.chat_options import LAST, ChatOptions
from agentrail.cli.chosen_agent import settings_for, source_with
from agentrail.cli.command_options import CHOSEN, options_of
from agentrail.cli.console import Console
from agentrail.cli.console_commands import NAMES, ConsoleCommands, last_used, mode_labelled, set_mode
from agentrail.cli.default_agent import KEPT_STOP_WITHIN
from agentrail.cli.error_text import in_own_words
from agentrail.cli.exit_codes import INTERRUPTED, WRONG_USAGE, leave_unread
from agentrail.cli.exit_status import DONE, status_of_error, tell, tell_more
from agentrail.cli.help_text import greeting
from agentrail.cli.input_history import InputHistory
from agentrail.cli.own_commands import OwnCommands, allowed_commands
from agentrail.cli.page_browser import forget_page
from agentrail.cli.printed_lines import PrintedLines, own_output
from agentrail.cli.project_settings import ProjectSettings
from agentrail.cli.screen import Tone, line
from agentrail.cli.session_names import name_in_chat, new_name
from agentrail.cli.session_picker import NONE_YET, pick_session
from agentrail.cli.session_question import ask_about_last, ask_about_session
from agentrail.cli.setting_order import chosen_journal, chosen_page
from agentrail.cli.settings_code import supervisor_options
from agentrail.cli.terminal import Terminal
from agentrail.cli.trust_question import ask_about
from agentrail.errors import AgentrailError, SessionParked, SupervisorStuck, UnknownSession, UsageError
from agentrail.lazy import LazyModule
from agentrail.values.events import Cursor

if TYPE_CHECKING:
    from agentrail.cli import shared_host
    from agentrail.remote.remote_session import RemoteSession
    from agentrail.remote.remote_supervisor import RemoteSupervisor
else:  # imported when keys are read already: it brings the host
    shared_host = LazyModule("agentrail.cli.shared_host")

LIST_THEM: Final = "`agentrail sessions` lists those that are kept, and so does /sessions"


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
        settings = settings_for(options, options.place, ask_about)
        own = _commands_for(options)
        screen = own_output(sys.stdout)
        terminal = Terminal(sys.stdin, screen)
        if options.session == CHOSEN:
            session = pick_session(chosen_journal(options.journal, settings), _label(options, settings), terminal)
            if session is None:
                return DONE
            options = options.but(resume=session)
        if options.session is not None:
            _ask_first(options.session, options, settings)
    except (BadInputError, OSError) as error:
        tell(f"agentrail: {error}")
        return WRONG_USAGE
    except AgentrailError as error:  # such as a damaged record of the session
        return status_of_error(error)
    code = process.run(partial(conversation, options, settings, own, terminal), stop_within=KEPT_STOP_WITHIN)
    forget_page()
    if terminal.gone:
        leave_unread(screen)
    return INTERRUPTED if code is None else max(code, int(terminal.gone))


def _ask_first(session: str, options: ChatOptions, settings: ProjectSettings | None) -> None:
    """Ask about *session*, or about the last one of the folder, if somebody else has begun it."""
    journal = chosen_journal(options.journal, settings)
    if session == LAST:
        ask_about_last(journal, _label(options, settings))
    else:
        ask_about_session(journal, session)


def _commands_for(options: ChatOptions) -> OwnCommands:
    """Return the commands that the folder has of its own; ask about those that nobody has allowed yet."""
    if options.has_samples or not options.has_config:
        return OwnCommands()
    return allowed_commands(options.place, NAMES, ask_about)


def _label(options: ChatOptions, settings: ProjectSettings | None) -> str:
    """Return the label of the sessions of the folder."""
    return source_with(options, options.place, settings).label


async def conversation(
    options: ChatOptions, settings: ProjectSettings | None, own: OwnCommands, terminal: Terminal
) -> int:
    """Run the conversation in its folder, and return the exit code; print an `AgentrailError` that ends it."""
    try:
        with _places(options, settings) as (folder, journal), PrintedLines(terminal.show).caught():
            source = source_with(options, folder, settings)
            has_page = chosen_page(settings, option=options.has_page)
            well = await Chat(source, terminal, options, own).run(
                journal, supervisor_options(settings), has_page=has_page
            )
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
def _places(options: ChatOptions, settings: ProjectSettings | None) -> Generator[tuple[Path, Path | None], None, None]:
    """Yield the folder and the journal of the conversation; with samples, temporary ones, deleted afterwards."""
    if not options.has_samples:
        yield options.place, chosen_journal(options.journal, settings)
        return
    with tempfile.TemporaryDirectory(prefix="agentrail-", ignore_cleanup_errors=True) as fresh:
        folder = Path(fresh).resolve() / "samples"
        fill(folder)
        yield folder, folder.with_name("sessions.db")


class Chat:
    """One run of the program: a conversation with one session after another."""

    def __init__(self, source: AgentSource, terminal: Terminal, options: ChatOptions, own: OwnCommands) -> None:
        self._own = own
        self._source = source
        self._terminal = terminal
        self._options = options
        terminal.title = f"agentrail: {Path(source.folder).name}"
        self._history = None if options.has_samples else InputHistory(source.folder)

    async def run(self, journal: Path | None, supervisor_options: SupervisorOptions, *, has_page: bool) -> bool:
        """Converse until the person leaves; return false if input from a pipe was refused or stopped.

        Keys are read from the beginning on: what is typed while the sessions are opened is taken when they are.
        """
        async with self._terminal.opened():
            return await self._run(journal, supervisor_options, has_page=has_page)

    async def _run(self, journal: Path | None, supervisor_options: SupervisorOptions, *, has_page: bool) -> bool:
        await trio.to_thread.run_sync(self._source.check)
        is_shared = await shared_host.is_served(SqliteJournal(journal).path)
        begun = await trio.to_thread.run_sync(AgentSeal(journal).begun, self._source)
        async with shared_host.open_shared(journal, profile_of, supervisor_options, has_page=has_page) as supervisor:
            session = await self._first(supervisor)
            source = self._source if session is None else await self._as_stored(session)
            page = _page_of(journal)
            has_samples = self._options.has_samples
            self._terminal.show(
                greeting(agentrail.__version__, source, page, has_samples=has_samples, is_shared=is_shared)
            )
            self._terminal.show([line(f"  {problem}", Tone.BAD) for problem in self._own.problems])
            is_well, offered = True, ""
            while True:
                is_new = session is None
                if session is None:
                    session = await supervisor.spawn(begun.id, new_name(), labels=[begun.label])
                commands = ConsoleCommands(
                    session,
                    self._terminal,
                    supervisor,
                    self._source.label,
                    Path(self._source.folder),
                    partial(shared_host.find_page, journal),
                    self._own.commands,
                )
                past = None if is_new else await _end_of(session)
                console = Console(session, self._terminal, commands, past, self._history)
                is_well = await console.run(offered) and is_well
                offered = commands.next_text
                if is_new and not console.has_prompted:
                    await supervisor.delete(session.id)
                if commands.next_id is None:
                    return is_well
                session = supervisor.session(commands.next_id) if commands.next_id else None

    async def _as_stored(self, session: RemoteSession) -> AgentSource:
        """Return what the agent of a stored session is made of, with the mode that it has now."""
        detail = await session.detail()
        source = AgentSource.read(detail.agent) or self._source
        return source.but(mode=mode_labelled(detail.labels) or source.mode)

    async def _first(self, supervisor: RemoteSupervisor) -> RemoteSession | None:
        """Return the session to begin with, `None` for a new one; raise `BadInputError` if it does not exist."""
        session_id = self._options.session
        if session_id == LAST:
            sessions = await last_used(supervisor, self._source.label)
            if not sessions:
                raise BadInputError(f"--continue: {NONE_YET}")
            return await self._changed(supervisor.session(sessions[0].session_id))
        if session_id is None:
            return None
        session = supervisor.session(name_in_chat(session_id))
        try:
            await session.status()
        except UnknownSession:
            raise BadInputError(f"--resume: there is no session {session_id!r}; {LIST_THEM}") from None
        except SessionParked:  # the session is stored but does not run; the next prompt starts it
            pass
        return await self._changed(session)

    async def _changed(self, session: RemoteSession) -> RemoteSession:
        """Apply the model and the mode of the command line, if given, to a stored session."""
        if self._options.model is not None:
            await session.switch_model(self._options.model)
        if self._options.mode is not None:
            await set_mode(session, self._options.mode)
        return session


def _page_of(journal: Path | None) -> str:
    """Return where the page is, without its token: what a terminal shows is kept, copied, and seen by others."""
    page = shared_host.find_page(journal)
    return "" if page is None else f"{page.address} (/page opens it)"


async def _end_of(session: RemoteSession) -> Cursor:
    """Return the place after the last event of *session* so far."""
    async with session.subscribe() as events:
        return events.cursor
