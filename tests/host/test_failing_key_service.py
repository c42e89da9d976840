"""What the authenticator asks is away for a while: streams go on, and end in time if it does not come back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pytest
import trio
from trio.testing import MockClock

from agentrail import connect
from agentrail.api.socket_frames import KEY_UNKNOWN
from agentrail.errors import AgentrailError, AuthenticatorFailed, NotAuthenticated
from agentrail.events import AgentEnd
from agentrail.host import Host, HostLimits, Identity, Profile, bearer
from agentrail.host.authentication.authenticators import guarded
from agentrail.host.authentication.key_watch import CHANGED, KeyWatch
from agentrail.journals import SqliteJournal
from tests.host.hosted import KEYS, Desk, desk_of, frames, listening, scripted
from tests.host.websocket.talking import Talker, problem, talking

ANN: Final = Identity("acme", "ann", frozenset({"talk", "decide"}))
WITHDRAWN: Final = "it is withdrawn"
EVENTS: Final = "/v1/sessions/trip/events?types=AgentEnd"

State: TypeAlias = Literal["there", "raises", "hangs", "refuses"]


class KeyService:
    """Authenticator that asks a service, which may be away."""

    def __init__(self) -> None:
        self.state: State = "there"
        self.failed = 0

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        await trio.lowlevel.checkpoint()
        bearer(headers)
        if self.state == "raises":
            self.failed += 1
            raise ConnectionError
        if self.state == "hangs":
            self.failed += 1
            await trio.sleep_forever()
        if self.state == "refuses":
            raise NotAuthenticated(WITHDRAWN)
        return ANN

    async def until_failed(self, times: int) -> None:
        """Wait until it was asked so many times in vain."""
        with trio.fail_after(60):
            while self.failed < times:  # noqa: ASYNC110 - clients ask over sockets
                await trio.sleep(0.01)


@asynccontextmanager
async def opened(service: KeyService, folder: Path, unknown: float = 60.0) -> AsyncGenerator[Desk, None]:
    """Serve a session `trip`, with the journal that a user has."""
    limits = HostLimits(heartbeat_seconds=0.05, unknown_seconds=unknown, drain_seconds=0.5)
    host = Host(
        [Profile("desk", scripted("one", "two", "three"))],
        authenticator=service,
        journal=SqliteJournal(folder / "journal.db"),
        limits=limits,
    )
    async with desk_of(host) as desk:
        assert (await desk.ann.post("/v1/sessions", json={"session": "trip"})).status_code == 201
        yield desk


async def prompt(desk: Desk) -> None:
    """Let the session have a turn, without a key."""
    await desk.serving.supervisor.session("h.acme.ann.trip").ask("go")


async def heard(talker: Talker) -> str:
    """Return the name of the next event on a WebSocket."""
    return str((await talker.heard())["event"])


@pytest.mark.parametrize("state", ["raises", "hangs"])
async def test_streams_go_on_while_the_service_is_away(state: State, tmp_path: Path) -> None:
    service = KeyService()
    async with (
        opened(service, tmp_path) as desk,
        listening(desk, "GET", EVENTS) as listener,
        talking(desk) as talker,
    ):
        await talker.say(id="l", listen="events", session="trip", types=["AgentEnd"])
        assert "cursor" in await talker.heard()
        service.state = state
        await service.until_failed(6 if state == "raises" else 2)
        await prompt(desk)
        assert await heard(talker) == "AgentEnd"
        assert frames(await listener.until(lambda text: "AgentEnd" in text))[-1]["event"] == "AgentEnd"
        service.state = "there"
        assert (await talker.ask("commands"))["status"] == 200
        assert (await desk.ann.get("/v1/sessions")).status_code == 200


async def test_streams_end_if_the_service_stays_away_and_their_clients_come_back(tmp_path: Path) -> None:
    service = KeyService()
    async with opened(service, tmp_path, unknown=0.2) as desk:
        async with listening(desk, "GET", EVENTS) as listener, talking(desk) as talker:
            await prompt(desk)
            seen = frames(await listener.until(lambda text: "AgentEnd" in text))[-1]["id"]
            service.state = "raises"
            assert await talker.closed() == (1013, KEY_UNKNOWN)
            last = frames(await listener.until(lambda text: "event: problem" in text))[-1]
            assert '"type":"urn:agentrail:problem:authenticator-failed"' in last["data"]
            assert '"status":503' in last["data"]
            await listener.until(lambda _: False)
            assert (listener.over, (await desk.ann.get("/v1/sessions")).headers["retry-after"]) == (True, "5")
        await prompt(desk)
        service.state = "there"
        async with listening(desk, "GET", EVENTS, since=seen) as listener:
            assert frames(await listener.until(lambda text: "AgentEnd" in text))[-1]["event"] == "AgentEnd"


async def test_a_key_that_is_refused_after_an_outage_ends_its_streams_at_once(tmp_path: Path) -> None:
    service = KeyService()
    async with (
        opened(service, tmp_path) as desk,
        listening(desk, "GET", EVENTS) as listener,
        talking(desk) as talker,
    ):
        assert (await talker.ask("commands"))["status"] == 200
        service.state = "raises"
        await service.until_failed(4)
        service.state = "refuses"
        assert await talker.closed() == (1008, "the key is not valid")
        last = frames(await listener.until(lambda text: "event: problem" in text))[-1]
        assert '"status":401' in last["data"]


async def test_a_first_message_with_a_key_that_nobody_can_look_up_says_to_come_back(tmp_path: Path) -> None:
    service = KeyService()
    async with opened(service, tmp_path) as desk, talking(desk, None) as talker:
        service.state = "raises"
        await talker.say(key=KEYS["ann"])
        assert problem(await talker.heard()) == "authenticator-failed"
        assert await talker.closed() == (1013, KEY_UNKNOWN)


async def test_a_remote_handle_hears_on_after_an_outage(tmp_path: Path) -> None:
    service = KeyService()
    async with opened(service, tmp_path, unknown=0.2) as desk, connect(desk.serving.url, key=KEYS["ann"]) as remote:
        session = remote.session("trip")
        async with session.subscribe(types=[AgentEnd]) as events:
            service.state = "raises"
            await service.until_failed(6)
            await prompt(desk)
            service.state = "there"
            with trio.fail_after(60):
                assert isinstance((await anext(events)).event, AgentEnd)


@pytest.mark.parametrize(("state", "ends"), [("raises", 61.0), ("hangs", 80.0)])
async def test_a_stream_ends_a_minute_after_its_key_was_unknown_first(
    state: State, ends: float, autojump_clock: MockClock
) -> None:
    assert autojump_clock.autojump_threshold == 0
    service = KeyService()
    service.state = state
    ending = await watched(service)
    assert (type(ending), trio.current_time()) == (AuthenticatorFailed, ends)


async def test_each_outage_has_its_own_time(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    service = KeyService()

    async def comes_and_goes() -> None:
        states: tuple[State, ...] = ("raises", "there") * 5
        for state in states:
            service.state = state
            await trio.sleep(50)
        service.state = "refuses"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(comes_and_goes)
        ending = await watched(service)
    assert (type(ending), trio.current_time()) == (NotAuthenticated, 500)


async def test_a_key_that_allows_less_ends_its_stream(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    ending = await watched(KeyService(), ANN.but(scopes=frozenset({"talk", "admin"})))
    assert (ending.args, trio.current_time()) == ((CHANGED,), 1)


async def watched(service: KeyService, began: Identity = ANN) -> AgentrailError:
    """Return what ends a stream, with the limits that a host has."""
    watch = KeyWatch(guarded(service), HostLimits())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        error = await watch.refusal(began, [("authorization", f"Bearer {KEYS['ann']}")])
        nursery.cancel_scope.cancel()
    return error
