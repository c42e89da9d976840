import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import fragment_list_to_text
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import Transformation, TransformationInput

from agentrail.cli.output.screen import clean
from agentrail.cli.talk.live import typed_keys
from agentrail.cli.talk.live.drawn_text import MOST, DrawnText
from agentrail.cli.talk.live.typed_keys import BEGIN, END, LONGEST_TYPED, TypedKeys


@contextmanager
def a_terminal() -> Generator[tuple[TextIO, int], None, None]:
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, encoding="utf-8") as source:
        yield source, ours


def keys_of(*chunks: str) -> list[tuple[str, str]]:
    """Return the keys that *chunks* are, each of which is read by itself, when nothing more comes."""
    with a_terminal() as (source, number):
        keys = TypedKeys(source)
        pressed = list[KeyPress]()
        with keys.raw_mode():
            for chunk in chunks:
                os.write(number, chunk.encode())
                pressed += keys.read_keys()
        return [(key.key, key.data) for key in [*pressed, *keys.flush_keys()]]


def test_a_paste_is_one_key_however_it_arrives() -> None:
    text = "one\r\ttwo"
    assert keys_of(f"{BEGIN}{text}{END}x") == [(Keys.BracketedPaste, text), ("x", "x")]
    assert keys_of(BEGIN[:3], BEGIN[3:] + text[:4], text[4:] + END[:2], END[2:]) == [(Keys.BracketedPaste, text)]


def test_a_long_text_that_is_not_marked_is_pasted_too() -> None:
    text = "x" * (LONGEST_TYPED + 1)
    assert keys_of(text) == [(Keys.BracketedPaste, text)]
    assert keys_of(text, text, "\r") == [(Keys.BracketedPaste, text * 2), (Keys.ControlM, "\r")]
    assert keys_of(text[1:]) == [("x", "x")] * LONGEST_TYPED
    assert keys_of(BEGIN + "a", text, END) == [(Keys.BracketedPaste, f"a{text}")]


def test_a_paste_whose_end_is_lost_ends_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(typed_keys, "monotonic", lambda: now[0])
    with a_terminal() as (source, number):
        keys = TypedKeys(source)
        with keys.raw_mode():
            os.write(number, f"{BEGIN}lost".encode())
            assert keys.read_keys() == []
        assert keys.end_lost_paste() == []
        now[0] = 1.5
        assert [(key.key, key.data) for key in keys.end_lost_paste()] == [(Keys.BracketedPaste, "lost")]
        assert keys.end_lost_paste() == []


def drawn(text: str, cursor: int = 0) -> tuple[str, Transformation]:
    document = Document(text, cursor)
    line = TransformationInput(BufferControl(Buffer()), document, 0, lambda index: index, [("", text)], 80, 24)
    transformation = DrawnText().apply_transformation(line)
    return fragment_list_to_text(transformation.fragments), transformation


@given(st.text(max_size=30), st.integers(0, 30))
def test_typed_text_is_drawn_so_that_it_harms_no_terminal(text: str, cursor: int) -> None:
    text = text.replace("\n", "").replace("\r", "")
    text_drawn, transformation = drawn(text, min(cursor, len(text)))
    assert not set(text_drawn) & set("\x1b\x07\x9b\t\u202e")
    for index in range(len(text) + 1):
        column = transformation.source_to_display(index)
        assert column == len(clean(text[:index]))
        assert transformation.display_to_source(column) == index


def test_what_could_mislead_is_replaced_and_tabs_are_spaces() -> None:
    assert drawn("a\t\x1b[2J\u202e")[0] == "a    \ufffd[2J\ufffd"


@pytest.mark.parametrize("cursor", [0, 500_000, 1_000_000])
def test_of_a_long_line_only_what_is_around_the_cursor_is_drawn(cursor: int) -> None:
    text_drawn, transformation = drawn("x" * cursor + "y" * (1_000_000 - cursor), cursor)
    assert len(text_drawn) <= 2 * MOST
    assert text_drawn[: transformation.source_to_display(cursor)] == "x" * min(cursor, MOST)
