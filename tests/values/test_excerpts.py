"""A list of messages, written as ranges of a history, is the same objects again."""

import random

import pytest

from agentrail.models import History, Message, Text, UserMessage
from agentrail.values.messages import MessageRange, Rearranged, rearrange


def said(text: str) -> Message:
    return UserMessage((Text(text),))


def test_any_list_is_made_again_of_its_ranges_with_the_same_objects() -> None:
    chance = random.Random(1)
    for _ in range(2_000):
        history = History([said("equal") for _ in range(chance.randrange(8))])
        messages = [chance.choice([*history, said("equal")]) for _ in range(chance.randrange(8))]
        start = chance.randrange(len(history) + 1)
        messages[chance.randrange(len(messages) + 1) :] = history[start:]
        again = rearrange(history, messages).of(history)
        assert [id(message) for message in again] == [id(message) for message in messages]


def test_what_was_trimmed_or_changed_in_one_place_takes_few_pieces() -> None:
    history = History([said(str(n)) for n in range(100)])
    other = said("other")
    assert rearrange(history, history[-9:]).pieces == (MessageRange(91, 100),)
    changed = rearrange(history, (*history[:40], other, *history[41:]))
    assert changed.pieces == (MessageRange(0, 40), other, MessageRange(41, 100))


@pytest.mark.parametrize(
    "piece", [MessageRange(0, 3), MessageRange(-1, 1), MessageRange(1, 1), MessageRange(2, 1)], ids=repr
)
def test_a_range_that_the_history_does_not_have_is_refused(piece: MessageRange) -> None:
    history = History([said("a"), said("b")])
    with pytest.raises(ValueError, match=f"messages {piece.start} to {piece.stop} of a history of 2"):
        Rearranged((piece,)).of(history)
