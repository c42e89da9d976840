"""Models that cannot be reached: one clear error within five seconds, with the options that a session has by itself."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Callable
from typing import Final, TypeAlias

import pytest
import trio
import trio.testing

from agentrail import Secret, SessionHandle, SessionSpec, open_supervisor
from agentrail.adapters.models.http import Http, Patience, Post
from agentrail.errors import ProviderNotReached, TurnAborted
from agentrail.events import AgentAbort, AgentEnd, CompactEnd, Event, Retry, StreamError
from agentrail.models import Json
from agentrail.testing import ScriptedModel
from tests.adapters.models.server import Play, Reset, refusing, serving, steps, streaming

SETTLED = 0.01
"""Seconds of the world with nothing to do, after which virtual time goes on: what was sent over loopback is there."""

MOST = 5.1
"""Seconds within which the one error is told, and a little for the supervisor."""

NAME: Final = "https://provider.invalid"
"""An address whose name nobody may have (RFC 6761)."""

LOOPBACK: Final = socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, ""

SECRETS: Final = {"KEY": "sk-0123456789abcdef"}

CLAUDE: Final = "anthropic:claude-sonnet-5"

PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without the proxies of the machine."""
    for name in (*PROXIES, *map(str.upper, PROXIES)):
        monkeypatch.delenv(name, raising=False)


class Names(trio.abc.HostnameResolver):
    """DNS as it is without a network, after *seconds*: no server that resolves names, or the given *found*."""

    def __init__(self, seconds: float = 0.0, found: tuple[str, int] | None = None) -> None:
        self.seconds = seconds
        self.found = found
        self.asked = 0

    async def getaddrinfo(self, *_: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:  # type: ignore[override]
        self.asked += 1
        await trio.sleep(self.seconds)
        if self.found is None:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(*LOOPBACK, self.found)]

    async def getnameinfo(self, sockaddr: object, flags: int) -> tuple[str, str]:
        raise NotImplementedError


