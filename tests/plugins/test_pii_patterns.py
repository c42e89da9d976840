"""The kinds of personal data and secrets: each finds what it should in a corpus, no more, and in bounded time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.plugins import PII_KINDS, SECRET_KINDS
from agentrail.plugins.guards.pii_patterns import PII_PATTERNS, has_luhn, patterns_of, taken_out
from tests.each_case import each_case
from tests.plugins.pii_lines import LINES, PiiLine


@each_case(PII_PATTERNS)
def test_a_kind_is_found_where_it_is_and_nowhere_else(kind: str) -> None:
    lines = [line for line in LINES if line.kind == kind]
    wrong = [
        (line.text, found) for line in lines if (found := tuple(PII_PATTERNS[kind].spans(line.text))) != line.spans
    ]
    assert wrong == []


def test_each_kind_has_lines_with_it_and_without() -> None:
    positive = Counter(line.kind for line in LINES if line.spans)
    negative = Counter(line.kind for line in LINES if not line.spans)
    assert set(positive) == set(negative) == set(PII_PATTERNS) == PII_KINDS | SECRET_KINDS
    assert all(positive[kind] >= 4 and negative[kind] >= 5 for kind in PII_PATTERNS)


@each_case([line for line in LINES if line.spans])
def test_nothing_of_what_is_found_is_left(line: PiiLine) -> None:
    patterns = patterns_of([line.kind])
    left = taken_out(line.text, patterns, "[x]")
    assert not any(line.text[begin:end] in left for begin, end in line.spans if line.kind != "url_password")
    assert left.count("[x]") == len(line.spans)
    assert taken_out(left, patterns, "[x]") == left


PIECES = (
    "4111 ",
    "1111",
    "DE89 3704 ",
    "@",
    "a.",
    "-",
    "bob@example.org",
    "::",
    "12:",
    "sk-",
    "eyJ",
    " ",
    "\n",
    "é",
    "9",
)


@pytest.mark.long
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_spans_are_in_order_apart_and_within_the_text(text: str) -> None:
    for pattern in PII_PATTERNS.values():
        last = 0
        for begin, end in pattern.spans(text):
            assert last <= begin < end <= len(text)
            last = end


@given(st.text(alphabet="0123456789", min_size=12, max_size=19))
def test_one_digit_in_ten_fits_as_the_last_of_a_card(digits: str) -> None:
    assert sum(has_luhn(digits + last) for last in "0123456789") == 1


# Time


HOSTILE = ("a" * 200_000, "1" * 200_000, "a@" * 100_000, "a." * 100_000, "1 " * 100_000, "eyJ" * 60_000, ":" * 200_000)


@pytest.mark.long
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda text: text[:4])
def test_long_texts_of_beginnings_are_searched_through(hostile: str) -> None:
    """They end: with a pattern that grows faster than the text, one of them takes hours."""
    for kind, pattern in PII_PATTERNS.items():
        assert sum(end - begin for begin, end in pattern.spans(hostile)) <= len(hostile), kind
