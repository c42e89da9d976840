"""`StrictFrames` refuses what RFC 6455 forbids as soon as it is seen, and lets through what wsproto takes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import pytest
import wsproto
from hypothesis import given
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionState, ConnectionType

from agentrail.host.websocket.frame_checks import FRAGMENT, BrokenRule, StrictFrames
from tests.host.rfc6455.frame_cases import CASES, each_byte, message, more, sizes, text
from tests.host.rfc6455.mutated_frames import connection

MOST: Final = 120_000
EVERY: Final = (*CASES, *sizes(MOST))
LATER_CODE: Final = 1014
"""A code that wsproto does not know, so it is answered by us."""


def read(frames: StrictFrames, pieces: Iterator[bytes] | list[bytes]) -> tuple[int | None, bytes]:
    """Return the code with which the connection is closed, or `None`, and what is read on."""
    given = b"".join(map(frames.read, pieces))
    return None if frames.broken is None else frames.broken.code, given


@pytest.mark.long
@pytest.mark.parametrize("pieces", ["whole", "by bytes"])
def test_each_case_of_the_rfc_is_judged_as_it_says(pieces: str) -> None:
    wrong: dict[str, object] = {}
    for case in EVERY:
        sent = b"".join([*case.first, *case.last])
        found, given = read(StrictFrames(MOST), [sent] if pieces == "whole" else each_byte(sent))
        wanted = case.code if case.breaks or case.code == LATER_CODE else None
        if found != wanted or (found is None and not sent.startswith(given)):
            wrong[case.name] = found
    assert wrong == {}


def test_what_comes_before_the_frame_that_breaks_a_rule_is_read_on() -> None:
    whole = text(message("a"))
    assert StrictFrames(MOST).read(whole + b"\x83") == whole
    frames = StrictFrames(MOST)
    assert [frames.read(whole + b"\x81"), frames.read(b"\x00"), frames.read(whole)] == [whole + b"\x81", b"", b""]
    assert frames.broken == BrokenRule(1002, "a frame has no mask")


def test_a_close_frame_is_the_last_that_is_read_on() -> None:
    frames = StrictFrames(MOST)
    close = b"\x88\x80\x00\x00\x00\x00"
    assert [frames.read(close + b"\xff"), frames.read(b"\xff"), frames.broken] == [close, b"", None]


@pytest.mark.parametrize(("count", "code"), [(9, None), (10, None), (11, 1009)])
def test_empty_fragments_count(count: int, code: int | None) -> None:
    frames = StrictFrames(9 * FRAGMENT)
    assert read(frames, [text(b"", fin=False), *[more(b"", fin=False)] * (count - 1)])[0] == code


def taken_by_wsproto(given: bytes) -> bool:
    """Whether wsproto reads on to the end, or to a close frame."""
    reader = Connection(ConnectionType.SERVER)
    reader.receive_data(given)
    return all(
        not isinstance(event, wsproto.events.CloseConnection) or reader.state is ConnectionState.REMOTE_CLOSING
        for event in reader.events()
    )


@given(st.integers(0, 2**64), st.lists(st.integers(1, 300), max_size=20))
def test_wsproto_takes_what_is_let_through_however_it_is_cut(seed: int, cuts: list[int]) -> None:
    frames, last = connection(Random(seed), 2)
    sent = b"".join([*frames, last])
    code, given = read(StrictFrames(MOST), [sent])
    assert taken_by_wsproto(given)
    pieces, place = list[bytes](), 0
    for cut in [*cuts, len(sent)]:
        pieces.append(sent[place : place + cut])
        place += cut
    again, other = read(StrictFrames(MOST), pieces)
    assert again == code
    assert other.startswith(given)
    assert taken_by_wsproto(other)
