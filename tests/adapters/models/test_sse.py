import tracemalloc

import pytest

from agentrail.adapters.models.sse import EventReader, ServerEvent
from agentrail.errors import StreamGarbled
from tests.each_case import each_case


def read(*pieces: bytes) -> list[ServerEvent]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.end()


@each_case(
    [
        (b"data: one\n\n", [("", "one")]),
        (b"data:one\n\n", [("", "one")]),
        (b"data:  one\n\n", [("", " one")]),
        (b"data\n\n", [("", "")]),
        (b"event: x\ndata: one\n\ndata: two\n\n", [("x", "one"), ("", "two")]),
        (b"event: x\n\ndata: one\n\n", [("", "one")]),
        (b"data: one\ndata:\ndata: two\n\n", [("", "one\n\ntwo")]),
        (b"data: one\r\rdata: two\r\n\r\ndata: three\n\n", [("", "one"), ("", "two"), ("", "three")]),
        (b"data: one\r\n\ndata: two\n\r\ndata: three\r\n\r", [("", "one"), ("", "two"), ("", "three")]),
        (b": comment\nid: 1\nretry: 3\nother: x\nnothing\n\ndata: one\n\n", [("", "one")]),
        (b"\xef\xbb\xbfdata: one\n\n", [("", "one")]),
        (b"data: \xef\xbb\xbfone\n\n", [("", "\ufeffone")]),
        (b"data: \xff\n\n", [("", "\ufffd")]),
        ("data: a\x0bb\x85c\u2028d\n\n".encode(), [("", "a\x0bb\x85c\u2028d")]),
        (
            b'data: one\n\n{\n  "error": {"a": 1}\n}\n\ndata: two',
            [("", "one"), ("", '{"error": {"a": 1}}'), ("", "two")],
        ),
        (b'[{\r\n "error": "no"\r\n}\r\n]', [("", '{"error": "no"}')]),
        (b'{"error": null}\n\n{"a": 1}\n\n{"error": \n\n[]\n\n{not json}\n\n', []),
        (b'data: one\n{"error": 1}\n\n', [("", "one")]),
        (b"data: one", [("", "one")]),
        (b"data: one\n", [("", "one")]),
        (b"event: x", []),
        (b"\n\n\n", []),
        (b"", []),
    ]
)
def test_events_are_read_as_the_standard_says_wherever_the_bytes_are_cut(
    stream: bytes, events: list[tuple[str, str]]
) -> None:
    wanted = [ServerEvent(*event) for event in events]
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == wanted
    for at in range(len(stream) + 1):
        for then in range(at, len(stream) + 1):
            assert read(stream[:at], stream[at:then], stream[then:]) == wanted, (at, then)


@pytest.mark.parametrize("piece", [b"data: 0123456789", b"data: 01\ndata: 23\n", b": 0123456789\n", b"x" * 10])
def test_an_event_has_a_limit(piece: bytes) -> None:
    reader = EventReader(limit=100)
    for _ in range(100 // len(piece)):
        reader.feed(piece)
    with pytest.raises(StreamGarbled, match="more than 100 bytes"):
        reader.feed(piece)


def test_the_limit_is_one_of_each_event() -> None:
    reader = EventReader(limit=20)
    assert len([event for _ in range(50) for event in reader.feed(b"data: 012345\n\n")]) == 50


def test_a_long_line_in_small_pieces_takes_no_more_time_than_it_has_bytes() -> None:
    reader = EventReader()
    reader.feed(b"data: ")
    for _ in range(20_000):
        reader.feed(b"x" * 50)
    (event,) = reader.feed(b"\n\n")
    assert len(event.data) == 1_000_000


@pytest.mark.parametrize("size", [1_000, 100_000])
def test_a_bare_error_has_a_limit_of_its_own(size: int) -> None:
    assert len(read(b'{"error": "' + b"x" * size + b'"}')) == (size < 64 * 1024)
    assert read(b"[" * size) == []


def test_what_may_be_an_error_takes_no_more_memory_than_it_has_bytes() -> None:
    reader, piece = EventReader(), b"{a\n" * 1000
    tracemalloc.start()
    try:
        for _ in range(20):
            reader.feed(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 400_000
