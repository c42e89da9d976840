"""A connection that has ended leaves nothing in reference cycles.

With thousands of them, the garbage collector would hold up the loop for most of a second to free it.
"""

import gc
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Generator

import pytest
from trio.testing import wait_all_tasks_blocked

from agentrail.runtime.diagnosis import watchdog
from agentrail.runtime.shared import collector
from tests.host.hosted import KEYS, Desk, Listener, listening, open_desk, scripted
from tests.host.rfc6455.raw_frames import Opcode, frame
from tests.host.rfc6455.raw_peer import Peer, connected
from tests.host.websocket.test_handshake import WS, port

ROUNDS = 3


async def talk(desk: Desk, end: bytes, *messages: dict[str, object]) -> Peer:
    """Say messages on a WebSocket, each after something was heard about the one before; then send *end*."""
    async with connected(port(desk.serving.url), WS, [f"Authorization: Bearer {KEYS['ann']}"]) as peer:
        for message in messages:
            await peer.say(json.dumps(message))
            await peer.next_text()
        await peer.send(end)
        if not end:
            await peer.stream.send_eof()  # type: ignore[attr-defined]
        await peer.rest()
    return peer


CLOSE = frame(Opcode.CLOSE, b"\x03\xe8")
LISTEN: dict[str, object] = {"id": "1", "listen": "events", "session": "trip", "since": "0"}


async def silent(desk: Desk) -> None:
    await talk(desk, CLOSE)


async def cut(desk: Desk) -> None:
    await talk(desk, b"", LISTEN)


async def listened(desk: Desk) -> None:
    await talk(desk, CLOSE, LISTEN, {"id": "2", "listen": "approvals", "session": "trip"})


async def called(desk: Desk) -> None:
    peer = await talk(desk, CLOSE, {"id": "1", "call": "ask", "session": "trip", "body": {"message": "go"}})
    assert peer.heard.code == 1000


async def mistaken(desk: Desk) -> None:
    await talk(desk, CLOSE, {"id": "1", "call": "nothing"}, {"id": "2", "call": "show_session", "session": "none"})


async def streamed(desk: Desk) -> None:
    async with listening(desk, "GET", "/v1/sessions/trip/events", since="0") as listener:
        await listener.until(lambda text: "AgentEnd" in text)


async def requested(desk: Desk) -> None:
    assert await answered(desk, "GET", "/v1/sessions/trip") == 200


async def prompted(desk: Desk) -> None:
    async with listening(desk, "POST", "/v1/chat/stream", message="go") as listener:
        await listener.until(lambda text: "AgentEnd" in text)


async def refused(desk: Desk) -> None:
    assert await answered(desk, "GET", "/v1/sessions/none") == 404


async def answered(desk: Desk, method: str, target: str) -> int:
    async with listening(desk, method, target) as listener:
        result: Listener = listener
        return result.status


USES = [silent, cut, listened, called, mistaken, streamed, requested, prompted, refused]


@pytest.fixture
def _saved(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Keep what the garbage collector finds, and nothing of earlier tests."""
    monkeypatch.setattr(watchdog, "SLOW", 3600.0)
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.usefixtures("_saved")
@pytest.mark.parametrize("use", USES, ids=lambda it: it.__name__)
async def test_nothing_of_it_is_in_a_cycle(use: Callable[[Desk], Awaitable[None]]) -> None:
    async with open_desk(scripted(*["fine"] * 20)) as desk:
        assert (await desk.ann.post("/v1/sessions", json={"session": "trip"})).status_code == 201
        assert (await desk.ann.post("/v1/sessions/trip/ask", json={"message": "go"})).status_code == 200
        await desk.ann.aclose()
        await use(desk)  # what is made once in a process may be in cycles
        await wait_all_tasks_blocked()
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        for _ in range(ROUNDS):
            await use(desk)
        await wait_all_tasks_blocked()
        gc.collect()
        gc.set_debug(0)
        assert Counter(type(item).__name__ for item in gc.garbage) == {}


async def test_a_host_that_has_ended_is_not_kept_to_be_counted() -> None:
    long_lived = collector._COLLECTOR._long_lived  # noqa: SLF001
    async with open_desk(scripted("one")):
        pass
    assert collector._COLLECTOR._long_lived == long_lived  # noqa: SLF001
