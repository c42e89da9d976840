"""The text of a memory file, as the model gets it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.values.content import MAX_MEMORY, memory_text

MARK = f"\n\n[cut here: the file has {{}} bytes, and at most {MAX_MEMORY} of it are shown]"


@pytest.mark.parametrize("found", ["", "Use metres.\n", "é" * (MAX_MEMORY // 2), "x" * MAX_MEMORY])
def test_a_file_of_at_most_64_kib_is_whole(found: str) -> None:
    assert memory_text(found) == memory_text(found.encode()) == found


def test_a_larger_file_is_cut_at_the_end_of_a_line_with_a_mark() -> None:
    line = "a" * 99 + "\n"
    assert memory_text(line * 1000) == (line * 654).removesuffix("\n") + MARK.format(100_000)


def test_a_file_of_which_only_the_beginning_was_read_says_how_large_it_is() -> None:
    assert memory_text(b"x" * (MAX_MEMORY + 1), 2**40) == "x" * (MAX_MEMORY - 81) + MARK.format(2**40)


def test_a_line_that_is_longer_than_half_of_it_is_cut_inside() -> None:
    assert memory_text("short\n" + "é" * MAX_MEMORY) == "short\n" + "é" * 32728 + MARK.format(6 + 2 * MAX_MEMORY)


def test_a_byte_order_mark_is_left_out() -> None:
    assert memory_text(b"\xef\xbb\xbfUse metres.") == "Use metres."


@given(st.binary(max_size=64) | st.text(max_size=64), st.integers(0, 4_000))
def test_whatever_the_file_holds_the_text_is_valid_and_within_the_limit(found: str | bytes, times: int) -> None:
    text = memory_text(found * times)
    assert len(text.encode()) <= MAX_MEMORY
