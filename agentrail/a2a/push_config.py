"""`PushConfig`: where a client wants to be told of a task, read strictly, and as both protocols have it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from agentrail.a2a.a2a_errors import INVALID_PARAMS, A2aError
from agentrail.a2a.sent_message import objects_in, text_in
from agentrail.a2a.shapes import Shape
from agentrail.models import JsonObject

MOST_CHARS: Final = 4000
"""The most characters of an address, a token, or credentials, which may be a JWT."""

SENDABLE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?", re.ASCII)
"""What the value of a header may be."""

SCHEME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)


class PushConfig(NamedTuple):
    """Where a client wants to be told of a task."""

    id: str
    """Its id, which is unique in the task."""
    url: str
    """Where notifications are sent."""
    token: str
    """What they have as `X-A2A-Notification-Token`; empty if there is none."""
    scheme: str
    """Scheme of the credentials."""
    credentials: str
    """What they have as `Authorization`, after the scheme; empty if there are none."""
    is_older: bool
    """Whether its client speaks protocol 0.3."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of notifications."""
        headers = {"content-type": "application/json" if self.is_older else "application/a2a+json"}
        if self.token:
            headers["x-a2a-notification-token"] = self.token
        if self.credentials:
            headers["authorization"] = f"{self.scheme} {self.credentials}"
        return headers

    def shape(self, task: str) -> Shape:
        """Return the configuration as its client gets it: token and credentials are kept back."""
        shape: dict[str, object] = {"id": self.id, "url": self.url}
        if self.is_older:
            if self.scheme:
                shape["authentication"] = {"schemes": [self.scheme]}
            return {"taskId": task, "pushNotificationConfig": shape}
        if self.scheme:
            shape["authentication"] = {"scheme": self.scheme}
        return {"taskId": task, **shape}


def read_config(fields: JsonObject, path: str, *, is_older: bool) -> PushConfig:
    """Return the configuration in *fields*; raise `A2aError` for one that does not fit."""
    authentication = objects_in(fields.get("authentication") or {}, f"{path}.authentication")
    schemes = authentication.get("schemes")
    first = schemes[0] if isinstance(schemes, Sequence) and not isinstance(schemes, str) and schemes else None
    scheme = text_in({"scheme": authentication.get("scheme") or first}, "scheme", f"{path}.authentication")
    credentials = text_in(authentication, "credentials", f"{path}.authentication", most=MOST_CHARS)
    token = text_in(fields, "token", path, most=MOST_CHARS)
    if (scheme or credentials) and not SCHEME.fullmatch(scheme):
        raise A2aError(INVALID_PARAMS, f"`{path}.authentication` must have a scheme, such as `Bearer`")
    for name, text in (("token", token), ("authentication.credentials", credentials)):
        if text and not SENDABLE.fullmatch(text):
            raise A2aError(INVALID_PARAMS, f"`{path}.{name}` must have the characters that a header can have")
    url = text_in(fields, "url", path, may_lack=False, most=MOST_CHARS)
    return PushConfig(text_in(fields, "id", path), url, token, scheme, credentials, is_older)
