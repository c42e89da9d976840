"""`agentrail evals add`: makes a case of a turn of a stored session, and adds it to a file of cases."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, count
from pathlib import Path
from typing import Final

import trio
from msgspec.structs import replace

from agentrail.adapters.journals.journal_addresses import JournalAddress
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import DONE
from agentrail.cli.session_names import name_in_chat
from agentrail.cli.stored.stored_sessions import existing_journal, stored_id, stored_records
from agentrail.evals import Case, Dataset
from agentrail.journals import export_session

PAST: Final = "past.jsonl"
"""Stands for the file of the past, which is called after the case."""


def main(session: str, turn: int, to: Path, journal: JournalAddress | None, case_name: str | None) -> int:
    """Add the case of a *turn* of the stored *session* to the file *to*, and return the exit status."""
    case = trio.run(_add, session, turn, to, journal, case_name or "")
    print(f"{case.name} is in {to}; it expects what the agent answered then: correct that, if it was wrong")
    return DONE


def _free_name(name: str, used_names: Collection[str]) -> str:
    """Return *name*, with a number behind it if it is among *used_names*."""
    numbered = (f"{name}-{number}" for number in count(2))
    return next(free for free in chain([name], numbered) if free not in used_names)


async def _add(session: str, turn: int, to: Path, address: JournalAddress | None, name: str) -> Case:
    """Write the case, and beside its file an export of the session."""
    async with existing_journal(address) as journal:
        session_id = await stored_id(journal, session)
        records = await stored_records(journal, session_id)
        cases = Dataset.read(to).cases if await trio.Path(to).exists() else ()
        case = Case.of(records, turn, name=name, past=PAST)
        source = f"{name_in_chat(session_id)}:{turn}"
        if any(other.source == source for other in cases):
            raise BadInputError(f"{to} has the case of {source} already; remove its line to add it anew")
        case = replace(case, name=name or _free_name(case.name, {other.name for other in cases}), source=source)
        if case.past is not None:
            case = replace(case, past=replace(case.past, file=f"{case.name}.past.jsonl"))
        dataset = Dataset([*cases, case], to.parent)
        if case.past is not None:
            await export_session(journal, session_id, to.parent / case.past.file)
        dataset.write(to)
    return case
