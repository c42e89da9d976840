"""`agentrail console`: the page of a host on a stored journal alone, without the code of its agents; it only reads."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.journals.journal_addresses import JournalAddress, PlacedJournal, shown_address
from agentrail.adapters.journals.read_only import ReadOnlyJournal
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.api.limits import HostLimits
from agentrail.api.public_ids import WHOLE_JOURNAL
from agentrail.app import process
from agentrail.cli.exit_codes import WRONG_USAGE
from agentrail.cli.journal_file import open_journal
from agentrail.cli.output.exit_status import DONE, status_of_error, tell
from agentrail.errors import AgentrailError
from agentrail.host.authentication.authenticators import LocalToken
from agentrail.host.authentication.identity import Identity
from agentrail.host.host_server import Host
from agentrail.host.plugins.plugin_values import RequestContext
from agentrail.ports.journal import Journal

STOP_WITHIN: Final = 3.0
"""The most seconds that the program may take to end."""

READER: Final = Identity(WHOLE_JOURNAL, "you", frozenset({"observe", "operate"}))
"""Who has the key of the page."""

LIMITS: Final = HostLimits(requests_per_second=10_000.0, burst=10_000, drain_seconds=1.0)
"""One person at one machine has all of it."""


def main(journal: JournalAddress | None, port: int, evals: Path | None) -> int:
    """Show the journal in a browser until Ctrl-C, and return the exit status."""
    return process.run(partial(_show, journal, port, evals), stop_within=STOP_WITHIN) or DONE


async def _show(address: JournalAddress | None, port: int, evals: Path | None) -> int:
    async with open_journal(address) as journal:
        if isinstance(journal, SqliteJournal) and not journal.path.exists():
            tell(f"agentrail: there is no journal at {journal.path}; `agentrail console FILE` names another")
            return WRONG_USAGE
        try:
            await journal.sessions(limit=1)  # raises if the file is no journal, or damaged as a whole
            await _serve(journal, port, evals)
        except AgentrailError as error:  # no nursery here: it would wrap the error in a group
            return status_of_error(error)
    return DONE


async def _serve(journal: PlacedJournal, port: int, evals: Path | None) -> None:
    key = LocalToken(READER)
    async with reading_host(journal, key, evals).serving(port) as serving:
        print(f"agentrail shows {shown_address(journal)} at {serving.url}/{key.fragment}\nCtrl-C ends it.", flush=True)
        await trio.sleep_forever()


def reading_host(journal: Journal, key: LocalToken, evals: Path | None = None) -> Host:
    """Return a host that shows the sessions of *journal* to who has *key*, and runs none of them.

    *evals* is a folder with results of experiments, which it shows too.
    """
    return Host(_no_agent, authenticator=key, journal=ReadOnlyJournal(journal), limits=LIMITS, evaluations=evals)


def _no_agent(_: RequestContext) -> None:
    """Find no profile: no agent is run."""
