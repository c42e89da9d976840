"""Reads the response with which a host, or something else, refuses the handshake of a WebSocket."""

from __future__ import annotations

from agentrail.errors import BadText
from agentrail.remote.transport.client_socket import Rejection
from agentrail.remote.transport.host_frames import RefusalFrame, read_host_frame
from agentrail.values.json import JsonObject
from agentrail.wire import problems


def document_in(rejection: Rejection) -> JsonObject | None:
    """Return the problem document in a response; `None` if there is none."""
    if rejection.media != problems.MEDIA_TYPE:
        return None
    try:
        found = read_host_frame(f'{{"problem":{rejection.body.decode(errors="replace")}}}')
    except BadText:
        return None
    return found.problem if isinstance(found, RefusalFrame) else None


def said_by(rejection: Rejection) -> str:
    """Return what a response without a problem document says, in words."""
    return f"it answers the handshake of a WebSocket with status {rejection.status}"
