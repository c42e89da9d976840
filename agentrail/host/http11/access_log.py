"""One line in the log for each request, without values of headers or of the query, which may hold secrets."""

from __future__ import annotations

import logging
import re
from typing import Final

log = logging.getLogger("agentrail.access")

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")
LONGEST_PATH: Final = 200


def told_target(target: str) -> str:
    """Return the path of *target*, cut if it is long, and the names in its query without their values."""
    path, mark, query = target.partition("?")
    if len(path) > LONGEST_PATH:
        path = f"{path[:LONGEST_PATH]}…"
    return path + mark + "&".join(map(_told_parameter, query.split("&")[:8])) if mark else path


def _told_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}=…" if equals and _PLAIN_NAME.fullmatch(name) else "…"


def tell_request(peer: str, line: tuple[str, str] | None, status: int, sent: int, seconds: float) -> None:
    """Log a request; *line* is its method and target, `None` if they were not valid, and status 0 is no answer."""
    if log.isEnabledFor(logging.INFO):
        method, target = line or ("-", "-")
        answered = status or "unanswered"
        log.info("%s %s %s %s %d bytes %.1f ms", peer, method, told_target(target), answered, sent, seconds * 1000)
