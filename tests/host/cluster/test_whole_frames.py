"""Frames that come in pieces are put together in time that grows with their length alone."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.host.cluster.holder_connection import WholeFrames


@pytest.mark.long
@given(st.lists(st.text("ab\n", max_size=5).map(str.encode), max_size=12))
def test_what_is_whole_is_given_once_and_the_rest_is_kept(pieces: list[bytes]) -> None:
    frames = WholeFrames()
    given_ = b"".join(map(frames.add, pieces))
    assert given_ + frames.rest() == b"".join(pieces)
    assert not given_ or given_.endswith(b"\n\n")
    assert b"\n\n" not in frames.rest()


def test_a_huge_frame_is_not_copied_for_each_piece() -> None:
    frames, piece, count = WholeFrames(), b"x" * 1024, 4000
    began = time.process_time()
    assert {frames.add(piece) for _ in range(count)} == {b""}
    assert len(frames.add(b"\n\n")) == count * len(piece) + 2
    assert time.process_time() - began < 0.5  # it takes a hundredth of that, and seconds if each piece copies the frame
