"""What a client of WebSocket sends, nearly right: messages changed as values and as text, and frames as bytes."""

from __future__ import annotations

import json
from random import Random
from typing import Final
from urllib.parse import parse_qsl

from agentrail.values.events.policies import POLICIES
from tests.host.http11.mutating import mutated_bytes
from tests.host.model import mutated_bodies
from tests.host.model.requests import NAMES
from tests.host.rfc6455.frame_cases import ping
from tests.host.rfc6455.raw_frames import MASK, RESERVED, Opcode, close, frame

IDS: Final = ("1", "2", "3", "€", "x" * 64, "x" * 65, "")
"""Few ids, so that one is often in use already; the last two are none."""

PARTS_OF_FRAMES: Final = (
    frame(Opcode.PING, b"p"), frame(Opcode.PONG), frame(Opcode.CONTINUATION, b"c"), close(), close(1000), close(1005),
    frame(Opcode.TEXT, b"{}", fin=False), frame(Opcode.BINARY, b"b"), frame(Opcode.TEXT, b"\xff"), b"\x81\x00",
    frame(Opcode.TEXT, told_length=2**62), frame(Opcode.TEXT, b"", width=8), *map(frame, RESERVED), MASK, b"\x00" * 9,
    b"\xff" * 14, b"\x81\xfe\xff\xff", b"\xc1", b"GET / HTTP/1.1\r\n\r\n",
)  # fmt: skip

EVENTS: Final[tuple[list[str] | None, ...]] = (None, ["AgentEnd"], [], ["Nothing"], ["TextDelta", "MessageDelta"])


def _call(chance: Random) -> bytes:
    """Return a call as a request over HTTP makes it; its body may be changed, or be no JSON."""
    route, requests = mutated_bodies.draw_request(chance)
    target, _, query = requests.target.partition("?")
    value: dict[str, object] = {"id": chance.choice(IDS), "call": route.call.name}
    if route.about_session or chance.random() < 0.05:
        value["session"] = target.split("/")[3] if route.about_session else "s1"
    if query or chance.random() < 0.05:
        value["query"] = dict(parse_qsl(query))
    if route.call.command and chance.random() < 0.4:
        value["command"] = f"k{chance.randrange(4)}"
    body = b',"body":' + requests.body if requests.body else b""
    return json.dumps(value).encode()[:-1] + body + b"}"


def _listen(chance: Random) -> object:
    what = chance.choice(("events", "events", "events", "tree", "approvals"))
    value: dict[str, object] = {"id": chance.choice(IDS), "listen": what}
    if what == "events":
        value["session"] = chance.choice(NAMES)
    if chance.random() < 0.3:
        value["since"] = chance.choice(("0", "0.0", "3.1", "", "-1", "9" * 40))
    if chance.random() < 0.3:
        value["types"] = chance.choice(EVENTS)
    if chance.random() < 0.3:
        value["policy"] = chance.choice((*POLICIES, "block", ""))
    return value


def message(chance: Random) -> bytes:
    """Return a message of a client, which may be changed."""
    if chance.random() < 0.6:
        return _call(chance)
    value = _listen(chance) if chance.random() < 0.7 else {"id": chance.choice(IDS), "end": True}
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        value = mutated_bodies.changed(chance, value)
    sent = json.dumps(value, ensure_ascii=chance.random() < 0.9).encode(errors="surrogatepass")
    if chance.random() < 0.2:
        sent = mutated_bytes(chance, sent, mutated_bodies.TOKENS, (sent,))
    return sent


def frames_of(chance: Random, payload: bytes) -> list[bytes]:
    """Return a message as frames: whole, or in fragments with pings between them."""
    if chance.random() < 0.7:
        return [frame(Opcode.TEXT, payload, mask=chance.randbytes(4))]
    cuts = sorted(chance.randrange(len(payload) + 1) for _ in range(chance.randrange(4)))
    pieces: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(payload)], strict=True):
        opcode = Opcode.CONTINUATION if pieces else Opcode.TEXT
        pieces.append(frame(opcode, payload[start:end], fin=end == len(payload) and len(pieces) >= len(cuts)))
        if chance.random() < 0.2:
            pieces.append(ping(chance.randbytes(chance.randrange(126))))
    return pieces


def connection(chance: Random, messages: int) -> tuple[list[bytes], bytes]:
    """Return frames of so many *messages* that are texts, and bytes with frames that are nearly right."""
    result = [item for _ in range(messages) for item in frames_of(chance, _text(message(chance)))]
    last = b"".join(frames_of(chance, message(chance)))
    return result, mutated_bytes(chance, last, PARTS_OF_FRAMES, result)


def _text(payload: bytes) -> bytes:
    """Return *payload* as UTF-8: what is none ends a connection."""
    return payload.decode(errors="replace").encode()
