"""`agentrail sessions replay`: walks through the records of a stored session; nothing of it is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, cast

import trio

from agentrail.adapters.journals.journal_addresses import JournalAddress
from agentrail.api.public_ids import WHOLE_JOURNAL
from agentrail.cli.output.exit_status import DONE, FAILED, tell, view_line
from agentrail.cli.output.screen import clean, clipped, date_and_time, one_line
from agentrail.cli.stored.stored_sessions import read_session
from agentrail.core.vocabulary.state import State
from agentrail.core.vocabulary.tool_calls import CallList
from agentrail.errors import UnknownRecord
from agentrail.insight.field_changes import Moment, at
from agentrail.insight.lanes import TimelineRow, timeline
from agentrail.ports.journal import Record
from agentrail.values.messages import History

WIDTH: Final = 160
"""Columns of a line."""


def main(session: str, record: int | None, journal: JournalAddress | None, *, as_json: bool) -> int:
    """Print the records of the stored *session*, or only *record* with its state, and return the exit status."""
    records = trio.run(read_session, journal, session)
    if records is None:
        return FAILED
    try:
        moment = None if record is None else at(records, record)
    except UnknownRecord:
        tell(f"agentrail: there is no record {record}; the session has {len(records)}, and they begin with 1")
        return FAILED
    for line in (_views if as_json else _lines)(records, moment):
        print(line)
    return DONE


# For a person


def _lines(records: Sequence[Record], moment: Moment | None) -> Iterator[str]:
    """Yield the lines that are printed for a person."""
    if moment is None:
        for row in timeline(records).rows:
            yield from _row_lines(row)
        return
    yield from _row_lines(timeline(records[: moment.record.number]).rows[-1])
    yield "\nchanged:"
    for change in moment.changes:
        yield _line(change.field, f"{_brief(change.before)} → {_brief(change.after)}")
    yield "\nstate:"
    for name in State.__struct_fields__:
        value: object = getattr(moment.state, name)
        if value:
            yield _line(name, _brief(value))


def _row_lines(row: TimelineRow) -> Iterator[str]:
    phases = row.after.value if row.before is row.after else f"{row.before.value} → {row.after.value}"
    by = f" by {row.by}" if row.by else ""
    turn = f", turn {row.turn}, round {row.round}" if row.turn else ""
    note = " (redacted)" if row.is_redacted else ""
    what = one_line(clean(f"record {row.record}: {row.input}{by}: {phases}{turn}{note}"))
    yield f"{date_and_time(row.at_ms)}  {what}"
    for run in row.hooks:
        yield f"    {run.hook}: {one_line(clean(run.sentence))}"
    if row.effects:
        yield f"    effects: {', '.join(row.effects)}"
    if row.events:
        yield f"    events: {', '.join(type(event).__name__ for event in row.events)}"


def _line(name: str, text: str) -> str:
    return f"    {clipped(one_line(clean(f'{name}: {text}')), WIDTH)}"


def _brief(value: object) -> str:
    """Return *value* as a text; of what may be long, only how many there are, or their names."""
    match value:
        case History():
            return f"{len(value)} messages"
        case CallList():
            return f"{len(value)} calls"
        case Mapping():
            return ", ".join(map(str, cast("Mapping[object, object]", value)))
        case Enum():
            return str(value.value)
        case _:
            return repr(value)


# As JSON


def _views(records: Sequence[Record], moment: Moment | None) -> Iterator[str]:
    """Yield what a host answers: each row of the timeline, or the state at *moment*."""
    from agentrail.host.operations.record_views import state_view, timeline_view  # noqa: PLC0415 - the interface of the host

    if moment is not None:
        yield view_line(state_view(moment, len(records), WHOLE_JOURNAL, is_whole=True))
        return
    yield from map(view_line, timeline_view(timeline(records), 0, len(records), WHOLE_JOURNAL).rows)
