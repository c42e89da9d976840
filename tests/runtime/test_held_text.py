"""What is told of a response while it is screened: nothing that is taken out, in pieces, at a bounded cost."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.hooks.plugin_checks import MAX_SCREENED
from agentrail.runtime.work.screening import LONGEST, HeldText

CANARY = "SECRET. which\ngoes on"
SENTENCE = "A sentence of the usual length, as models write it. "


def masked(text: str) -> str:
    return text.replace(CANARY, "***")


class Counted:
    """Screens texts, and counts their characters."""

    def __init__(self, pattern: str) -> None:
        self.pattern = re.compile(pattern, re.DOTALL)
        self.characters = 0

    def __call__(self, text: str) -> str:
        self.characters += len(text)
        return self.pattern.sub("***", text)


def told_pieces(text: str, cuts: list[int], held: HeldText) -> list[tuple[str, str]]:
    """Feed *text* in pieces that end at *cuts*; return the pieces that were told, as received and as told."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pieces = [held.feed(text[begin:end]) for begin, end in pairwise(places)]
    return [*pieces, held.end()]


FILLERS = st.sampled_from(["word ", SENTENCE, "x" * 50, "\n\n", "SECRET. ", "SECRET. which\n", "end.\n", "。", CANARY])


@pytest.mark.long
@given(st.lists(FILLERS, max_size=40).map("".join), st.lists(st.integers(0, 5000), max_size=60))
def test_however_a_text_is_cut_what_is_told_is_the_screened_text(text: str, cuts: list[int]) -> None:
    pieces = told_pieces(text, cuts, HeldText(masked, MAX_SCREENED))
    assert "".join(received for received, _ in pieces) == text
    assert "".join(shown_value for _, shown_value in pieces) == masked(text)
    assert all(masked(received) == visible for received, visible in pieces)


def test_a_sentence_is_told_when_enough_has_come_after_it() -> None:
    held = HeldText(masked, MAX_SCREENED)
    assert held.feed(SENTENCE) == ("", "")
    assert held.feed("x" * (MAX_SCREENED - 1)) == ("", "")
    assert held.feed("x" * 32) == (SENTENCE, SENTENCE)
    assert held.end() == ("x" * (MAX_SCREENED + 31),) * 2


def test_a_secret_with_ends_of_sentences_in_it_is_found_though_it_comes_in_pieces() -> None:
    held = HeldText(masked, MAX_SCREENED)
    pieces = [held.feed(letter) for letter in SENTENCE * 9 + CANARY + SENTENCE * 9]
    text = "".join(visible for _, visible in (*pieces, held.end()))
    assert text == SENTENCE * 9 + "***" + SENTENCE * 9


def test_a_text_without_ends_is_told_too() -> None:
    for letters in ("x" * 5000, "word " * 1000):
        held = HeldText(masked, MAX_SCREENED)
        old_text = "".join(held.feed(letter)[1] for letter in letters)
        assert len(letters) - len(old_text) <= LONGEST + MAX_SCREENED + 32
        assert old_text + held.end()[1] == letters


def test_a_secret_of_any_length_is_held_if_its_beginning_alone_is_taken_out() -> None:
    screen = Counted(r"BEGIN.*?(END|\Z)")
    held = HeldText(screen, MAX_SCREENED)
    text = SENTENCE * 9 + "BEGIN " + "line of a key\n" * 500 + "END" + SENTENCE * 9
    shown_text = "".join(held.feed(letter)[1] for letter in text) + held.end()[1]
    assert shown_text == SENTENCE * 9 + "***" + SENTENCE * 9


def test_the_work_grows_as_the_text_does() -> None:
    for unit, pattern in (
        (SENTENCE, "never"),
        ("a. ", "never"),
        ("x", "never"),
        ("key\n", r"key.*"),
        ("x\n", r"\A.*\Z"),
    ):
        work = []
        for length in (20_000, 40_000):
            screen = Counted(pattern)
            held = HeldText(screen, MAX_SCREENED)
            for index in range(0, length, 4):
                held.feed((unit * 4)[index % len(unit) :][:4])
            held.end()
            work.append(screen.characters / length)
        assert work[1] < max(1.5 * work[0], 20), (unit, pattern, work)
        assert max(work) < 60, (unit, pattern, work)
