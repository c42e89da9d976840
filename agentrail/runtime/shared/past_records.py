"""Reads records of a stored session, page by page, and finds where the turn of a prompt began."""

from __future__ import annotations

from collections.abc import Sequence

from agentrail.errors import BadRecord, UsageError
from agentrail.ports.journal import Journal, Record
from agentrail.values.events.envelope import Event
from agentrail.values.events.life import PromptReceived

PAGE = 100
"""How many records are read at once, before other tasks may run."""


async def record_before(journal: Journal, origin: str, ref: str) -> int:
    """Return the number of the record before the one with which the turn of a prompt began."""
    after = 0
    while records := await intact(journal, origin, after):
        if isinstance(records, BadRecord):
            raise records
        for record in records:
            if any(isinstance(event, PromptReceived) and event.ref == ref for event in events_of(record)):
                return record.number - 1
        after = records[-1].number
    raise UsageError("unknown-turn", origin, ref)


async def intact(journal: Journal, origin: str, after: int) -> Sequence[Record] | BadRecord:
    """Return the next page of records, up to one that is damaged; the damage if it is the next."""
    try:
        return await journal.read(origin, after, PAGE)
    except BadRecord as damage:
        _, number, _ = damage.args
        intact = number - after - 1
        if not 0 < intact < PAGE:
            return damage
    return await journal.read(origin, after, intact)


def events_of(record: Record) -> list[Event]:
    """Return the events of a record."""
    return [envelope.event for envelope in record.events]
