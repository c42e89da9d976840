"""Checks of a request's head that hold whichever server has read it: method, headers, path and query.

What two readers could understand in different ways is refused, so that no proxy before this server sees other requests
than this server does (request smuggling).
"""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from agentrail.api.limits import HEADER_COUNT, TARGET_CHARS
from agentrail.api.operation_table import STORES_PATH
from agentrail.host.requests.http_messages import Headers
from agentrail.host.requests.refusals import BAD_HEAD, BAD_TARGET, LONG_TARGET, MANY_HEADERS, OTHER_METHOD, HttpRefusal
from agentrail.host.requests.site_policy import is_host

METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})

ONCE: Final = frozenset(
    {
        "authorization",
        "content-length",
        "content-type",
        "expect",
        "host",
        "idempotency-key",
        "last-event-id",
        "origin",
        "transfer-encoding",
    }
)
"""Headers that may come once: of two, another reader could take the other one."""

_PATH: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})+")
_QUERY: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*")
_PLAIN_PATH: Final = re.compile(r"(?:/[A-Za-z0-9\-_~]+)+/?|/")
_HIDDEN: Final = re.compile(r"[\x00-\x1f\x7f/\\]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_ESCAPE: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_TO_DOCUMENT: Final = re.compile(rf"{STORES_PATH}/[^/]+/documents/")
"""Beginning of a path whose rest is the name of a document. A slash in it may be escaped: no part of a route follows,
so that a proxy which decodes the slash means the same.
"""


@frozen
class RequestHead:
    """The head of a request, checked."""

    method: str
    path: str
    """Decoded; see `HttpRequest.path`."""
    query: str
    headers: Headers
    length: int | None
    """Bytes of the body; `None` if the client has not announced them, as it does not for chunks."""


def check_method(method: str) -> None:
    """Raise `HttpRefusal` if no route can have *method*."""
    if method not in METHODS:
        raise HttpRefusal(OTHER_METHOD, ", ".join(sorted(METHODS)))


def check_headers(headers: Headers) -> dict[str, str]:
    """Return the headers that are allowed only once, by name.

    Raise `HttpRefusal` if one of them came twice, `Host` is not valid, there are too many headers, or two of them say
    where the body ends.
    """
    if len(headers) > HEADER_COUNT:
        raise HttpRefusal(MANY_HEADERS, HEADER_COUNT)
    once = _singles(headers)
    has_two_lengths = "transfer-encoding" in once and "content-length" in once
    if has_two_lengths or not is_host(once.get("host")):
        raise HttpRefusal(BAD_HEAD)
    return once


def _singles(headers: Headers) -> dict[str, str]:
    """Return the headers that are allowed only once, by name; raise `HttpRefusal` if one came twice."""
    values: dict[str, str] = {}
    for name, value in headers:
        if name in ONCE:
            if name in values:
                raise HttpRefusal(BAD_HEAD)
            values[name] = value
    return values


def split_target(target: str) -> tuple[str, str]:
    """Return the decoded path and the query of *target*; raise `HttpRefusal` if one of them is not valid."""
    if len(target) > TARGET_CHARS:
        raise HttpRefusal(LONG_TARGET, TARGET_CHARS)
    if not target.startswith("/"):
        raise HttpRefusal(BAD_TARGET)
    path, _, query = target.partition("?")
    if query and (not _QUERY.fullmatch(query) or "%00" in query):
        raise HttpRefusal(BAD_TARGET)
    if not _PLAIN_PATH.fullmatch(path):
        path = _decoded(path)
    return path, query


def _decoded(path: str) -> str:
    if not _PATH.fullmatch(path):
        raise HttpRefusal(BAD_TARGET)
    to_document = _TO_DOCUMENT.search(path)  # an app may be mounted below another path
    route, name = (path, "") if to_document is None else (path[: to_document.end()], path[to_document.end() :])
    try:
        path = _ESCAPE.sub(_unescaped, route) + _ESCAPE.sub(_unescaped_name, name)
    except UnicodeDecodeError:
        raise HttpRefusal(BAD_TARGET) from None
    _refuse_dots(path)
    return path


def check_path(path: str) -> None:
    """Raise `HttpRefusal` if *path*, which another server has decoded, is not one that `split_target` returns."""
    if not path.startswith("/") or _CONTROL.search(path):
        raise HttpRefusal(BAD_TARGET)
    _refuse_dots(path)


def _refuse_dots(path: str) -> None:
    if not {".", "..", ""}.isdisjoint(path.removesuffix("/").split("/")[1:]):
        raise HttpRefusal(BAD_TARGET)


def _unescaped(match: re.Match[str], hidden: re.Pattern[str] = _HIDDEN) -> str:
    text = bytes.fromhex(match[0].replace("%", "")).decode()
    if hidden.search(text):
        raise HttpRefusal(BAD_TARGET)
    return text


def _unescaped_name(match: re.Match[str]) -> str:
    return _unescaped(match, _CONTROL)
