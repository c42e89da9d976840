"""`begin_shadow`: begins to ask the plugins in the shadow of a session that has just started, come back or woken."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from agentrail.runtime.actor.journal_log import JournalLog
from agentrail.runtime.events.log import EventLog
from agentrail.runtime.resources import SessionCode, SharedServices

if TYPE_CHECKING:
    from agentrail.runtime.diagnosis.shadows import Shadow


def begin_shadow(
    session_id: str, shared: SharedServices, code: SessionCode, log: JournalLog, events: EventLog
) -> Shadow:
    """Begin the shadow of a session, whose records *log* reads, in a task of its own, and return it."""
    from agentrail.runtime.diagnosis.shadows import Shadow, Shadows  # noqa: PLC0415 - few sessions have one

    if shared.shadows is None:
        shared.shadows = Shadows(shared.listener)
        shared.listener = shared.shadows.listen
    shadow = Shadow(session_id, code.shadow, code.hook_runner, log.head, shared.clock)
    shared.shadows.begin(session_id, shadow)
    shared.nursery.start_soon(partial(shadow.run, log.read, events.publish_ephemeral), name=f"shadow ({session_id})")
    return shadow
