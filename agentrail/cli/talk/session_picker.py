"""`pick_session`: has the person at the terminal choose the session that `chat` goes on with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import tell
from agentrail.cli.stored.session_rows import session_rows
from agentrail.cli.stored.stored_sessions import last_chats, waiting_ids
from agentrail.cli.talk.console_commands import INDENT, MOST_LISTED, WHICH
from agentrail.cli.talk.terminal import Terminal
from agentrail.ports.journal import StoredSession
from agentrail.runtime.shared.clock import Clock

NONE_YET: Final = "no session of this folder is kept yet; without it, `agentrail chat` begins one"

NO_KEYS: Final = "--resume: nobody can choose here: `agentrail chat --resume NAME` goes on with one of these"


def pick_session(path: Path | None, label: str, terminal: Terminal) -> str | None:
    """Return the id of a session in the journal *path* that has *label*, as the person chooses; `None` if it is none.

    Raise `BadInputError` if there is none to choose from, or no key can be read; then they are listed before.
    """
    return trio.run(_pick, SqliteJournal(path), label, terminal)


async def _pick(journal: SqliteJournal, label: str, terminal: Terminal) -> str | None:
    sessions, waiting = await _listed(journal, label)
    if not sessions:
        raise BadInputError(f"--resume: {NONE_YET}")
    rows = session_rows(sessions, Clock().now_ms(), terminal.look.room - INDENT, waiting=waiting)
    if not terminal.keys:
        for row in rows:
            tell(row)
        raise BadInputError(NO_KEYS)
    async with terminal.opened():
        index = await terminal.choose(WHICH, rows)
    return None if index is None else sessions[index].session_id


async def _listed(journal: SqliteJournal, label: str) -> tuple[list[StoredSession], frozenset[str]]:
    try:
        sessions = (await last_chats(journal, label))[:MOST_LISTED] if journal.path.exists() else []
        return sessions, await waiting_ids(journal, sessions)
    finally:
        await journal.close()  # noqa: ASYNC102 - nothing cancels it: Ctrl-C raises `KeyboardInterrupt`