class Sockets(trio.abc.SocketFactory):
    """Sockets of a machine without a route, or whose packets nobody answers."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    def socket(self, *_: object, **__: object) -> trio.socket.SocketType:
        return Unrouted(self.code)


class Unrouted(trio.socket.SocketType):
    """A socket that cannot connect: it fails with an error, or waits for ever if that is `None`."""

    @property
    def type(self) -> socket.SocketKind:
        return socket.SOCK_STREAM

    def __init__(self, code: int | None) -> None:  # Trio's own cannot be made
        self.code = code

    async def connect(self, address: object) -> None:
        if self.code is None:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        raise OSError(self.code, f"Error connecting to {address}: {errno.errorcode[self.code or 0]}")

    def setsockopt(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pass

    def close(self) -> None:
        pass


LONG: Final = "word " * 130
"""With a window of 1,000 tokens, the context is to be compacted when the fourth turn with this begins."""

Turn: TypeAlias = tuple[list[Event], float, TurnAborted]
"""The events of a turn, its seconds and its error."""


async def turn(url: str, clock: trio.testing.MockClock) -> Turn:
    """Take a turn with default options with a model at *url*."""
    clock.autojump_threshold = SETTLED
    options: dict[str, Json] = {"base_url": url, "api_key": Secret("KEY")}
    async with open_supervisor(secrets=SECRETS.get, seed=1) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=CLAUDE, model_options=options))
        return await asked(session, "are the lamps on?")


async def asked(session: SessionHandle, prompt: str) -> Turn:
    """Take a turn that fails."""
    heard: list[Event] = []
    began = trio.current_time()
    async with session.subscribe() as envelopes:
        with pytest.raises(TurnAborted) as raised:
            await session.ask(prompt)
        seconds = trio.current_time() - began
        async for envelope in envelopes:
            heard.append(envelope.event)
            if isinstance(envelope.event, AgentEnd | AgentAbort):
                break
    return heard, seconds, raised.value


def attempts(heard: list[Event]) -> int:
    return 1 + sum(isinstance(event, Retry) for event in heard)


def errors(heard: list[Event]) -> list[str]:
    return [event.error for event in heard if isinstance(event, StreamError)]


@pytest.mark.parametrize(("seconds", "tries"), [(0.0, 4), (0.5, 3), (2.5, 1), (30.0, 1)])
async def test_without_dns_a_turn_ends_with_one_error_within_five_seconds(
    seconds: float, tries: int, autojump_clock: trio.testing.MockClock
) -> None:
    names = Names(seconds)
    trio.socket.set_custom_hostname_resolver(names)
    heard, took, error = await turn(NAME, autojump_clock)
    assert took <= MOST
    assert (errors(heard), attempts(heard)) == (["ProviderNotReached"], names.asked)
    assert names.asked - tries in {0, 1}  # by chance, as the pauses are
    found = (
        "nobody answers within 5 seconds"
        if seconds > MOST
        else "a name cannot be resolved ([Errno -3] Temporary failure in name resolution)"
    )
    assert str(error).endswith(
        f"(provider_error): no connection to the provider can be made: {found}, on the way to {NAME}/v1/messages; "
        "check the network and its DNS, `base_url`, and the proxy that the environment names, if there is one"
    )


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (errno.ENETUNREACH, "Error connecting to ('192.0.2.7', 443): ENETUNREACH"),
        (errno.EHOSTUNREACH, "Error connecting to ('192.0.2.7', 443): EHOSTUNREACH"),
        (None, "nobody answers within 5 seconds"),
    ],
)
async def test_without_a_route_a_turn_ends_with_one_error_within_five_seconds(
    code: int | None, found: str, autojump_clock: trio.testing.MockClock
) -> None:
    trio.socket.set_custom_hostname_resolver(Names(found=("192.0.2.7", 443)))
    trio.socket.set_custom_socket_factory(Sockets(code))
    heard, took, error = await turn(NAME, autojump_clock)
    assert took <= MOST
    assert errors(heard) == ["ProviderNotReached"]
    assert f"{found}, on the way to {NAME}/v1/messages; check the network" in str(error)


async def test_a_port_where_nothing_listens_is_told_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with serving(streaming(b"end")) as server:
        pass
    heard, _, error = await turn(server.url, autojump_clock)
    assert (errors(heard), attempts(heard)) == (["ServerMissing"], 1)
    assert f"nothing listens on the way to {server.url}/v1/messages; start the server" in str(error)


async def test_a_name_that_nobody_has_is_told_with_where_it_was_to_lead() -> None:
    """By the resolver of the machine, which may take as long as it likes."""
    http = Http()
    try:
        with pytest.raises(ProviderNotReached, match=f"on the way to {NAME}; check the network and its DNS"):
            await http.post(Post(NAME, {}, b"{}", Patience(5, 5, 5)), bool)
    finally:
        await http.close()


async def test_a_proxy_that_cannot_be_reached_is_no_network_either(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    names = Names()
    trio.socket.set_custom_hostname_resolver(names)
    monkeypatch.setenv("HTTPS_PROXY", "http://name:hunter2@proxy.invalid:3128")
    heard, took, error = await turn(NAME, autojump_clock)
    assert took <= MOST
    assert (errors(heard), attempts(heard)) == (["ProviderNotReached"], names.asked)
    assert "the proxy that the environment names" in str(error)
    assert "hunter2" not in str(error)


@pytest.mark.parametrize("play", [refusing(503, b"{}"), refusing(429, b"{}"), steps(Reset())])
async def test_what_answers_or_breaks_is_tried_again_for_longer(
    play: Play, autojump_clock: trio.testing.MockClock
) -> None:
    async with serving(*[play] * 6) as server:
        heard, took, _ = await turn(server.url, autojump_clock)
    assert attempts(heard) == 6
    assert took > 30


# Turns that begin with a compaction


def no_dns(seconds: float) -> None:
    trio.socket.set_custom_hostname_resolver(Names(seconds))


def no_route(code: int | None) -> None:
    trio.socket.set_custom_hostname_resolver(Names(found=("192.0.2.7", 443)))
    trio.socket.set_custom_socket_factory(Sockets(code))


async def compacting(url: str, clock: trio.testing.MockClock) -> tuple[Turn, list[str]]:
    """Take a turn of a session whose context is to be compacted first; return what it has lost by that, too."""
    clock.autojump_threshold = SETTLED
    async with open_supervisor(secrets=SECRETS.get, seed=1) as supervisor:
        model = ScriptedModel(["go on, please. " * 20], repeat_last=True)
        session = await supervisor.spawn(SessionSpec(model=model, context_window=1_000))
        for number in range(3):
            await session.ask(f"number {number}: {LONG}")
        await session.switch_model(CLAUDE, base_url=url, api_key=Secret("KEY"))
        before = session.messages()
        taken = await asked(session, f"are the lamps on? {LONG}")
        after = session.messages()
        return taken, [message.text for message in before if message not in after]


def notes(heard: list[Event]) -> list[str]:
    return [event.note for event in heard if isinstance(event, CompactEnd)]


@pytest.mark.parametrize(
    ("network", "how"),
    [
        *[(no_dns, seconds) for seconds in (0.0, 0.5, 2.5, 30.0)],
        *[(no_route, code) for code in (errno.ENETUNREACH, errno.EHOSTUNREACH, None)],
    ],
)
async def test_a_turn_that_begins_with_a_compaction_ends_as_soon_and_loses_no_message(
    network: Callable[[float | None], None], how: float | None, autojump_clock: trio.testing.MockClock
) -> None:
    network(how)
    (heard, took, error), lost = await compacting(NAME, autojump_clock)
    assert took <= MOST
    assert (errors(heard), lost) == (["ProviderNotReached"], [])
    assert "no connection to the provider can be made" in str(error)
    (note,) = notes(heard)
    assert re.fullmatch(r"the summary failed( after \d attempts)?: ProviderNotReached: no connection to .*", note)


async def test_a_compaction_by_a_server_that_does_not_run_loses_no_message(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving(streaming(b"end")) as server:
        pass
    (heard, took, _), lost = await compacting(server.url, autojump_clock)
    assert took <= MOST
    assert (errors(heard), attempts(heard), lost) == (["ServerMissing"], 1, [])
    (note,) = notes(heard)
    assert note.startswith("the summary failed: ServerMissing: the connection to the provider is refused")


async def test_a_compaction_by_a_server_that_answers_is_tried_again_for_longer_and_then_drops_messages(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving(*[refusing(503, b"{}")] * 12) as server:
        (heard, took, _), lost = await compacting(server.url, autojump_clock)
    assert took > 30
    (note,) = notes(heard)
    assert note.endswith("older messages were dropped to make room")
    assert lost
