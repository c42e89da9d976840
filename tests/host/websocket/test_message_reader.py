"""`MessageReader` refuses what RFC 6455 forbids as soon as it is seen, and reads the rest as wsproto does."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wsproto import events
from wsproto.connection import Connection, ConnectionState, ConnectionType

from agentrail.api.socket_frames import TOO_LARGE
from agentrail.host.http11.websocket_protocol import (
    BINARY,
    FRAGMENT,
    NO_CODE,
    PING,
    PONG,
    TEXT,
    BrokenRule,
    Closed,
    MessageReader,
    Ping,
    Pong,
    Received,
    close_frame,
    frame,
)
from tests.host.rfc6455.frame_cases import CASES, each_byte, more, sizes, text
from tests.host.rfc6455.mutated_frames import connection

MOST: Final = 120_000
LATER_CODE: Final = 1014
"""A code that wsproto does not know."""
REST: Final = b"\x80" + bytes(13)
"""What ends the head of any frame: wsproto looks at none before, and this reader at each byte that comes."""
EVERY: Final = (*CASES, *sizes(MOST))


def reader(most: int = MOST) -> MessageReader:
    return MessageReader(most)


def read(reading: MessageReader, pieces: Iterable[bytes]) -> tuple[int | None, list[Received]]:
    """Return the code with which the connection is closed, or `None`, and what is read."""
    received = [message for piece in pieces for message in reading.read(piece)]
    return None if reading.broken is None else reading.broken.code, received


@pytest.mark.long
@pytest.mark.parametrize("pieces", ["whole", "by bytes"])
def test_each_case_of_the_rfc_is_judged_as_it_says(pieces: str) -> None:
    wrong: dict[str, object] = {}
    for case in EVERY:
        sent = b"".join([*case.first, *case.last])
        code, _ = read(reader(), [sent] if pieces == "whole" else each_byte(sent))
        if code != (case.code if case.breaks else None):
            wrong[case.name] = code
    assert wrong == {}


def test_what_comes_before_the_frame_that_breaks_a_rule_is_read() -> None:
    full_frame = text(b"a")
    assert reader().read(full_frame + b"\x83") == ["a"]
    reading = reader()
    assert [reading.read(full_frame + b"\x81"), reading.read(b"\x00"), reading.read(full_frame)] == [["a"], [], []]
    assert reading.broken == BrokenRule(1002, "a frame has no mask")


def test_a_close_frame_is_the_last_that_is_read() -> None:
    reading = reader()
    close = b"\x88\x80\x00\x00\x00\x00"
    assert [reading.read(close + b"\xff"), reading.read(b"\xff")] == [[Closed(NO_CODE, "")], []]
    assert reading.broken is None


@pytest.mark.parametrize(("count", "code"), [(9, None), (10, None), (11, 1009)])
def test_empty_fragments_count(count: int, code: int | None) -> None:
    fragments = [text(b"", fin=False), *[more(b"", fin=False)] * (count - 1)]
    assert read(reader(9 * FRAGMENT), fragments)[0] == code


def read_by_wsproto(sent: bytes, kind: ConnectionType) -> tuple[int | None, list[Received]]:
    """Return what wsproto makes of it, as `read` does."""
    connection, received = Connection(kind), list[Received]()
    connection.receive_data(sent)
    parts: list[str | bytes] = []
    for event in connection.events():
        match event:
            case events.Message(data=data, message_finished=is_whole):
                parts.append(data)
                if is_whole:
                    received.append(type(data)().join(parts))
                    parts.clear()
            case events.Ping(payload=content):
                received.append(Ping(bytes(content)))
            case events.Pong(payload=content):
                received.append(Pong(bytes(content)))
            case events.CloseConnection(code=code, reason=reason):
                if connection.state is ConnectionState.OPEN:
                    return code, received
                received.append(Closed(code, reason or ""))
            case _:
                raise AssertionError(event)
    return None, received


@pytest.mark.long
@example(172, [])  # it ends in the first byte of a frame that breaks a rule
@given(st.integers(0, 2**64), st.lists(st.integers(1, 300), max_size=20))
def test_wsproto_reads_the_same_however_it_is_cut(seed: int, cuts: list[int]) -> None:
    frames, last = connection(Random(seed), 2)
    sent = b"".join([*frames, last])
    code, received = read(reader(), [sent])
    later = [message for message in received if isinstance(message, Closed) and message.code == LATER_CODE]
    if code != TOO_LARGE and not later:
        seen = sent if code is None else sent + REST
        assert read_by_wsproto(seen, ConnectionType.SERVER) == (code, received)
    pieces, offset = list[bytes](), 0
    for cut in [*cuts, len(sent)]:
        pieces.append(sent[offset : offset + cut])
        offset += cut
    assert read(reader(), pieces) == (code, received)


# What is written

SIZES: Final = (0, 1, 125, 126, 127, 65_535, 65_536, 65_537)


@pytest.mark.parametrize("size", SIZES)
def test_frames_that_are_written_are_read_by_wsproto(size: int) -> None:
    content = bytes(range(256)) * 257
    sent = frame(TEXT, b"a" * size) + frame(BINARY, content[:size])
    sent += frame(PING, content[: min(size, 125)]) + frame(PONG, b"") + close_frame(1012, "later")
    received = ["a" * size, content[:size], Ping(content[: min(size, 125)]), Pong(b""), Closed(1012, "later")]
    assert read_by_wsproto(sent, ConnectionType.CLIENT) == (None, received)


@pytest.mark.parametrize("size", SIZES)
def test_frames_that_wsproto_writes_are_read(size: int) -> None:
    client = Connection(ConnectionType.CLIENT)
    content = bytes(range(256)) * 257
    sent = client.send(events.TextMessage("a" * size)) + client.send(events.BytesMessage(content[:size]))
    sent += client.send(events.Ping(content[: min(size, 125)])) + client.send(events.CloseConnection(1012, "later"))
    received = ["a" * size, content[:size], Ping(content[: min(size, 125)]), Closed(1012, "later")]
    assert read(reader(), [sent]) == (None, received)


def test_a_reason_is_cut_between_characters() -> None:
    sent = close_frame(1008, "\u20ac" * 50)
    assert read_by_wsproto(sent, ConnectionType.CLIENT) == (None, [Closed(1008, "\u20ac" * 41)])


def test_a_close_without_a_code_is_empty() -> None:
    assert close_frame(NO_CODE, "") == b"\x88\x00"
