"""The check of an answer by the classes of those who asked for it."""

from __future__ import annotations

from typing import NoReturn

import pytest

from agentrail.hooks.live_runner import refused
from agentrail.models import JsonObject
from tests.kit import EMPTY


def fits(json_object: JsonObject) -> object:
    return json_object


def doubts(_: JsonObject) -> NoReturn:
    message = "no"
    raise ValueError(message)


def interrupts(_: JsonObject) -> NoReturn:
    raise KeyboardInterrupt


def test_an_answer_must_suit_each_reader() -> None:
    assert refused((), EMPTY) is None
    assert refused((fits, fits), EMPTY) is None
    assert refused((fits, doubts, interrupts), EMPTY) == "its class refuses it: ValueError: no"


def test_an_interrupt_is_no_refusal() -> None:
    with pytest.raises(KeyboardInterrupt):
        refused((fits, interrupts), EMPTY)
