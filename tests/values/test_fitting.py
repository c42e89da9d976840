"""What is fit to be kept stays the object that it is; what is not is rebuilt from plain parts, or refused."""

from __future__ import annotations

import pytest

from agentrail.values.content import Image, Text, Thinking
from agentrail.values.fitting import (
    MAX_PARTS,
    MAX_TEXT,
    UnfitError,
    fit_items,
    fit_part,
    fit_response,
    fit_said,
    fit_text,
)
from agentrail.values.json import FrozenObject, freeze_object
from agentrail.values.stream import Response


class Words(str):
    """A text that says that it is another one."""

    __slots__ = ()

    def isascii(self) -> bool:
        """Lie."""
        return True

    def __len__(self) -> int:
        return 0


class Loud(Text):
    """A part that a model's code has derived from one of ours."""


def test_a_plain_text_is_not_rebuilt() -> None:
    part = Text("some words")
    assert fit_part(part) is part
    assert fit_said(part) is part
    assert fit_text(part.text) is part.text


def test_a_subclass_is_rebuilt() -> None:
    made = fit_part(Loud("some words"))
    assert type(made) is Text
    assert made == Text("some words")
    assert type(fit_text(Words("some words"))) is str


def test_a_text_that_is_not_plain_is_rebuilt_whatever_it_says_of_itself() -> None:
    said = fit_said(Text(Words("half a pair: \ud800")))
    assert type(said.text) is str
    assert said == Text("half a pair: \ufffd")
    with pytest.raises(UnfitError):
        fit_part(Text(Words("x" * (MAX_TEXT + 1))))


def test_the_parts_of_a_response_are_bounded_together() -> None:
    half = "x" * (MAX_TEXT // 2 + 1)
    assert fit_response(Response((Text(half),))).parts == (Text(half),)
    with pytest.raises(UnfitError):
        fit_response(Response((Text(half), Thinking(half))))
    with pytest.raises(UnfitError):
        fit_response(Response((Text(half + half),)))


def test_a_tuple_of_too_many_items_is_refused() -> None:
    many = (Image("image/png", ""),) * (MAX_PARTS + 1)
    assert fit_items(many[1:], "parts") is not many
    with pytest.raises(UnfitError):
        fit_items(many, "parts")


def test_frozen_json_is_not_frozen_again() -> None:
    args = freeze_object({"text": "some words", "more": [1, {"deep": None}]})
    assert freeze_object(args) is args
    assert type(args["more"][1]) is FrozenObject  # type: ignore[index]
