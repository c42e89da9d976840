"""`agentrail replay`: walks through the records of a stored session; nothing of it is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, cast

import trio

from agentrail.adapters.journals.journal_places import JournalPlace
from agentrail.cli.exit_status import DONE, FAILED, json_line, tell
from agentrail.cli.screen import clean, clipped, date_and_time, one_line
from agentrail.cli.stored_sessions import read_session
from agentrail.core.vocabulary.state import State
from agentrail.core.vocabulary.tool_calls import CallList
from agentrail.errors import UnknownRecord
from agentrail.insight.field_changes import Moment, at
from agentrail.insight.lanes import TimelineRow, timeline
from agentrail.values.json import JsonObject
from agentrail.values.messages import History

WIDTH: Final = 160
"""Columns of a line."""


def main(session: str, record: int | None, journal: JournalPlace | None, *, as_json: bool) -> int:
    """Print the records of the stored *session*, or only *record* with its state, and return the exit status."""
    records = trio.run(read_session, journal, session)
    if records is None:
        return FAILED
    try:
        moment = None if record is None else at(records, record)
    except UnknownRecord:
        tell(f"agentrail: there is no record {record}; the session has {len(records)}, and they begin with 1")
        return FAILED
    rows = timeline(records if moment is None else records[: moment.record.number]).rows
    for row in rows if moment is None else rows[-1:]:
        for line in _lines(row, moment) if not as_json else (json_line(_as_json(row, moment)),):
            print(line)
    return DONE


# For a person


def _lines(row: TimelineRow, moment: Moment | None) -> Iterator[str]:
    """Yield the lines that are printed for a person."""
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
    if moment is None:
        return
    yield "\nchanged:"
    for change in moment.changes:
        yield _line(change.field, f"{_brief(change.before)} → {_brief(change.after)}")
    yield "\nstate:"
    yield from (_line(name, text) for name, text in _fields_of(moment.state))


def _line(name: str, text: str) -> str:
    return f"    {clipped(one_line(clean(f'{name}: {text}')), WIDTH)}"


def _fields_of(state: State) -> Iterator[tuple[str, str]]:
    """Yield the fields of *state* that are not empty, each with its value in brief."""
    for name in State.__struct_fields__:
        value: object = getattr(state, name)
        if value:
            yield name, _brief(value)


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


def _as_json(row: TimelineRow, moment: Moment | None) -> JsonObject:
    """Return a row as JSON; with *moment*, also what changed and the state."""
    return {
        "record": row.record,
        "at_ms": row.at_ms,
        "turn": row.turn,
        "round": row.round,
        "input": row.input,
        "by": row.by,
        "before": row.before.value,
        "after": row.after.value,
        "hooks": [
            {"hook": run.hook, "verdict": run.verdict.value, "by": run.by, "sentence": run.sentence}
            for run in row.hooks
        ],
        "effects": row.effects,
        "events": [type(event).__name__ for event in row.events],
        "redacted": row.is_redacted,
        **({} if moment is None else _moment_as_json(moment)),
    }


def _moment_as_json(moment: Moment) -> JsonObject:
    return {
        "changes": [
            {"field": change.field, "before": _brief(change.before), "after": _brief(change.after)}
            for change in moment.changes
        ],
        "state": dict(_fields_of(moment.state)),
    }
