"""A host on a real port, and clients with keys."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import h11
import httpx
import trio
from attrs import frozen

from agentrail import SessionSpec
from agentrail.host import ApiKeys, Host, HostChecks, HostLimits, HostPlugin, OnPluginError, Profile, Profiles, Serving
from agentrail.host.authentication.api_keys import new_key, render_keys
from agentrail.host.health.health_parts import NO_CHECKS
from agentrail.journals import Journal
from agentrail.testing import ScriptedModel
from tests.host.asgi.servers import served_by
from tests.kit import Element
from tests.patience import PATIENCE

USERS: Final = {
    "ann": ("acme", "ann", ("talk", "decide")),
    "bob": ("acme", "bob", ("talk",)),
    "eve": ("evil", "ann", ("talk", "decide", "observe", "admin")),
    "boss": ("acme", "boss", ("talk", "admin", "observe")),
    "root": ("ops", "root", ("observe", "operate")),
}
MADE: Final = {name: new_key(*row) for name, row in USERS.items()}
KEYS: Final = {name: key for name, (_, key) in MADE.items()}
CERTIFICATES: Final = ssl.create_default_context()
"""For all clients: without it, each reads all certificates of the machine, which takes longer than most tests."""
LINES: Final = render_keys([row for row, _ in MADE.values()])
LIMITS: Final = HostLimits(drain_seconds=0.5, loop_lag_seconds=PATIENCE)
"""A turn that a test leaves open does not keep its host for long, and a busy machine makes it no less ready."""


@frozen
class Desk:
    """A host that serves, and a client for each user."""

    serving: Serving
    clients: dict[str, httpx.AsyncClient]

    @property
    def ann(self) -> httpx.AsyncClient:
        return self.clients["ann"]


def scripted(*script: Element) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(list(script)))


@asynccontextmanager
async def open_desk(
    profiles: Profiles | SessionSpec,
    plugins: Sequence[HostPlugin] = (),
    *,
    journal: Journal | None = None,
    limits: HostLimits = LIMITS,
    keys: ApiKeys | None = None,
    four_eyes: bool = False,
    on_plugin_error: OnPluginError | None = None,
    checks: HostChecks = NO_CHECKS,
) -> AsyncGenerator[Desk, None]:
    profile_list: Profiles = [Profile("desk", profiles)] if isinstance(profiles, SessionSpec) else profiles
    host = Host(
        profile_list,
        plugins,
        on_plugin_error=on_plugin_error,
        authenticator=keys or ApiKeys(lines=LINES),
        journal=journal,
        limits=limits,
        checks=checks,
        four_eyes=four_eyes,
    )
    async with desk_of(host) as desk:
        yield desk


@asynccontextmanager
async def desk_of(host: Host) -> AsyncGenerator[Desk, None]:
    """Serve *host*, for a client of each user."""
    async with served_by(host) as serving:
        clients = {
            name: httpx.AsyncClient(
                base_url=serving.url,
                headers={"authorization": f"Bearer {key}"},
                timeout=60,
                trust_env=False,
                verify=CERTIFICATES,
            )
            for name, key in KEYS.items()
        }
        try:
            yield Desk(serving, clients)
        finally:
            for client in clients.values():
                await client.aclose()


def frames(text: str) -> list[dict[str, str]]:
    """Return the frames of a stream, as their fields."""
    frames_ = [dict(line.split(": ", 1) for line in block.split("\n") if ": " in line) for block in text.split("\n\n")]
    return [block for block in frames_ if block]


class Listener:
    """A client of one stream that can go away in the middle of it; httpx leaves its generators behind then."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._parser = h11.Connection(h11.CLIENT)
        self.status = 0
        self.text = ""
        self.over = False

    async def ask(self, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes = b"") -> None:
        """Send a request, and read the head of its answer."""
        all_headers = [*headers, ("content-length", str(len(body)))] if body else headers
        sent = self._parser.send(
            h11.Request(method=method, target=target, headers=[("host", "127.0.0.1"), *all_headers])
        )
        data = self._parser.send(h11.Data(data=body)) if body else b""
        self._parser.send(h11.EndOfMessage())
        await self._stream.send_all((sent or b"") + (data or b""))
        while not self.status:
            await self._read()

    async def until(self, is_enough: Callable[[str], bool]) -> str:
        """Read until what has come *is_enough*, or the stream is over; return it, in whole frames."""
        while not self.over and not (self.text.endswith("\n\n") and is_enough(self.text)):
            await self._read()
        return self.text

    async def _read(self) -> None:
        while (event := self._parser.next_event()) is h11.NEED_DATA:
            self._parser.receive_data(await self._stream.receive_some(4096))
        match event:
            case h11.Response(status_code=status):
                self.status = status
            case h11.Data(data=data):
                self.text += bytes(data).decode()
            case h11.EndOfMessage():
                self.over = True


@asynccontextmanager
async def listening(
    desk: Desk,
    method: str,
    target: str,
    *,
    since: str = "",
    message: str = "",
    user: str = "ann",
    session: str = "trip",
) -> AsyncGenerator[Listener, None]:
    """Open a stream of a user; leaving it goes away."""
    host, _, port = desk.serving.url.removeprefix("http://").partition(":")
    headers = [("authorization", f"Bearer {KEYS[user]}"), ("content-type", "application/json")]
    headers += [("last-event-id", since)] if since else []
    body = json.dumps({"message": message, "session": session}).encode() if message else b""
    with trio.fail_after(100):
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            listener = Listener(stream)
            await listener.ask(method, target, headers, body)
            yield listener
