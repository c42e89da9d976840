"""`agentrail evals add`: makes a case of a turn of a stored session, and adds it to a file of cases."""

from __future__ import annotations

from pathlib import Path

import trio

from agentrail.adapters.journals.journal_addresses import JournalAddress
from agentrail.cli.output.exit_status import DONE
from agentrail.cli.stored.stored_sessions import existing_journal, stored_id, stored_records
from agentrail.evals import Case, Dataset
from agentrail.journals import export_session


def main(session: str, turn: int, to: Path, journal: JournalAddress | None, case_name: str | None) -> int:
    """Add the case of a *turn* of the stored *session* to the file *to*, and return the exit status."""
    case = trio.run(_add, session, turn, to, journal, case_name or "")
    print(f"{case.name} is in {to}; it expects what the agent answered then: correct that, if it was wrong")
    return DONE


async def _add(session: str, turn: int, to: Path, address: JournalAddress | None, name: str) -> Case:
    """Write the case, and beside its file an export of the session."""
    async with existing_journal(address) as journal:
        session_id = await stored_id(journal, session)
        records = await stored_records(journal, session_id)
        export = f"{session_id}.session.jsonl"
        case = Case.of(records, turn, name=name, past=export)
        cases = Dataset.read(to).cases if await trio.Path(to).exists() else ()
        dataset = Dataset([*cases, case], to.parent)
        if case.past is not None:
            await export_session(journal, session_id, to.parent / export)
        dataset.write(to)
    return case
