"""The kinds of personal data and secrets: each finds what it should in a corpus, no more, and in bounded time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail.plugins import PII_KINDS, SECRET_KINDS
from agentrail.plugins.guards.linear_patterns import MAX_PATTERN, MAX_REPEATED, MAX_STEPS, flaw_of, width_of
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


@each_case(PII_PATTERNS)
def test_the_steps_of_a_kind_are_bounded_at_each_place(kind: str) -> None:
    assert flaw_of(PII_PATTERNS[kind].pattern.pattern) is None


HOSTILE = ("a" * 200_000, "1" * 200_000, "a@" * 100_000, "a." * 100_000, "1 " * 100_000, "eyJ" * 60_000, ":" * 200_000)


@pytest.mark.long
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda text: text[:4])
def test_long_texts_of_beginnings_are_searched_through(hostile: str) -> None:
    """They end: with a pattern that grows faster than the text, one of them takes hours."""
    for kind, pattern in PII_PATTERNS.items():
        assert sum(end - begin for begin, end in pattern.spans(hostile)) <= len(hostile), kind


REFUSED = {
    r"(a+)+b": "repeats a character without a bound",
    r"(a|a)*b": "repeats a group more than",
    r"(?:a{1,60}){1,60}b": f"may take more than {MAX_STEPS:,} steps",
    r"\w+@": "repeats a character without a bound",
    r"\d{1,50}\d{1,50}\d{1,50}x": f"may take more than {MAX_STEPS:,} steps",
    r".*secret": "repeats a character without a bound",
    r"x[ab]*[ab]*c": "repeats characters without a bound in two places",
    r"-.{0,400}[^-]*y": f"may take more than {MAX_STEPS:,} steps",
    r"-(?:[a-z]|-.){0,50}[^-]*y": f"may take more than {MAX_STEPS:,} steps",
    r"x[ab]*+[ab]*+c": "repeats characters without a bound in two places",
    r"a(?=.*b)": "repeats a character without a bound",
    r"a.*?(?:b|\Z)": "repeats a character without a bound",
    r"BEGIN[\x00-\xff]*?(?:END|\Z)": "repeats a character without a bound",
    r"BEGIN[\w\x00-\u2000]*?(?:END|\Z)": "repeats a character without a bound",
    r"BEGIN[^\u3000]*?(?:END|\Z)": "repeats a character without a bound",
    r"(a)\1": "refers back to a group",
    r"(a)?(?(1)b|c)": "refers back to a group",
    r"a*": "matches the empty text",
    r"": "matches the empty text",
    r"(": "is no regular expression",
    r"(?i)K[a-z]+!": "repeats a character without a bound",
    "a" * 5000: "has more than 4,096 characters",
}


@each_case(REFUSED)
def test_a_pattern_that_may_take_very_long_is_refused_with_the_reason(pattern: str) -> None:
    assert (flaw_of(pattern) or "nothing").startswith(REFUSED[pattern])


ACCEPTED = (
    (r"sk-[A-Za-z0-9]{4,}", None),
    (r"secret-\d{1,20}", 27),
    (r"(?s)BEGIN KEY.*?(END KEY|\Z)", None),
    (r"BEGIN KEY[\s\S]*?(?:END KEY|\Z)", None),
    (r"BEGIN KEY[\x00-\U0010ffff]*?(?:END KEY|\Z)", None),
    (r"#[0-9]+;", None),
    (r"-.{1,20}[^-]*;", None),
    (r"(?:key|token)\s{0,9}=\s{0,9}\"[^\"]*\"", None),
    (r"(?i)project (?:x|y|zeta)", 12),
    (r"\b[A-Z]{2}\d{6}\b", 8),
    (r"a(?:bc){1,50}+d", 102),
    (r"(?<=id )\w{1,40}+", 40),
    (r"[0-9]{1,3}(?:,[0-9]{3}){1,4} EUR", 23),
)


@each_case(ACCEPTED)
def test_a_pattern_whose_time_is_bounded_is_accepted_with_its_width(pattern: str, width: int | None) -> None:
    assert (flaw_of(pattern), width_of(pattern)) == (None, width)


def flaws(pattern: Callable[[int], str], limit: int) -> list[str | None]:
    """Return the flaws of the patterns of three sizes: one below *limit*, at it, and one above it."""
    return [(flaw_of(pattern(size)) or "")[:40] or None for size in (limit - 1, limit, limit + 1)]


def test_a_pattern_takes_so_many_steps_repeats_a_group_so_often_and_has_so_many_characters() -> None:
    assert flaws(lambda steps: f"a{{1,{steps - 1}}}+", MAX_STEPS) == [
        None,
        None,
        "may take more than 2,000 steps at each p",
    ]
    assert flaws(lambda often: f"(?:ab){{1,{often}}}+", MAX_REPEATED) == [
        None,
        None,
        "repeats a group more than 100 times; say",
    ]
    assert flaws(lambda size: "a(?#".ljust(size - 1) + ")", MAX_PATTERN) == [
        None,
        None,
        "has more than 4,096 characters",
    ]


PARTS = st.recursive(
    st.sampled_from(["a", r"\d", "[^x]", ".", r"(?<=ab)", r"\b", "ab{1,1999}", "x{2000}", "c{3,}+"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda ways: f"(?:{'|'.join(ways)})"),
        st.builds("(?:{}){{{},{}}}{}".format, inner, st.just(1), st.integers(1, 100), st.sampled_from(["", "?", "+"])),
    ),
    max_leaves=6,
)


@pytest.mark.long
@given(PARTS)
@settings(max_examples=200)
def test_a_pattern_that_is_accepted_is_no_wider_than_the_steps_that_it_may_take(pattern: str) -> None:
    """So all of its match is held while a response is streamed, and a session holds no more than that."""
    if flaw_of(pattern) is None:
        assert (width_of(pattern) or 0) <= MAX_STEPS
