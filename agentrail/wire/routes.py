"""The table of routes, and which of them a request means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from agentrail.errors import MethodRefused, UnknownRoute
from agentrail.values.value import Value
from agentrail.wire.operation_table import CALLS, HostCall

SESSION: Final = "{id}"
"""Stands in a path for the id of a session, as clients see it."""


class HostRoute(Value, gc=True):
    """A method and a path, and the call that they mean."""

    method: str
    """Method, in capitals."""
    path: str
    """Path; `{id}` stands for the id of a session."""
    call: HostCall
    """The call."""

    @property
    def about_session(self) -> bool:
        """Whether the path names a session."""
        return SESSION in self.path


class Matched(Value, gc=True):
    """The route that a request means."""

    route: HostRoute
    """The route."""
    session: str
    """The id of the session in the path; empty if the path has none."""


_OF_SESSION: Final = f"/v1/sessions/{SESSION}"

ROUTES: Final = tuple(
    HostRoute(method, path, CALLS[name])
    for method, path, name in (
        ("POST", "/v1/chat", "chat"),
        ("POST", "/v1/stream", "stream"),
        ("POST", "/v1/sessions", "open_session"),
        ("GET", "/v1/sessions", "list_sessions"),
        ("GET", _OF_SESSION, "show_session"),
        ("DELETE", _OF_SESSION, "delete_session"),
        ("POST", f"{_OF_SESSION}/prompt", "prompt"),
        ("POST", f"{_OF_SESSION}/steer", "steer"),
        ("POST", f"{_OF_SESSION}/abort", "abort"),
        ("POST", f"{_OF_SESSION}/approve", "approve"),
        ("POST", f"{_OF_SESSION}/reject", "reject"),
        ("POST", f"{_OF_SESSION}/respond", "respond"),
        ("POST", f"{_OF_SESSION}/model", "switch_model"),
        ("POST", f"{_OF_SESSION}/tools", "change_tools"),
        ("POST", f"{_OF_SESSION}/plugins", "change_plugins"),
        ("POST", f"{_OF_SESSION}/compact", "compact"),
        ("POST", f"{_OF_SESSION}/fork", "fork"),
        ("GET", f"{_OF_SESSION}/events", "events"),
        ("GET", f"{_OF_SESSION}/messages", "messages"),
        ("POST", f"{_OF_SESSION}/files", "upload"),
        ("POST", f"{_OF_SESSION}/ask", "ask"),
        ("POST", f"{_OF_SESSION}/stop", "stop"),
        ("POST", f"{_OF_SESSION}/label", "label"),
        ("GET", f"{_OF_SESSION}/queue", "queued"),
        ("POST", f"{_OF_SESSION}/withdraw", "withdraw"),
        ("POST", f"{_OF_SESSION}/suspend", "suspend"),
        ("POST", f"{_OF_SESSION}/resume", "resume"),
        ("GET", f"{_OF_SESSION}/offered", "offered"),
        ("GET", f"{_OF_SESSION}/tasks", "tasks"),
        ("POST", f"{_OF_SESSION}/tasks", "message_task"),
        ("DELETE", f"{_OF_SESSION}/tasks", "cancel_task"),
        ("GET", f"{_OF_SESSION}/tasks/result", "task_result"),
        ("GET", f"{_OF_SESSION}/tasks/results", "wait_tasks"),
        ("GET", "/v1/agents", "agents"),
        ("GET", "/v1/approvals", "approvals"),
        ("GET", "/v1/tree", "tree"),
        ("GET", "/v1/commands", "commands"),
        ("GET", "/v1/ws", "socket"),
        ("GET", "/healthz", "health"),
        ("GET", "/readyz", "ready"),
        ("GET", "/metrics", "metrics"),
        ("GET", "/", "page"),
        ("GET", "/openapi.json", "openapi"),
    )
)
"""All routes of a host, each call once."""


ABOUT_SESSION: Final = frozenset(route.call.name for route in ROUTES if route.about_session)
"""Names of the calls that are about one session."""


def _by_path() -> Mapping[tuple[str, ...], Mapping[str, HostRoute]]:
    found: dict[tuple[str, ...], dict[str, HostRoute]] = {}
    for route in ROUTES:
        found.setdefault(tuple(route.path.split("/")), {})[route.method] = route
    return MappingProxyType(found)


_BY_PATH: Final = _by_path()
_ID_AT: Final = len(_OF_SESSION.split("/")) - 1


def match(method: str, path: str) -> Matched:
    """Return the route that *method* and *path*, decoded and without its query, mean.

    Raise `UnknownRoute` if there is no such path, and `MethodRefused`, which names those that there are, if the path
    has no such method. `HEAD` means `GET`.
    """
    parts = path.split("/")
    by_method, session = _BY_PATH.get(tuple(parts)), ""
    if (by_method is None or SESSION in parts) and len(parts) > _ID_AT and parts[_ID_AT]:
        session = parts[_ID_AT]
        by_method = _BY_PATH.get((*parts[:_ID_AT], SESSION, *parts[_ID_AT + 1 :]))
    if by_method is None:
        raise UnknownRoute(path)
    route = by_method.get("GET" if method == "HEAD" else method)
    if route is None:
        raise MethodRefused(method, path, ", ".join(allowed(by_method)))
    return Matched(route, session)


def allowed(methods: Iterable[str]) -> tuple[str, ...]:
    """Return the methods for the header `Allow`: with `GET` there is `HEAD`."""
    return tuple(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))
