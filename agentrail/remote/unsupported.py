"""Methods that local handles and supervisors have and remote ones lack: why, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Never

from agentrail.errors import NotAtHost

_INSIDE: Final = "what a session is inside is not sent"
_OF_HOST: Final = "it is of the process of the host"

OF_SESSIONS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "ask_nowait": ("a host never waits for room", "use `prompt`, and `ask` with the same `command` for the reply"),
        "by": ("the key says who calls", "connect with the key of that user"),
        "inspect": (_INSIDE, "use `status`, `messages` and `queued`"),
        "prompt_nowait": ("a host never waits for room", "use `prompt`, which raises an error if there is none"),
        "trace": (_INSIDE, "use `subscribe`"),
        "wake": ("the host does it", "use `resume` or a prompt, which wake it or bring it back"),
    }
)
"""By name of a method of `SessionHandle`: why it is not there, and what to do instead."""

OF_SUPERVISORS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "answered": (_INSIDE, "send the command again under its id, which gives its answer"),
        "crashes": (_OF_HOST, "look into its log"),
        "drain": (_OF_HOST, "stop the process by SIGTERM, which drains it"),
        "figures": (_OF_HOST, "read them from `GET /metrics`"),
        "resume": ("the host brings sessions back", "use `session`, whose calls bring it back"),
        "start_service": (_OF_HOST, "start it there, by a plugin of the host"),
        "start_supervisor": (_OF_HOST, "start it there"),
        "state": (_INSIDE, "use `session`, and its `messages`"),
        "stop_child": (_OF_HOST, "use `session`, and its `stop`"),
    }
)
"""By name of a method of `Supervisor`: why it is not there, and what to do instead."""


def missing(kind: type[object], name: str, methods: Mapping[str, tuple[str, str]]) -> Never:
    """Raise `NotAtHost` if *name* is a method of local handles (*methods*), and else the `AttributeError` of *kind*."""
    if name in methods:
        raise NotAtHost(name, *methods[name])
    problem = f"{kind.__name__!r} object has no attribute {name!r}"
    raise AttributeError(problem)
