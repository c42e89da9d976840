"""`agentrail sessions why`: who decided about a call, a turn or an end of a stored session; nothing of it is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import trio

from agentrail.adapters.journals.journal_addresses import JournalAddress
from agentrail.api.public_ids import WHOLE_JOURNAL
from agentrail.cli.output.exit_status import DONE, FAILED, tell, view_line
from agentrail.cli.output.screen import clean, date_and_time, one_line
from agentrail.cli.stored.stored_sessions import read_session
from agentrail.insight.account import END, Account, number_or_id, why
from agentrail.ports.journal import Record
from agentrail.values.events import ResponseComplete

MOST_NAMED: Final = 10
"""The most calls that an error names, the last ones."""


def main(session: str, subject: str | None, journal: JournalAddress | None, *, as_json: bool) -> int:
    """Print who decided about *subject* of the stored *session*, and return the exit status."""
    records = trio.run(read_session, journal, session)
    if records is None:
        return FAILED
    account = why(records, number_or_id(subject or END))
    if not account.entries:
        tell(f"agentrail: {account.sentence}{_what_there_is(records)}")
        return FAILED
    for line in _views(account) if as_json else _lines(account):
        print(line)
    return DONE


def _what_there_is(records: Iterable[Record]) -> str:
    """Return which turns and calls could be named instead, for an error."""
    envelopes = [envelope for record in records for envelope in record.events]
    count = max((envelope.turn for envelope in envelopes), default=0)
    calls = [
        call.call_id
        for envelope in envelopes
        if isinstance(envelope.event, ResponseComplete)
        for call in envelope.event.message.calls
    ]
    last = ", ".join(f"`{call}`" for call in calls[-MOST_NAMED:])
    turns = "1 turn" if count == 1 else f"{count} turns"
    return f"; it has {turns}{f', and its last calls are {last}' if last else ' and no calls'}"


def _lines(account: Account) -> Iterator[str]:
    """Yield the lines that are printed for a person."""
    for entry in account.entries:
        yield f"{date_and_time(entry.at_ms)}  record {entry.record}: {one_line(clean(entry.sentence))}"
        if entry.explanation is not None:
            yield from (f"    {one_line(clean(step.sentence))}" for step in entry.explanation.steps)
    if len(account.entries) > 1:
        yield f"\nso: {one_line(clean(account.sentence))}"


def _views(account: Account) -> Iterator[str]:
    """Yield the lines of JSON, as a host answers them."""
    from agentrail.host.operations.record_views import account_view  # noqa: PLC0415 - it brings the interface of the host

    yield from map(view_line, account_view(account, WHOLE_JOURNAL, len(account.entries)).entries)
