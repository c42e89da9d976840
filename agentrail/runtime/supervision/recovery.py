"""Rebuilding a session of an earlier process: its state from the journal, its code from the program."""

from __future__ import annotations

from typing import Final

from agentrail.core.machine.forking import branch
from agentrail.core.vocabulary.inputs import SessionBranched, SessionReturned
from agentrail.core.vocabulary.state import Phase, State
from agentrail.errors import (
    BadRecord,
    Fenced,
    SessionCrashed,
    SessionForgotten,
    SessionNotAlive,
    SessionNotStored,
    UnknownRecord,
)
from agentrail.hooks.ruling import Section
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import Journal, opening_of
from agentrail.runtime.actor.journal_log import PAGE, rebuilt
from agentrail.runtime.actor.loop import Session
from agentrail.runtime.resources import FindCode, SessionCode, SharedServices
from agentrail.values.events.tools import ToolExecutionStart
from agentrail.values.json import canonical
from agentrail.values.tools import EffectClass

MOST_SHOWN: Final = 200
"""The most characters of a call's arguments that the list of calls left behind by a fork shows."""


async def brought_back(
    shared: SharedServices, session_id: str, find_code: FindCode, *, take_over: bool, is_read: bool
) -> tuple[Session, SessionReturned]:
    """Claim and rebuild a stored session, and return it with its first input; no record is written yet.

    Without *is_read*, read its opening first.
    """
    if not is_read:
        await read_opening(shared, session_id)  # raise for a missing or damaged session before claiming it
    reach("OPENING_READ")
    claim = await shared.leases.claim(session_id, take_over=take_over)
    reach("CLAIMED")
    found = await rebuilt(shared.journal, session_id)
    state, number = found.state, found.number
    reach("REBUILT")
    if number != claim.head:
        raise Fenced(session_id, claim.epoch)
    if state.phase is Phase.ENDED:
        raise SessionNotAlive(session_id, state.stopping or "stopped")
    if state.crashed is not None:
        raise SessionCrashed(session_id, state.crashed)
    state, code, returned = await find_code(state, number)
    reach("CODE_FOUND")
    if code.section_files is not None or state.sections:
        returned = returned.but(sections=await _changed_sections(state, code))
    session = Session(state, claim, shared, code, find_code, returned=True)
    session.records.returned(found)
    if code.sources:
        session.performer.late.expect()
    return session, returned


async def _changed_sections(state: State, code: SessionCode) -> tuple[Section, ...]:
    """Return the sections of files of the specification that are not as in *state*; those that are gone have no text.

    Sections that a plugin has set are left alone.
    """
    files = () if code.section_files is None else await code.section_files.sections(state.session_id, tell=False)
    now = {section.key: section for section in files}
    before = {section.key: section for section in state.sections}
    gone = [section.but(text=None) for section in state.sections if not section.by and section.key not in now]
    changed = [
        section
        for key, section in now.items()
        if key not in before or (not before[key].by and before[key].text != section.text)
    ]
    return (*gone, *changed)


async def read_opening(shared: SharedServices, session_id: str) -> State:
    """Return the state with which a stored session was spawned."""
    first = await shared.journal.read(session_id, 0, 1)
    if not first:
        raise SessionNotStored(session_id) if shared.forget is None else SessionForgotten(session_id)
    return opening_of(first[0])


async def stored_state(shared: SharedServices, session_id: str) -> State:
    """Return the state of a stored session after its last record; it is neither claimed nor started."""
    await read_opening(shared, session_id)  # raises if it is not stored
    return (await rebuilt(shared.journal, session_id)).state


async def forked(
    shared: SharedServices, origin: str, at: int | None, session_id: str, find_code: FindCode
) -> tuple[State, SessionCode, SessionBranched]:
    """Return state, code and first input of a fork of *origin* after record *at* (the last one if `None`)."""
    if at is not None and at < 1:
        raise UnknownRecord(origin, at)
    await read_opening(shared, origin)  # raises if it does not exist
    state, number, *_ = await rebuilt(shared.journal, origin, at)
    if at is not None and number != at:
        raise UnknownRecord(origin, at)
    left = await _left_behind(shared.journal, origin, number, state)
    state, code, now = await find_code(branch(state, session_id), number)
    return (
        state,
        code,
        SessionBranched(origin, number, left, now.seats, now.tools, now.gone, now.revision, now.options),
    )


async def _left_behind(journal: Journal, origin: str, after: int, state: State) -> tuple[str, ...]:
    """Return the calls that *origin* started after the fork and that cannot be undone, as text."""
    calls: dict[str, str] = {}
    most = PAGE
    while True:
        try:
            records = await journal.read(origin, after, most)
        except BadRecord as damage:
            _, number, _ = damage.args
            whole = number - after - 1
            if not 0 < whole < most:
                return (*calls.values(), f"whatever stood from record {after + 1} on: {damage}")
            most = whole
            continue
        if not records:
            return tuple(calls.values())
        after = records[-1].number
        for event in (envelope.event for record in records for envelope in record.events):
            if isinstance(event, ToolExecutionStart) and not _only_reads(state, event.name):
                calls[event.call_id] = f"{event.name} {canonical(event.args)[:MOST_SHOWN]}"


def _only_reads(state: State, tool: str) -> bool:
    attached = state.tools.get(tool)
    return attached is not None and attached.spec.effect is EffectClass.PURE
