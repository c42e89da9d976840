"""Reads the scope of a request from an ASGI server, and checks it as a request to our own server is checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Final, TypeAlias, cast

from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import FILE, SESSION
from agentrail.host.requests.http_messages import Headers
from agentrail.host.requests.proxies import UNIX
from agentrail.host.requests.refusals import LONG_HEAD, HttpRefusal
from agentrail.host.requests.request_checks import RequestHead, check_headers, check_method, check_path, split_target

AsgiMessage: TypeAlias = MutableMapping[str, object]
"""A scope, or an event: names and values as the specification of ASGI has them."""

ReceiveMessage: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
SendMessage: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]

BODILESS: Final = frozenset({"GET", "HEAD"})
"""Methods whose requests have no body here, unless they announce its length."""

AROUND_HEADER: Final = 4
"""Bytes of a header beside its name and value: a colon, a space, CR and LF."""


def disconnected(scope: AsgiMessage) -> AsgiMessage:
    """Return the event by which a server says that the client has gone."""
    return {"type": f"{scope['type']}.disconnect"}


def peer_of(scope: AsgiMessage) -> str:
    """Return the address of the peer; `unix` if the server knows none, as on a unix socket."""
    client = cast("tuple[str, int] | None", scope.get("client"))
    return client[0] if client else UNIX


def line_of(scope: AsgiMessage) -> tuple[str, str]:
    """Return the method and the target of the request, as they were sent."""
    query = _text(scope.get("query_string"))
    path = _text(scope.get("raw_path")) or str(scope["path"])
    return str(scope.get("method", "GET")), f"{path}?{query}" if query else path


def headers_of(scope: AsgiMessage) -> Headers:
    """Return the headers of the request, with their names in lower case."""
    pairs = cast("Iterable[tuple[bytes, bytes]]", scope["headers"])
    return tuple([(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in pairs])


def head_of(scope: AsgiMessage, headers: Headers, limits: HostLimits, route: str | None) -> RequestHead:
    """Return the head of the request with *headers*; raise `HttpRefusal` if it is not valid.

    Its path is below the one at which the app is mounted. With *route*, the path of a route, the app serves that one
    alone, wherever it is mounted.
    """
    method, target = line_of(scope)
    check_method(method)
    once = check_headers(headers)
    byte_count = len(target) + sum([len(name) + len(value) + AROUND_HEADER for name, value in headers])
    if byte_count > limits.header_bytes:
        raise HttpRefusal(LONG_HEAD, limits.header_bytes)
    # The path as it was sent shows more than the decoded one: `%2F` is a slash there.
    _, query = split_target(target) if scope.get("raw_path") else ("", _text(scope.get("query_string")))
    path = _path_below(scope)
    check_path(path)
    if route is not None:
        parameters = cast("Mapping[str, object]", scope.get("path_params") or {})
        path = route
        for place in (SESSION, FILE):
            path = path.replace(place, str(parameters.get(place[1:-1], "")))
    length = once.get("content-length", "")
    if length.isdecimal():
        return RequestHead(method, path, query, headers, int(length))
    return RequestHead(method, path, query, headers, 0 if method in BODILESS else None)


def _path_below(scope: AsgiMessage) -> str:
    """Return the path below the one at which the app is mounted, which some servers leave out of `path`."""
    path, root = str(scope["path"]), str(scope.get("root_path") or "")
    below = path.removeprefix(root)
    return below or "/" if not below or below.startswith("/") else path


def _text(raw: object) -> str:
    return raw.decode("latin-1") if isinstance(raw, bytes) else ""
