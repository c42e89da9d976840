"""`Face`, the base class of faces: a face answers requests below its path by calls of the host.

`FaceRequest`: a request to a face. `FaceResponse`: the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import trio
from attrs import field, frozen

from agentrail.api.body_parsing import strict_json
from agentrail.host.authentication.identity import Identity
from agentrail.host.faces.face_calls import FaceCalls
from agentrail.host.operations.call import AT_ONCE
from agentrail.host.requests.http_messages import Headers, Send, first_header
from agentrail.values.json import Json

FaceSend: TypeAlias = Send
"""Sends a piece of a streamed answer."""

FaceStream: TypeAlias = Callable[[FaceSend], Awaitable[None]]
"""Writes a streamed answer piece by piece with the function that it is given, and returns at its end.

It is cancelled when the client has gone, or does not read in time.
"""

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


@frozen
class FaceRequest:
    """A request to a face. Its sender is known, and counted, as for each call of the host."""

    method: str
    """Method, in capitals."""
    path: str
    """Path, decoded once; it begins with that of the face."""
    query: str
    """Query, as it was sent, without the `?`."""
    headers: Headers
    """Names, in lower case, and values."""
    body: bytes
    """The whole body, within the limits of the host."""
    identity: Identity
    """Whose key it has; of nobody if the path is open."""
    calls: FaceCalls
    """Makes calls of the host in the name of its sender."""
    url: str
    """Address of the host as the client knows it, such as `http://127.0.0.1:8765`."""
    agents: tuple[str, ...]
    """Names of the profiles, the default first; empty if a function finds them."""
    _depth: int = field(alias="depth", repr=False)
    """The most levels of JSON in the body."""

    def header(self, name: str) -> str | None:
        """Return the first header with a *name* (in lower case); `None` if there is none."""
        return first_header(self.headers, name)

    async def json(self) -> Json:
        """Return the body as JSON, within the limits of the host; raise `BadText` for what is no strict JSON."""
        if len(self.body) <= AT_ONCE:
            await trio.lowlevel.checkpoint()
            return strict_json(self.body, self._depth)
        return await trio.to_thread.run_sync(strict_json, self.body, self._depth)


@frozen
class FaceResponse:
    """The answer of a face."""

    content: bytes | FaceStream = b""
    """Content, or the function that streams it."""
    media_type: str = "application/json"
    """Header `Content-Type`."""
    status: int = 200
    """Status of the response."""
    headers: Mapping[str, str] = field(default=NO_HEADERS, kw_only=True)
    """Further headers."""
    heartbeat: bytes = field(default=b"", kw_only=True)
    """What is sent if a stream was silent for `HostLimits.heartbeat_seconds`, such as `b":\\n\\n"`; empty: nothing."""


class Face:
    """Base class of faces: subclass it, and define `path` and `answer`.

    Keys, tenants, scopes, rates, limits, and the names of hosts and origins hold as for all requests to the host.
    """

    path: str = ""
    """Path of the face, such as `/v1/lines`; it also answers what is below."""
    open_paths: tuple[str, ...] = ()
    """Paths for which no key is needed, such as `/.well-known/agent-card.json`. `*` stands for one segment."""

    async def answer(self, request: FaceRequest) -> FaceResponse:
        """Return the answer to a request. An error of agentrail becomes a problem document.

        It is cancelled when the client goes away; a prompt that was accepted goes on.
        """
        raise NotImplementedError
