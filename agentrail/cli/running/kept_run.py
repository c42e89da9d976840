"""The session of a run that is kept: a new one in the user's journal, or one to go on with, by the client of `chat`.

It is imported only if a run is to be kept: most runs need no host.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import NO_CONFIG, AgentSource, profile_of
from agentrail.cli.host.shared_host import open_shared
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.running.run_options import RunOptions
from agentrail.cli.session_names import name_in_chat, new_name
from agentrail.cli.settings.setting_order import chosen_journal, chosen_mode, chosen_model, chosen_page, chosen_sandbox
from agentrail.cli.stored.session_question import ask_about_session
from agentrail.cli.trust.settings_code import supervisor_options
from agentrail.cli.trust.trust_store import settings_of
from agentrail.errors import BadProfile, UnknownSession
from agentrail.remote.remote_session import RemoteSession
from agentrail.remote.remote_supervisor import RemoteSupervisor


class KeptRun:
    """Where the session of a run is kept, and what its agent is made of."""

    def __init__(self, options: RunOptions) -> None:
        """Create it; raise `BadInputError` if the agent cannot be made, or the settings of the folder be used."""
        self._options = options
        folder = (options.folder or Path()).resolve()
        has_settings = options.has_config and not options.agent
        settings = settings_of(folder) if has_settings else None
        self.source = _source(options, folder).but(
            model=(options.model or "") if options.agent else chosen_model(options.model, settings),
            mode="" if options.agent else chosen_mode(None, settings) or "",
            sandbox=chosen_sandbox(options.sandbox, settings),
        )
        """What the agent of a new session is made of."""
        self._journal = chosen_journal(options.journal, settings)
        self._supervisor_options = supervisor_options(settings)
        self._has_page = chosen_page(settings, option=True)
        if options.resume is not None:
            ask_about_session(self._journal, options.resume)
        else:
            try:
                self.source.check()
            except BadProfile as error:
                raise BadInputError(f"--agent {error.args[0]}: {error.args[1]}") from None

    @asynccontextmanager
    async def session(self, title: str) -> AsyncGenerator[RemoteSession, None]:
        """Open the session that the options name, or a new one with *title*; it goes on when the block ends."""
        async with open_shared(
            self._journal, profile_of, self._supervisor_options, has_page=self._has_page
        ) as supervisor:
            yield await self._opened(supervisor, title)

    async def _opened(self, supervisor: RemoteSupervisor, title: str) -> RemoteSession:
        name = self._options.resume
        if name is None:
            sealed_source = await trio.to_thread.run_sync(AgentSeal(self._journal).begun, self.source)
            return await supervisor.spawn(sealed_source.id, new_name(), title=title, labels=[sealed_source.label])
        session = supervisor.session(name_in_chat(name))
        try:
            async with session.subscribe():  # brings it back, with the calls that wait: a look at it would not
                pass
        except UnknownSession:
            problem = f"--resume: there is no session {name!r}; `agentrail sessions` lists those that are kept"
            raise BadInputError(problem) from None
        if self._options.model is not None:
            await session.switch_model(self._options.model)
        return session


def _source(options: RunOptions, folder: Path) -> AgentSource:
    limits = {
        key: str(limit)
        for key in ("max_usd", "max_rounds", "max_seconds")
        if (limit := getattr(options, key)) is not None
    }
    return AgentSource(
        str(folder),
        "" if options.agent is None else str(options.agent.file.resolve()),
        "" if options.agent is None else options.agent.name,
        config="" if options.has_config else NO_CONFIG,
        **limits,
    )
