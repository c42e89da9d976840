"""`HostedFaces`: the faces of a host: which of them a request is for, and what surrounds its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, cast

import trio

from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import ROUTES, match
from agentrail.errors import AgentrailError, BadChoice, UsageError, WrongType
from agentrail.host.authentication.identity import Identity
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.faces.face import Face, FaceRequest, FaceResponse, FaceStream
from agentrail.host.faces.face_calls import FaceCalls
from agentrail.host.operations.host_operations import MCP_PATH, FaceAnswer, FaceRoute, HostOperations
from agentrail.host.requests.http_messages import EndableSend, HttpRequest, HttpResponse, PeerGone

FACES_WANTED: Final = "a list of objects of classes below `Face`"
PATH_WANTED: Final = "a path such as `/v1/lines`, with no `/` at its end, no `*`, and where the host has none itself"
OPEN_WANTED: Final = "a tuple of paths, such as `/.well-known/agent-card.json`, where the host has none itself"
ANSWER_WANTED: Final = "`{}.answer` must return a `FaceResponse` with bytes, or with a function that streams"


def check_faces(faces: object) -> tuple[Face, ...]:
    """Return *faces* as a tuple; raise `WrongType` or `BadChoice` for what is no face, or has no path of its own."""
    if isinstance(faces, str) or not isinstance(faces, Sequence):
        raise WrongType.of("faces", faces, FACES_WANTED)
    paths: set[str] = set()
    for face in cast("Sequence[object]", faces):
        if not isinstance(face, Face):
            raise WrongType.of("faces", face, FACES_WANTED)
        _check_path(face.path, PATH_WANTED, "*")
        if not isinstance(cast("object", face.open_paths), tuple | list):
            raise BadChoice("open_paths", face.open_paths, OPEN_WANTED)
        for path in face.open_paths:
            _check_path(path, OPEN_WANTED)
        if any(_is_below(face.path, path) or _is_below(path, face.path) for path in paths):
            raise BadChoice("path", face.path, "one that no other face has, nor one above or below it")
        paths.add(face.path)
    return tuple(cast("Sequence[Face]", faces))


def _check_path(path: object, expected: str, forbidden: str = "") -> None:
    is_path = isinstance(path, str) and path.isascii() and path.isprintable() and path.startswith("/")
    if not is_path or not all(cast("str", path).split("/")[1:]) or (forbidden and forbidden in cast("str", path)):
        raise BadChoice("path", path, expected)
    text = cast("str", path)
    if text == MCP_PATH or _is_of_host(text) or any(_is_below(route.path, text) for route in ROUTES):
        raise BadChoice("path", path, expected)


def _is_of_host(path: str) -> bool:
    """Whether the host itself has a route at *path*."""
    try:
        match("GET", path)
    except UsageError as error:
        return error.code != "unknown-route"
    return True


def _is_below(path: str, other: str) -> bool:
    """Whether *path* is *other*, or below it."""
    return path == other or path.startswith(f"{other}/")


class HostedFaces:
    """Answers requests by the faces of a host."""

    def __init__(
        self,
        faces: Sequence[Face],
        operations: HostOperations,
        agents: Callable[[], tuple[str, ...]],
        late: DelayedTasks,
        nursery: trio.Nursery,
    ) -> None:
        self._faces = faces
        self._agents = agents
        """Returns the names of the profiles."""
        self._operations = operations
        self._late = late
        self._nursery = nursery
        self.mcp: FaceAnswer | None = None
        """Answers requests to `MCP_PATH`; `None` if the host is no MCP server."""

    def find(self, path: str) -> FaceRoute | None:
        """Return the face for requests to *path*; `None` if there is none."""
        if path == MCP_PATH and self.mcp is not None:
            return FaceRoute(MCP_PATH, self.mcp)
        for face in self._faces:
            if any(_is_like(path, pattern) for pattern in face.open_paths):
                return FaceRoute(face.path, partial(self._answer, face), needs_key=False)
            if _is_below(path, face.path):
                return FaceRoute(face.path, partial(self._answer, face))
        return None

    async def _answer(
        self,
        face: Face,
        request: HttpRequest,
        who: Identity,
        wait_withdrawn: Callable[[], Awaitable[AgentrailError]],
    ) -> HttpResponse:
        """Return the answer of *face* to a request of *who*, whose key is watched by *wait_withdrawn*."""
        limits = self._operations.limits
        body = await request.body.read(limits.body_bytes)
        calls = FaceCalls(self._operations, self._nursery, who, wait_withdrawn, request.headers, request.note)
        url = f"{request.scheme}://{request.header('host')}"
        face_request = FaceRequest(
            request.method,
            request.path,
            request.query,
            request.headers,
            body,
            who,
            calls,
            url,
            self._agents(),
            depth=limits.json_depth,
        )
        answer = await self._watched(partial(face.answer, face_request), request, wait_withdrawn)
        content: object = cast("object", answer.content) if isinstance(cast("object", answer), FaceResponse) else None
        if not isinstance(content, bytes) and not callable(content):
            raise TypeError(ANSWER_WANTED.format(type(face).__name__))  # a fault of the program, not of the client
        headers = {"cache-control": "no-store", **{name.lower(): value for name, value in answer.headers.items()}}
        if not isinstance(content, bytes):
            content = partial(self._stream, cast("FaceStream", content), answer.heartbeat, limits)
        return HttpResponse(answer.status, (("content-type", answer.media_type), *headers.items()), content)

    async def _watched(
        self,
        answer: Callable[[], Awaitable[FaceResponse]],
        request: HttpRequest,
        wait_withdrawn: Callable[[], Awaitable[AgentrailError]],
    ) -> FaceResponse:
        """Return what *answer* returns; cancel it if the client goes away or its key is withdrawn."""
        scope, refusals = trio.CancelScope(), list[AgentrailError]()

        async def watch_client() -> None:
            await request.wait_gone()
            scope.cancel()

        async def watch_key() -> None:
            refusals.append(await wait_withdrawn())
            scope.cancel()

        with scope:
            async with self._late.beside(watch_client), self._late.beside(watch_key):
                return await answer()
        if refusals:
            raise refusals[0]
        raise PeerGone

    async def _stream(self, write: FaceStream, heartbeat: bytes, limits: HostLimits, send: EndableSend) -> None:
        """Have a face write its stream, and send a heartbeat whenever it was silent for long."""
        beats = Heartbeats(send, heartbeat, limits.heartbeat_seconds)
        async with self._late.beside(beats.run):
            await write(beats.send)


class Heartbeats:
    """Sends the pieces of a stream, and a heartbeat between two that are far apart."""

    def __init__(self, send: EndableSend, heartbeat: bytes, apart: float) -> None:
        self._send = send
        self._heartbeat = heartbeat
        self._apart = apart
        """Seconds of silence after which a heartbeat is sent."""
        self._lock = trio.Lock()
        """Keeps a heartbeat from being sent in the middle of a piece."""
        self._sent_at = trio.current_time()

    async def send(self, piece: bytes) -> None:
        """Send a piece."""
        async with self._lock:
            await self._send(piece)
            self._sent_at = trio.current_time()

    async def run(self) -> None:
        """Body of the task that sends the heartbeats."""
        while self._heartbeat:
            await trio.sleep_until(self._sent_at + self._apart)
            if trio.current_time() >= self._sent_at + self._apart:
                await self.send(self._heartbeat)


def _is_like(path: str, pattern: str) -> bool:
    """Whether *path* is *pattern*, in which `*` stands for any one segment."""
    parts, pattern_parts = path.split("/"), pattern.split("/")
    pairs = zip(parts, pattern_parts, strict=False)
    return len(parts) == len(pattern_parts) and all(part_pattern in {"*", part} for part, part_pattern in pairs)
