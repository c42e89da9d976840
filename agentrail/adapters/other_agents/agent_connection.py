"""`AgentConnection`: requests to an agent elsewhere: its card, and JSON-RPC with answers or streams, within limits.

The key goes to the origin of the address that the program has given, and nowhere else: no redirect is followed, and a
card that names another origin is refused. So a stranger's card leads to no private network either.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from agentrail.adapters import tls_contexts
from agentrail.adapters.models.sse import EventReader
from agentrail.adapters.other_agents.remote_task import object_in, objects_in, text_in
from agentrail.adapters.url_origin import origin_of
from agentrail.errors import StreamGarbled, ToolError
from agentrail.values.json import JsonObject

if TYPE_CHECKING:  # importing httpx takes longer than importing all of agentrail
    import httpx  # noqa: ASYNC127 - the client that pyproject.toml names

CARD: Final = "/.well-known/agent-card.json"
MAX_CARD: Final = 256 * 1024
"""The most bytes of a card."""

MAX_ANSWER: Final = 4 * 1024 * 1024
"""The most bytes of an answer, or of one event of a stream."""

MAX_STREAM: Final = 64 * 1024 * 1024
"""The most bytes of a stream."""

OLDER: Final[Mapping[str, str]] = {
    "SendMessage": "message/send",
    "SendStreamingMessage": "message/stream",
    "GetTask": "tasks/get",
    "CancelTask": "tasks/cancel",
}
"""What protocol 0.3 calls the methods."""

TOO_LARGE: Final = "its stream is larger than what is read of one"

OK: Final = 200
JSON: Final = "application/json"


class AgentInterface(NamedTuple):
    """Where an agent is called, and how."""

    url: str
    is_older: bool
    """Whether it speaks protocol 0.3."""
    streams: bool
    """Whether it tells of tasks while they run."""


class AgentConnection:
    """Makes requests to the agent at *url*, with a *key* if it has one."""

    def __init__(self, client: httpx.AsyncClient, name: str, url: str, key: str | None) -> None:
        self._client = client
        self._name = name
        self._url = url
        self._headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._interface: AgentInterface

    async def find(self) -> AgentInterface:
        """Read the card of the agent, and return the interface that is used; raise `ToolError` if there is none."""
        url = self._url if self._url.endswith(".json") else self._url.rstrip("/") + CARD
        async with self._opened("GET", url, b"") as response:
            card = self._json(await _body(response, MAX_CARD))
        streams = object_in(card, "capabilities").get("streaming") is True
        rows = [
            (text_in(row, "protocolVersion"), text_in(row, "url"))
            for row in objects_in(card, "supportedInterfaces")
            if text_in(row, "protocolBinding") == "JSONRPC"
        ]
        if text_in(card, "preferredTransport") in {"", "JSONRPC"}:
            rows.append((text_in(card, "protocolVersion") or "0.3", text_in(card, "url")))
        for prefix in ("1.", "0.3"):
            for version, address in rows:
                if f"{version}.".startswith(prefix) and address:
                    self._check(address)
                    self._interface = AgentInterface(address, prefix == "0.3", streams)
                    return self._interface
        raise self._error("its card offers no JSON-RPC of protocol 1.0 or 0.3")

    def _check(self, address: str) -> None:
        try:
            is_same = origin_of(address) == origin_of(self._url)
        except ValueError:
            is_same = False
        if not is_same:
            raise self._error(f"its card leads to {address[:200]!r}, which is another origin than that of its `url`")

    async def call(self, method: str, params: JsonObject) -> JsonObject:
        """Return the result of a call; raise `ToolError` if there is none."""
        async with self._posted(method, params) as response:
            return self._result(self._json(await _body(response, MAX_ANSWER)))

    async def stream(self, method: str, params: JsonObject, take: Callable[[JsonObject], None]) -> None:
        """Call *take* with each result of a stream, which may end early; raise `ToolError` for an error in it."""
        async with self._posted(method, params) as response:
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                take(self._result(self._json(await _body(response, MAX_ANSWER))))
                return
            reader, size = EventReader(MAX_ANSWER), 0
            failures: list[ToolError] = []

            def take_piece(piece: bytes) -> bool:
                nonlocal size
                size += len(piece)
                try:
                    for event in reader.feed(piece):
                        take(self._result(self._json(event.data)))
                    if size > MAX_STREAM:
                        raise self._error(TOO_LARGE)
                except StreamGarbled:
                    failures.append(self._error(TOO_LARGE))
                except ToolError as error:
                    failures.append(error)
                return not failures

            await _read(response, take_piece)
            if failures:
                raise failures[0]

    @asynccontextmanager
    async def _posted(self, method: str, params: JsonObject) -> AsyncGenerator[httpx.Response]:
        interface = self._interface
        name = OLDER[method] if interface.is_older else method
        body = json.dumps({"jsonrpc": "2.0", "id": "1", "method": name, "params": params}).encode()
        async with self._opened("POST", interface.url, body) as response:
            yield response

    @asynccontextmanager
    async def _opened(self, method: str, url: str, body: bytes) -> AsyncGenerator[httpx.Response]:
        """Send a request, and return the head of its answer; raise `ToolError` if it cannot be sent, or is refused."""
        import httpx  # noqa: ASYNC127, PLC0415 - slow to import

        headers = {**self._headers, "accept-encoding": "identity", "content-type": JSON}
        if method == "POST" and not self._interface.is_older:
            headers["a2a-version"] = "1.0"
        try:
            async with self._client.stream(method, url, content=body, headers=headers) as response:
                if response.status_code != OK:
                    raise self._error(f"it answers with the status {response.status_code}")
                yield response
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            raise self._error(f"{type(error).__name__}: {error}") from None

    def _json(self, content: bytes | str) -> JsonObject:
        value: object = None
        with suppress(ValueError, RecursionError):
            value = json.loads(content)
        if not isinstance(value, dict):
            raise self._error("its answer is no JSON object")
        return cast("JsonObject", value)

    def _result(self, answer: JsonObject) -> JsonObject:
        if "error" in answer:
            error = object_in(answer, "error")
            raise self._error(f"it refuses: {text_in(error, 'message')[:500]!r} ({error.get('code')})")
        return object_in(answer, "result")

    def _error(self, problem: str) -> ToolError:
        return ToolError(f"the agent `{self._name}` at {self._url} cannot be used: {problem}")


async def _read(response: httpx.Response, take: Callable[[bytes], bool]) -> None:
    """Call *take* with the pieces of the body of *response*, until it returns false.

    Then the response is closed, not the loop left: so all of httpx's generators end.
    """
    import httpx  # noqa: ASYNC127, PLC0415 - slow to import

    goes_on = True
    try:
        async for piece in response.aiter_bytes():
            goes_on = goes_on and take(piece)
            if not goes_on:
                await response.aclose()
    except (httpx.HTTPError, httpx.StreamError):
        if goes_on:
            raise


async def _body(response: httpx.Response, most: int) -> bytes:
    """Return the body of *response*; if it has more than *most* bytes, none of it."""
    body = bytearray()

    def take(piece: bytes) -> bool:
        body.extend(piece)
        return len(body) <= most

    await _read(response, take)
    return bytes(body) if len(body) <= most else b""


@asynccontextmanager
async def connected(name: str, url: str, key: str | None, seconds: float) -> AsyncGenerator[AgentConnection]:
    """Return a connection to the agent at *url*; none of its requests waits longer than *seconds* for bytes."""
    import httpx  # noqa: ASYNC127, PLC0415 - slow to import

    async with httpx.AsyncClient(
        verify=await tls_contexts.of_httpx(trust_env=False),
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(30.0, read=seconds),
    ) as client:
        yield AgentConnection(client, name, url, key)
