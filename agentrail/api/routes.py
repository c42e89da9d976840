"""The table of routes, and the search for the route of a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from agentrail.api.operation_table import CALLS, FILE, SESSION, SESSION_PATH, HostCall
from agentrail.errors import MethodRefused, UsageError
from agentrail.errors.agentrail_error import cut
from agentrail.values.value import Value


class HostRoute(Value, gc=True):
    """A method and a path, and the call that they mean."""

    method: str
    """Method, in capitals."""
    path: str
    """Path; `{id}` stands for the id of a session, `{file}` for the name of a file."""
    call: HostCall
    """The call."""

    @property
    def about_session(self) -> bool:
        """Whether the path names a session."""
        return self.call.about_session


class Matched(Value, gc=True):
    """The route that a request means."""

    route: HostRoute
    """The route."""
    session: str
    """The id of the session in the path; empty if the path has none."""


ROUTES: Final = tuple(
    [HostRoute(method, path, call) for call in CALLS.values() for method, path in [call.route.split(" ")]]
)
"""All routes of a host, each call once."""


def _by_path() -> Mapping[tuple[str, ...], Mapping[str, HostRoute]]:
    by_path: dict[tuple[str, ...], dict[str, HostRoute]] = {}
    for route in ROUTES:
        by_path.setdefault(tuple(route.path.split("/")), {})[route.method] = route
    return MappingProxyType(by_path)


_BY_PATH: Final = _by_path()
_ID_AT: Final = len(SESSION_PATH.split("/")) - 1
_FILE_AT: Final = 2
"""Where the name of a file stands in `/console/{file}`."""


def match(method: str, path: str) -> Matched:
    """Return the route that *method* and *path*, decoded and without its query, mean.

    Raise `UsageError` for an unknown path, and `MethodRefused`, which names the methods of the path, for another
    method. `HEAD` means `GET`.
    """
    parts = path.split("/")
    by_method, session = _BY_PATH.get(tuple(parts)), ""
    if (by_method is None or SESSION in parts) and len(parts) > _ID_AT and parts[_ID_AT]:
        session = parts[_ID_AT]
        by_method = _BY_PATH.get((*parts[:_ID_AT], SESSION, *parts[_ID_AT + 1 :]))
    elif by_method is None and len(parts) == _FILE_AT + 1 and parts[_FILE_AT]:
        by_method = _BY_PATH.get((*parts[:_FILE_AT], FILE))
    if by_method is None:
        raise UsageError("unknown-route", cut(path))
    route = by_method.get("GET" if method == "HEAD" else method)
    if route is None:
        raise MethodRefused(method, path, ", ".join(allowed(by_method)))
    return Matched(route, session)


def allowed(methods: Iterable[str]) -> tuple[str, ...]:
    """Return the methods for the header `Allow`: with `GET` there is `HEAD`."""
    return tuple(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))
