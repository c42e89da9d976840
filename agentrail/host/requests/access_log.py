"""The access log: one line for each request. Values of headers and of the query are left out: they may be secrets.

`JsonLines`: formats log records as JSON, one object a line.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from datetime import UTC, datetime
from typing import Final, cast

from attrs import define, field

REQUEST_ID: Final = "x-request-id"
"""Header with the id of a request: each answer has it, and a request that comes by a named proxy may."""

_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


def is_request_id(text: str) -> bool:
    """Whether *text* is valid as the id of a request: it is logged without quotes."""
    return _ID.fullmatch(text) is not None


def _new_id() -> str:
    return secrets.token_hex(16)


@define
class RequestNote:
    """Facts about a request for its log line; the code that answers the request adds what it finds out."""

    id: str = field(factory=_new_id)
    """Id of the request; the host has made it, unless a named proxy has said it."""
    tenant: str = ""
    """Id of the tenant; empty as long as nobody knows whose request it is."""
    user: str = ""
    """Id of the user."""
    line: tuple[str, str] = ("-", "-")
    """Its method and its target as they were sent; dashes as long as they are not known, or if they are not valid."""
    route: tuple[str, str] = ("", "")
    """Method and path of the route that the request means; empty as long as nobody knows it, or if there is none."""


log = logging.getLogger("agentrail.access")

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:+-]+", re.ASCII)
MAX_PATH: Final = 200

FACTS: Final = "facts"
"""Attribute of a record of the log that has by name what its line says, for a log of JSON."""


def told_target(target: str) -> str:
    """Return the path of *target*, cut if it is long, and the names in its query without their values."""
    path, mark, query = target.partition("?")
    if len(path) > MAX_PATH:
        path = f"{path[:MAX_PATH]}…"
    return path + mark + "&".join(map(_told_parameter, query.split("&")[:8])) if mark else path


def _told_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}=…" if equals and _PLAIN_NAME.fullmatch(name) else "…"


def tell_request(client: str, status: int, sent_bytes: int, seconds: float, note: RequestNote) -> None:
    """Log a request; status 0: it got no answer."""
    if not log.isEnabledFor(logging.INFO):
        return
    method, target = note.line
    target, ms = told_target(target), round(seconds * 1000, 1)
    names = {"tenant": note.tenant, "user": note.user, "request": note.id}
    facts = {
        "client": client,
        "method": method,
        "target": target,
        "status": status,
        "bytes": sent_bytes,
        "ms": ms,
        **names,
    }
    pairs = " ".join([f"{name}={plain_or_quoted(fact)}" for name, fact in names.items() if fact])
    words = "%s %s %s %s %d bytes %.1f ms %s"
    log.info(words, client, method, target, status or "unanswered", sent_bytes, ms, pairs, extra={FACTS: facts})


def plain_or_quoted(fact: object) -> str:
    """Return *fact* as it is if it is plain, else as a JSON string of ASCII characters, without line breaks."""
    plain = str(fact)
    return plain if _PLAIN.fullmatch(plain) else json.dumps(plain)


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, logger, message, and the facts about a request as fields.

    The *number* of a process that is one of several is a field too.
    """

    def __init__(self, number: int | None = None) -> None:
        super().__init__()
        self._more: dict[str, object] = {} if number is None else {"process": number}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of *record*."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._more,
        }
        facts: object = getattr(record, FACTS, None)
        if isinstance(facts, dict):
            line |= cast("dict[str, object]", facts)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
