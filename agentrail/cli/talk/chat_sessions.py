"""`Chat`: the sessions of one run of `agentrail chat`; imported when keys are read already, as it brings the host."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import trio

import agentrail
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.app.supervisor_options import SupervisorOptions
from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource, profile_of
from agentrail.cli.agents.begun_agents import first_known
from agentrail.cli.agents.chosen_agent import source_with
from agentrail.cli.chat_options import LAST, ChatOptions
from agentrail.cli.host import shared_host
from agentrail.cli.host.page_browser import forget_page
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.screen import Tone, line
from agentrail.cli.session_names import name_in_chat, new_name
from agentrail.cli.settings.default_agent import Network, usual_network
from agentrail.cli.settings.project_settings import ProjectSettings
from agentrail.cli.settings.setting_order import chosen_journal, chosen_page
from agentrail.cli.settings.user_settings import read_user_settings
from agentrail.cli.stored.session_question import ask_about_session
from agentrail.cli.talk.console import Console
from agentrail.cli.talk.console_commands import ConsoleCommands, last_used, mode_labelled, set_mode
from agentrail.cli.talk.file_changes import FileChanges
from agentrail.cli.talk.help_text import greeting
from agentrail.cli.talk.input_history import InputHistory
from agentrail.cli.talk.session_picker import NONE_YET, pick_session
from agentrail.cli.talk.status_line import StatusLine
from agentrail.cli.talk.terminal import Terminal
from agentrail.cli.trust.own_commands import OwnCommands
from agentrail.cli.trust.settings_code import supervisor_options
from agentrail.errors import SessionParked, UnknownSession
from agentrail.remote.remote_session import RemoteSession
from agentrail.remote.remote_supervisor import RemoteSupervisor
from agentrail.values.events import Cursor

NONE_BEGUN: Final = (
    "you have begun none of the sessions of this folder; `agentrail chat --resume SESSION` asks about one"
)
LIST_THEM: Final = "`agentrail sessions` lists those that are kept, and so does /sessions"


async def converse(
    options: ChatOptions, settings: ProjectSettings | None, own_commands: OwnCommands, terminal: Terminal, folder: Path
) -> bool:
    """Converse in *folder* until the person leaves; return false if input from a pipe was refused or stopped."""
    source = source_with(options, folder, settings)
    # The sessions of samples are deleted with them
    journal = folder.with_name("sessions.db") if options.has_samples else chosen_journal(options.journal, settings)
    has_page = chosen_page(settings, option=options.has_page)
    network = None if settings is None else settings.network
    chat = Chat(source, terminal, options, own_commands)
    try:
        return await chat.run(journal, supervisor_options(settings), network, has_page=has_page)
    finally:
        forget_page()


def choose(options: ChatOptions, settings: ProjectSettings | None, terminal: Terminal) -> str | None:
    """Return the id of the session of the folder that the person chooses; `None` if it is none."""
    return pick_session(chosen_journal(options.journal, settings), _label(options, settings), terminal)


def ask_first(options: ChatOptions, settings: ProjectSettings | None) -> None:
    """Ask about the session to go on with, if somebody else has begun it."""
    if options.session is not None:
        ask_about_session(chosen_journal(options.journal, settings), options.session)


def _label(options: ChatOptions, settings: ProjectSettings | None) -> str:
    """Return the label of the sessions of the folder."""
    return source_with(options, options.working_folder, settings).label


class Chat:
    """One run of the program: a conversation with one session after another."""

    def __init__(
        self, source: AgentSource, terminal: Terminal, options: ChatOptions, own_commands: OwnCommands
    ) -> None:
        self._own_commands = own_commands
        self._source = source
        self._terminal = terminal
        self._options = options
        self._history = None if options.has_samples else InputHistory(source.folder)

    async def run(
        self, journal: Path | None, supervisor_options: SupervisorOptions, network: Network | None, *, has_page: bool
    ) -> bool:
        """Converse until the person leaves; return false if input from a pipe was refused or stopped."""
        await trio.to_thread.run_sync(self._source.check)
        await trio.to_thread.run_sync(usual_network)  # it may start a program; what it returns is remembered
        is_shared = await shared_host.is_served(SqliteJournal(journal).path)
        sealed_source = await trio.to_thread.run_sync(AgentSeal(journal).begun, self._source)
        async with shared_host.open_shared(journal, profile_of, supervisor_options, has_page=has_page) as supervisor:
            session = await self._first(supervisor, AgentSeal(journal))
            source = self._source if session is None else await self._as_stored(session)
            page = _page_of(journal)
            has_samples = self._options.has_samples
            self._terminal.show(
                greeting(agentrail.__version__, source, page, network, has_samples=has_samples, is_shared=is_shared)
            )
            self._terminal.show([line(f"  {problem}", Tone.BAD) for problem in self._own_commands.problems])
            status_line = StatusLine(await self._own_command(), self._terminal, source.folder)
            is_well, offered = True, ""
            while True:
                is_new = session is None
                if session is None:
                    session = await supervisor.spawn(sealed_source.id, new_name(), labels=[sealed_source.label])
                commands = ConsoleCommands(
                    session,
                    self._terminal,
                    supervisor,
                    self._source.label,
                    Path(self._source.folder),
                    partial(shared_host.find_page, journal),
                    self._own_commands.commands,
                )
                past = None if is_new else await _end_of(session)
                changes = await self._changes_of(session, is_new=is_new)
                console = Console(session, self._terminal, commands, past, self._history, changes, status_line)
                is_well = await console.run(offered) and is_well
                offered = commands.next_text
                if is_new and not console.has_prompted:
                    await supervisor.delete(session.id)
                if commands.next_id is None:
                    return is_well
                session = supervisor.session(commands.next_id) if commands.next_id else None

    async def _own_command(self) -> str:
        """Return the command of the status line, of the user's own settings; empty if there is none to run."""
        try:
            return (await trio.to_thread.run_sync(read_user_settings)).status_line if self._terminal.keys else ""
        except BadInputError as error:
            self._terminal.show((line(f"  {error}", Tone.BAD),))
            return ""

    async def _changes_of(self, session: RemoteSession, *, is_new: bool) -> FileChanges:
        """Return what reads the files that calls of *session* would change; an agent of a file may work elsewhere."""
        source = self._source if is_new else await self._as_stored(session)
        return FileChanges(None if source.file else Path(source.folder))

    async def _as_stored(self, session: RemoteSession) -> AgentSource:
        """Return what the agent of a stored session is made of, with the mode that it has now."""
        detail = await session.detail()
        source = AgentSource.read(detail.agent) or self._source
        return source.but(mode=mode_labelled(detail.labels) or source.mode)

    async def _first(self, supervisor: RemoteSupervisor, seal: AgentSeal) -> RemoteSession | None:
        """Return the session to begin with, `None` for a new one; raise `BadInputError` if it does not exist."""
        session_id = self._options.session
        if session_id == LAST:
            sessions = await last_used(supervisor, self._source.label)
            last = await trio.to_thread.run_sync(first_known, seal, sessions)
            if last is None:
                raise BadInputError(f"--continue: {NONE_BEGUN if sessions else NONE_YET}")
            return await self._changed(supervisor.session(last.session_id))
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
