"""What `chat` calls its sessions, which have longer ids in the journal."""

from __future__ import annotations

from agentrail.api.public_ids import SessionName, read_internal
from agentrail.host.authentication.authenticators import LOCAL


def id_of_chat(name: str) -> str:
    """Return the id in the journal of the session that `chat` calls *name*."""
    return SessionName(LOCAL.tenant, LOCAL.user, name.removeprefix(f"{LOCAL.user}.")).internal


def name_in_chat(session_id: str) -> str:
    """Return what `chat` calls a session of the journal; its id if it is none of `chat`."""
    session_name = read_internal(session_id)
    is_ours = session_name is not None and (session_name.tenant, session_name.user) == (LOCAL.tenant, LOCAL.user)
    return session_name.name if session_name is not None and is_ours else session_id
