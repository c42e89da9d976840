"""Inline tags are found however the text is split."""

from __future__ import annotations

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.core.inline_tags import LONGEST, TITLE, TagFilter, Tagged, title_in, without_tags
from agentrail.models import Text, Thinking
from tests.each_case import each_case

TAG: Final = re.compile(rf"<(status|title)>(.{{0,{LONGEST}}}?)</\1>", re.DOTALL)
"""Pattern of a tag, in one line."""

BITS: Final = (
    *("<status>", "</status>", "<title>", "</title>", "<", ">", "</", "stat", "us>", "a", " ", "\n", "ü"),
    "x" * 99,
)

TEXTS: Final = st.lists(st.sampled_from(BITS), max_size=14).map("".join)


def filtered(pieces: list[str]) -> tuple[str, list[Tagged]]:
    """Return the text without its tags, and the tags, for a text that comes in *pieces*."""
    tags = TagFilter()
    parts = [certain for piece in pieces for certain in tags.feed(piece)] + tags.end()
    text = "".join(part for part in parts if isinstance(part, str))
    return text, [part for part in parts if isinstance(part, Tagged)]


@pytest.mark.long
@given(TEXTS, st.data())
def test_any_split_of_a_text_gives_the_same(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    expected = TAG.sub("", text), [Tagged(actual[1], actual[2].strip()) for actual in TAG.finditer(text)]
    assert filtered(pieces) == expected
    assert filtered(list(text)) == expected
    parts, tags = without_tags(tuple(Text(piece) for piece in pieces))
    assert ("".join(part.text for part in parts), list(tags)) == expected
    assert all(part.text for part in parts)


@each_case(
    [
        ("a<status>looking</status>b", "ab", [Tagged("status", "looking")]),
        ("<title> The lamps\n</title>", "", [Tagged("title", "The lamps")]),
        ("<status></status>.", ".", [Tagged("status", "")]),
        ("a < b, <b>c</b> <statusx>", "a < b, <b>c</b> <statusx>", []),
        ("<status>never closed", "<status>never closed", []),
        ("<status>a</title>", "<status>a</title>", []),
        ("<Status>a</Status>", "<Status>a</Status>", []),
        ("<status>" + "x" * LONGEST + "</status>", "", [Tagged("status", "x" * LONGEST)]),
        ("<status>" + "x" * (LONGEST + 1) + "</status>", "<status>" + "x" * (LONGEST + 1) + "</status>", []),
        ("<status>a <title>b</title>", "<status>a ", [Tagged("title", "b")]),
    ]
)
def test_what_is_a_tag_and_what_is_text(text: str, remaining_text: str, tags: list[Tagged]) -> None:
    assert filtered([text]) == (remaining_text, tags)
    assert filtered(list(text)) == (remaining_text, tags)


def test_nothing_is_held_back_that_cannot_become_a_tag() -> None:
    tags = TagFilter()
    assert tags.feed("a <") == ["a "]
    assert tags.feed("b>") == ["<b>"]
    endless = "<status>" + "x" * (LONGEST + len("</status>"))
    assert tags.feed(endless) == [endless]
    assert tags.end() == []


def test_thoughts_keep_what_looks_like_a_tag_and_parts_with_nothing_else_go() -> None:
    thought = Thinking("<status>hm</status>", "seal")
    parts = (Text("<status>a</sta"), thought, Text("tus>"), Text("b"))
    assert without_tags(parts) == ((thought, Text("b")), (Tagged("status", "a"),))


def test_the_last_title_counts_in_one_line_of_at_most_60_characters() -> None:
    titles = (Tagged("title", "first"), Tagged("title", "all  the\nlamps " + "x" * 90), Tagged("title", ""))
    assert title_in(titles) == "all the lamps " + "x" * (TITLE - 14)
    assert title_in((Tagged("status", "a"),)) == ""
