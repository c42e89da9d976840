"""A session that a process before this one had: its state from the records, its code from whoever resumes it."""

from __future__ import annotations

from agentrail.core.inputs import SessionReturned
from agentrail.core.state import Phase, State
from agentrail.errors import BadRecord, Fenced, SessionCrashed, SessionNotAlive, UnknownSession
from agentrail.ports.failpoints import Failpoint, reach
from agentrail.ports.journal import Journal
from agentrail.runtime.parts import House
from agentrail.runtime.rebuilding import rebuilt
from agentrail.runtime.session import Session
from agentrail.runtime.sleeping import Equip


async def brought_back(house: House, session_id: str, owner: str, equip: Equip) -> tuple[Session, SessionReturned]:
    """Return a stored session, ready to be run, and what it is to hear first; nothing is written."""
    opening = await opening_of(house.journal, session_id)
    reach(Failpoint.OPENING_READ)
    claim = await house.journal.claim(session_id, owner)
    reach(Failpoint.CLAIMED)
    state, number = await rebuilt(house.journal, session_id)
    reach(Failpoint.REBUILT)
    if number != claim.head:
        raise Fenced(session_id, claim.epoch)
    if state.phase is Phase.ENDED:
        raise SessionNotAlive(session_id, state.stopping or "stopped")
    if state.crashed is not None:
        raise SessionCrashed(session_id, state.crashed)
    state, outfit, returned = equip(state, opening, number)
    reach(Failpoint.CODE_FOUND)
    return Session(state, claim, house, outfit, equip, returned=True), returned


async def opening_of(journal: Journal, session_id: str) -> State:
    """Return what a stored session was spawned as."""
    first = await journal.read(session_id, 0, 1)
    if not first:
        raise UnknownSession(session_id)
    opening = first[0].opening
    if opening is None:
        raise BadRecord(session_id, first[0].number, "it does not say what the session was spawned as")
    return opening
