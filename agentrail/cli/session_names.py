"""What `chat` calls its sessions, which have longer ids in the journal."""

from __future__ import annotations

import secrets
import shlex
from pathlib import Path
from typing import Final

from agentrail.adapters.journals.journal_addresses import JournalAddress
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.api.public_ids import beginning
from agentrail.host.authentication.authenticators import LOCAL

STORED: Final = beginning(LOCAL.tenant, LOCAL.user)
"""What the ids of these sessions begin with in the journal."""

OWN: Final = f"{LOCAL.user}."
"""What they begin with as the host shows them."""


def journal_option(journal: JournalAddress | None) -> str:
    """Return the option with which `chat` finds *journal*, after a space; nothing for that of the user, or of a server.

    `chat` does not open the journal of a server.
    """
    if not isinstance(journal, Path) or SqliteJournal(journal).path == SqliteJournal().path:
        return ""
    return f" --journal {shlex.quote(str(SqliteJournal(journal).path))}"


def resume_command(session_id: str, journal: JournalAddress | None) -> str:
    """Return the command line that goes on with a session of *journal*, by default the user's."""
    return f"`agentrail chat --resume {name_in_chat(session_id)}{journal_option(journal)}`"


def new_name() -> str:
    """Return a name for a new session: short, for people who type it."""
    return secrets.token_hex(4)


def id_of_chat(name: str) -> str:
    """Return the id in the journal of the session that `chat` shows as *name*."""
    return STORED + name.removeprefix(OWN)


def name_in_chat(session_id: str) -> str:
    """Return the name that `chat` shows for a session; the id itself if the session was not made by `chat`."""
    return session_id.removeprefix(STORED)
