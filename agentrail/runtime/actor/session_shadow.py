"""`begin_shadow`: begins to ask the plugins in the shadow of a session that has just started, come back or woken."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrail.runtime.actor.session import Session
    from agentrail.runtime.diagnosis.shadows import Shadow


def begin_shadow(session: Session) -> Shadow:
    """Begin the shadow of *session* in a task of its own, and return it."""
    from agentrail.runtime.diagnosis.shadows import Shadow, Shadows  # noqa: PLC0415 - few sessions have one

    shared, code = session.shared, session.code
    if shared.shadows is None:
        shared.shadows = Shadows(shared.listener)
        shared.listener = shared.shadows.listen
    shadow = Shadow(session.session_id, code.shadow, code.hook_runner, session.records.head, shared.clock)
    shared.shadows.begin(session.session_id, shadow)
    follow = partial(shadow.run, session.records.read, session.events.publish_ephemeral)
    shared.nursery.start_soon(follow, name=f"shadow ({session.session_id})")
    return shadow
