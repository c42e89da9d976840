"""`RequestNote`: what the log and the figures say of one request, beside its line."""

from __future__ import annotations

import re
import secrets
from typing import Final

from attrs import define, field

REQUEST_ID: Final = "x-request-id"
"""Header with the id of a request: each answer has it, and a request that comes by a named proxy may."""

_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


def is_request_id(text: str) -> bool:
    """Whether *text* may be the id of a request: it stands in logs as it is."""
    return _ID.fullmatch(text) is not None


def _new_id() -> str:
    return secrets.token_hex(16)


@define
class RequestNote:
    """What is known of a request besides what it asks for; whoever finds out more adds it while it is answered."""

    id: str = field(factory=_new_id)
    """Id of the request; the host has made it, unless a named proxy has said it."""
    tenant: str = ""
    """Id of the tenant; empty as long as nobody knows whose request it is."""
    user: str = ""
    """Id of the user."""
    route: tuple[str, str] = ("", "")
    """Method and path of the route that the request means; empty as long as nobody knows it, or if there is none."""
