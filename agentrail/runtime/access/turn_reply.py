"""`turn_reply`: how a turn of a session ends, for a caller who did not send its prompt, or who waits for it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.api.session_values import RUNNING, Reply, Until
from agentrail.errors import AgentrailError, UsageError
from agentrail.errors.agentrail_error import fresh
from agentrail.runtime.inbox.letter import ReplyOutcome, ReplySlot
from agentrail.runtime.inbox.replies import ReadRecords, is_open, last_turn, next_turn, outcome_of

if TYPE_CHECKING:
    from agentrail.core.vocabulary.state import State
    from agentrail.runtime.actor.session import Session


async def turn_reply(session: Session, ref: str | None, until: Until) -> Reply:
    """Return how the turn of the prompt *ref* ends, or has ended, or that it waits for a person.

    Without *ref*, it is the turn that is open, or else that of the next queued prompt, or else the last one.
    """
    records = session.records
    records.check_kept()  # another session may have the id by now
    if ref is None:
        ref = next_turn(session.state) or await last_turn(records.read, records.head)
    if ref is None:
        raise UsageError("no-turn", session.session_id)
    outcome = await _outcome(session, ref, until)
    if isinstance(outcome, AgentrailError):
        raise fresh(outcome)
    return outcome


async def turn_reply_now(session: Session, ref: str | None) -> Reply:
    """Do as `turn_reply` without waiting: of a turn that goes on, or has not begun, the reason is `running`."""
    records = session.records
    records.check_kept()
    if ref is None:
        ref = next_turn(session.state) or await last_turn(records.read, records.head)
    if ref is None:
        raise UsageError("no-turn", session.session_id)
    outcome: ReplyOutcome | None = None
    for _ in range(2):  # the turn may have ended while older records were read: then its end is found the next time
        outcome = await session.past(ref, "rest")
        if outcome is not None or is_open(session.state, ref):
            break
    else:
        raise UsageError("unknown-turn", session.session_id, ref)
    if isinstance(outcome, AgentrailError):
        raise fresh(outcome)
    return outcome or Reply(ref, RUNNING)


async def stored_reply(
    session_id: str, state: State, read_records: ReadRecords, head: int, ref: str | None
) -> Reply | None:
    """Return how a turn of a session in *state* has ended, by its records up to number *head*, without starting it.

    Return `None` if a turn is open or waits in the queue: what it does, the running session alone can tell.
    """
    if next_turn(state) is not None:
        return None
    ref = ref or await last_turn(read_records, head)
    if ref is None:
        raise UsageError("no-turn", session_id)
    outcome = await outcome_of(state, ref, read_records, head, tuple)
    if outcome is None:
        raise UsageError("unknown-turn", session_id, ref)
    if isinstance(outcome, AgentrailError):
        raise fresh(outcome)
    return outcome


async def _outcome(session: Session, ref: str, until: Until) -> ReplyOutcome:
    """Wait for the outcome of the turn of *ref*; raise `UsageError` if the session has had no such prompt."""
    slot = ReplySlot(None, until)
    session.waiters.add(ref, slot)  # before records are read, so that an end meanwhile is not missed
    try:
        outcome = await session.past(ref, until)
        if outcome is None and not (slot.settled or is_open(session.state, ref)):
            raise UsageError("unknown-turn", session.session_id, ref)
        if outcome is not None or slot.settled:
            return outcome or await slot.wait()
        with session.shared.turn_waits.on(session.session_id):
            return await slot.wait()
    finally:
        session.waiters.leave(ref, slot)
