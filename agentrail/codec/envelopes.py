"""Writes and reads lists of envelopes; one that continues the envelope before it is written as its event alone.

The events of one step share session, time, turn and round, and nearly all journal records hold several events. Writing
the shared fields each time would make up most of the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from agentrail.codec.leaves import Rule, wrong
from agentrail.codec.lines import Writer
from agentrail.codec.misfit import TAG, MisfitError
from agentrail.codec.states import MAPPINGS
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.plugins import UnknownEvent


def row_writer(write_envelope: Writer, write_event: Writer, at: str) -> Writer:
    """Return the function that writes a tuple of envelopes; *at* is the tuple's path, for errors."""

    def write_row(found: object) -> str:
        if type(found) is not tuple:
            raise wrong(at, found, "a tuple")
        written: list[str] = []
        before: Envelope | None = None
        try:
            for envelope in cast("tuple[Envelope, ...]", found):
                if before is not None and _goes_on(envelope, before):
                    written.append(f'{{"event":{write_event(envelope.event)}}}')
                else:
                    written.append(write_envelope(envelope))
                before = envelope
        except MisfitError as misfit:
            misfit.under(f"{at}[{len(written)}]")
            raise
        return f"[{','.join(written)}]"

    return write_row


def _goes_on(envelope: Envelope, before: Envelope) -> bool:
    return (
        type(envelope) is Envelope
        and envelope.seq == before.seq + 1
        and envelope.at == before.at
        and envelope.turn == before.turn
        and envelope.round == before.round
        and envelope.n == before.n
        and envelope.session_id == before.session_id
        and envelope.path == before.path
    )


def row_reader(read_envelope: Rule, read_event: Rule, at: str) -> Rule:
    """Return the function that reads what `row_writer` wrote; *at* is the list's path, for errors."""

    def read_row(found: object, _: object = None) -> object:
        if type(found) is not list and type(found) is not tuple:
            raise wrong(at, found, "an array")
        made: list[Envelope] = []
        try:
            for each in cast("list[object]", found):
                if made and _is_alone(each):
                    event = read_event(cast("Mapping[str, object]", each)["event"])
                    made.append(_behind(made[-1], cast("Event", event)))
                else:
                    made.append(cast("Envelope", read_envelope(each)))
        except MisfitError as misfit:
            misfit.under(f"{at}[{len(made)}]")
            raise
        return tuple(made)

    return read_row


def _is_alone(found: object) -> bool:
    """Whether *found* is an event without all that says where it happened."""
    if type(found) is not dict and type(found) not in MAPPINGS:
        return False
    given = cast("Mapping[str, object]", found)
    return len(given) == 1 and "event" in given


def _behind(before: Envelope, event: Event) -> Envelope:
    return Envelope(
        before.session_id, before.seq + 1, before.n, before.at, before.turn, before.round, event, before.path
    )


def foreseen(given: dict[str, object], read_event: Rule) -> dict[str, object]:
    """Return the known fields of an envelope of a newer version; an event that cannot be read becomes `UnknownEvent`.

    The result is still JSON, to be read like an envelope of this version.
    """
    event = given.get("event")
    try:
        read_event(event)
    except MisfitError:
        body = dict(cast("Mapping[str, object]", event)) if isinstance(event, Mapping) else {}
        kind = body.pop(TAG, None)
        if type(kind) is not str:
            raise
        given["event"] = {TAG: UnknownEvent.__name__, "kind": kind, "body": body}
    return {key: item for key, item in given.items() if key == TAG or key in Envelope.__struct_fields__}
