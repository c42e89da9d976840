"""A WebSocket is closed with a code that says why."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail.api.limits import SOCKET_MISTAKES
from agentrail.errors import NotAuthenticated
from agentrail.host import ApiKeys, HostLimits, Identity
from agentrail.host.authentication.api_keys import NO_SUCH_KEY
from agentrail.host.websocket import socket_connection
from tests.host.hosted import KEYS, LINES, MADE, Desk, open_desk, scripted
from tests.host.rfc6455.raw_frames import Opcode, frame
from tests.host.rfc6455.raw_peer import Heard, connected
from tests.host.test_streams import write_keys
from tests.host.websocket.talking import finding_of, problem, read_message, talking
from tests.host.websocket.test_handshake import WS, port


async def answered(desk: Desk, *sent: bytes) -> Heard:
    """Send frames, and return what is heard up to the end of the connection."""
    async with connected(port(desk.serving.url), WS, [f"Authorization: Bearer {KEYS['ann']}"]) as peer:
        await peer.send(*sent)
        return await peer.rest()


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(Opcode.TEXT, b"\xff\xfe"), 1007),
        (frame(Opcode.CLOSE, b"\x03\xe8bye"), 1000),
        (frame(Opcode.CLOSE, b""), None),
        (b"\xf1\x80\x00\x00\x00\x00", 1002),
    ],
    ids=["utf-8", "close", "bare close", "reserved"],
)
async def test_what_breaks_the_rules_of_the_protocol_is_answered_by_a_close(sent: bytes, code: int | None) -> None:
    async with open_desk(scripted("one")) as desk:
        heard = await answered(desk, sent)
        assert (heard.code, len(heard.closes)) == (code, 1)


LIMITS = HostLimits(body_bytes=1000, header_bytes=1000, drain_seconds=0.5)


def padded(size: int, filler: str) -> bytes:
    """Return a message of so many bytes."""
    bare = json.dumps({"id": "1", "call": "messages", "session": ""}).encode()
    more = size - len(bare)
    wide = len(filler.encode())
    name = filler * (more // wide) + "x" * (more % wide)  # too long for a name, but it is read
    return json.dumps({"id": "1", "call": "messages", "session": name}, ensure_ascii=False).encode()


@pytest.mark.parametrize("filler", ["x", "€"])
@pytest.mark.parametrize(("size", "code"), [(1999, None), (2000, None), (2001, 1009), (5000, 1009)])
async def test_a_message_has_so_many_bytes_and_no_more(size: int, code: int | None, filler: str) -> None:
    async with open_desk(scripted("one"), limits=LIMITS) as desk:
        message = padded(size, filler)
        assert len(message) == size
        async with connected(port(desk.serving.url), WS, [f"Authorization: Bearer {KEYS['ann']}"]) as peer:
            await peer.send(frame(Opcode.TEXT, message))
            if code is None:
                assert problem(read_message(await peer.next_text())) == "bad-frame"
            else:
                assert (await peer.rest()).code == code


@pytest.mark.parametrize("most", [1, 3, SOCKET_MISTAKES])
@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_so_many_messages_may_be_wrong_and_no_more(most: int, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_connection, "SOCKET_MISTAKES", most)
    async with open_desk(scripted("one")) as desk, talking(desk) as talker:
        for number in range(min(most, most + more)):
            await talker.say(id=f"{number}", call="none")
            message = await talker.heard()
            assert (message["id"], problem(message)) == (f"{number}", "bad-frame")
        assert (await talker.ask("commands"))["status"] == 200
        if more > 0:
            await talker.socket.send_message(b"binary")
            assert finding_of(await talker.heard()) == "the message does not fit: it is binary, and not text"
            assert await talker.closed() == (1008, "too many messages that do not fit")


class Broken(ApiKeys):
    """Authenticator with a fault: once it is broken, it raises what it should not."""

    is_broken = False

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        if self.is_broken:
            raise ValueError(SECRET)
        return await super().identify(headers)


SECRET: Final = "a path that no client may see"


@pytest.mark.parametrize("user", ["ann", None])
async def test_a_fault_of_the_host_ends_the_socket_and_no_other(
    user: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    keys = Broken(lines=LINES)
    limits = HostLimits(heartbeat_seconds=0.05, drain_seconds=0.5)
    async with open_desk(scripted("one"), limits=limits, keys=keys) as desk, talking(desk, user) as talker:
        if user is None:  # its first message has the key, which is looked at in a task of its own
            keys.is_broken = True
            await talker.say(key=KEYS["ann"])
        else:  # the key is looked at again and again
            assert (await talker.ask("commands"))["status"] == 200
            keys.is_broken = True
        assert await talker.closed() == (1011, "a fault of the host")
        keys.is_broken = False
        async with talking(desk) as again:
            assert (await again.ask("commands"))["status"] == 200
    (record,) = [entry for entry in caplog.records if entry.name == "agentrail.host" and entry.levelno >= logging.ERROR]
    assert record.getMessage().startswith("a WebSocket failed")
    assert SECRET not in caplog.text


async def test_a_key_that_is_withdrawn_ends_the_socket(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    rows = {name: row for name, (row, _) in MADE.items()}
    write_keys(file, rows)
    limits = HostLimits(heartbeat_seconds=0.05, drain_seconds=0.5)
    opened = open_desk(scripted("one"), limits=limits, keys=ApiKeys(file))
    async with opened as desk, talking(desk) as talker, talking(desk, "bob") as bob:
        assert (await talker.ask("commands"))["status"] == 200
        write_keys(file, {name: row for name, row in rows.items() if name != "ann"})
        assert await talker.closed() == (1008, "the key is not valid")
        assert (await bob.ask("commands"))["status"] == 200


class Withdrawing(ApiKeys):
    """Keys that are withdrawn all at once, of which no stream is told."""

    is_withdrawn = False

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        if self.is_withdrawn:
            raise NotAuthenticated(NO_SUCH_KEY)
        return await super().identify(headers)


async def test_a_call_with_a_key_that_is_withdrawn_is_refused_at_once() -> None:
    keys = Withdrawing(lines=LINES)
    async with open_desk(scripted("one"), keys=keys) as desk, talking(desk) as talker:
        assert (await talker.ask("commands"))["status"] == 200
        keys.is_withdrawn = True
        message = await talker.ask("commands")
        assert (message["status"], problem(message)) == (401, "not-authenticated")
        assert await talker.closed() == (1008, "the key is not valid")


async def test_a_client_that_is_not_there_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_connection, "PONG_SECONDS", 1.0)
    limits = HostLimits(ping_seconds=0.05, drain_seconds=0.5)
    async with open_desk(scripted("one"), limits=limits) as desk:
        heard = await answered(desk)  # it answers no ping
        assert (heard.code, heard.reason) == (1008, "no pong came in time")
        async with talking(desk) as talker:  # it does
            with trio.move_on_after(1.5):
                await talker.socket.get_message()
            assert (await talker.ask("commands"))["status"] == 200


async def test_a_ping_after_the_close_of_the_host_does_no_harm(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_connection, "SOCKET_MISTAKES", 1)
    async with open_desk(scripted("one")) as desk:
        async with connected(port(desk.serving.url), WS, [f"Authorization: Bearer {KEYS['ann']}"]) as peer:
            await peer.say("[]")
            await peer.say("[]")
            while not peer.heard.closes:
                assert await peer.more()
            await peer.send(frame(Opcode.PING, b"late"), frame(Opcode.CLOSE, b"\x03\xf0"))
            heard = await peer.rest()
        assert (heard.code, heard.pongs, len(heard.closes)) == (1008, [], 1)
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []
