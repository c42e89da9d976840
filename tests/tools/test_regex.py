"""The search in counted steps says what `re` says, and takes the steps that it may."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentrail.tools.json_schema.regex import MAX_GROUPS, MAX_PATTERN, Regex, UnusableError, flaw_of
from agentrail.values.step_budget import CHECK_STEPS, Meter, TooManyStepsError
from tests.each_case import each_case

PLENTY = 10_000_000

atoms = st.sampled_from(
    [
        "a",
        "b",
        "c",
        ".",
        "[ab]",
        "[^a]",
        r"\w",
        r"\s",
        r"\d",
        "^",
        "$",
        r"\b",
        r"\B",
        "x{2}",
        " ",
        "",
        "A",
        r"\n",
        r"\A",
        r"\Z",
    ]
)
times = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{1,2}", "{0,3}", "{2}", "{1,}?"])
ahead = st.sampled_from(["(?=", "(?!", "(?i:", "(?s:", "(?m:", "(?a:", "("])
behind = st.sampled_from(["(?<=a)", "(?<!a)", "(?<=b )", "(?<![ab]c)", "(?<=.)"])
patterns = st.recursive(
    atoms | behind,
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})")
        | st.tuples(inner, times).map(lambda two: f"(?:{two[0]}){two[1]}")
        | st.tuples(ahead, inner).map(lambda two: f"{two[0]}{two[1]})")
    ),
    max_leaves=12,
)
texts = st.text(alphabet="aabbcA 1\nxx", max_size=12)


@pytest.mark.long
@given(patterns, st.lists(texts, min_size=1, max_size=5))
def test_the_verdicts_are_those_of_re(pattern: str, found: list[str]) -> None:
    with warnings.catch_warnings(action="ignore"):
        native = re.compile(pattern)
        ours = Regex(pattern)
        for text in found:
            try:
                expected = native.search(text) is not None
            except SystemError:  # `re` of 3.11 asks to report a bug
                assume(False)
            assert ours.found_in(text, Meter(PLENTY)) == expected
            assert ours.found_step_by_step(text, Meter(PLENTY)) == expected


@pytest.mark.long
@given(patterns, texts.map(lambda text: text * 40))
def test_a_search_ends_within_its_steps(pattern: str, text: str) -> None:
    with warnings.catch_warnings(action="ignore"):
        ours = Regex(pattern)
    for steps in (10, 1_000, CHECK_STEPS):
        meter = Meter(steps)
        try:
            ours.found_in(text, meter)
        except TooManyStepsError:
            continue
        assert meter.left >= 0


ANSWERED = [
    (r"^([a-zA-Z0-9]+\s?)*$", "a" * 40 + "!", False),
    (r"^([a-zA-Z0-9]+\s?)*$", "a" * 2_000 + "!", False),
    (r"(x+x+)+y", "x" * 1_000, False),
    (r"^(a|a)*$", "a" * 5_000 + "b", False),
    (r"^(?=.*[A-Z])(?=.*\d).{8,}$", "a" * 1_000, False),
    (r"^[a-z0-9-]+$", "a" * 100_000, True),
    (r"\S", " " * 100_000, False),
    ("(" * 20 + "a" + ")*" * 20, "a" * 5_000 + "b", True),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), ANSWERED, ids=lambda one: str(one)[:30])
def test_what_backtracking_would_never_end_is_answered(pattern: str, text: str, *, expected: bool) -> None:
    assert Regex(pattern).found_in(text, Meter(CHECK_STEPS)) is expected


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"(x+x+)+y", "x" * 50_000), (r"[a-z]+x", "a" * 50_000), (r"(.{1,64}){1,64}!", "a" * 5_000)],
)
def test_what_takes_too_many_steps_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(TooManyStepsError):
        Regex(pattern).found_in(text, Meter(CHECK_STEPS))


FLAWS = [
    ("(", "is no regular expression: missing )"),
    (r"\p{L}", r"is no regular expression: bad escape \p"),
    ("a" * (MAX_PATTERN + 1), f"has more than {MAX_PATTERN} characters"),
    ("(" * (MAX_GROUPS + 2) + "a" + ")" * (MAX_GROUPS + 2), f"has more than {MAX_GROUPS} groups inside each other"),
    ("(" * 2_000 + "a" + ")" * 2_000, f"has more than {MAX_GROUPS} groups inside each other"),
    ("((?:a|b){1,5000}c)*", "repeats its groups more than 5000 times"),
    ("(?:" * 9 + "a|b" + "){16}" * 9, "repeats its groups more than 5000 times"),
    (r"^(a|b)\1$", "refers back to a group"),
    (r"(a)?(?(1)b|c)", "refers back to a group"),
    (r"(?>a+)b", "refers back to a group, or does not go back into one"),
    (r"a++b", "refers back to a group, or does not go back into one"),
    ("(?i)" + r"[\x00-\U0010ffff]" * 4, "ignores the case of too many characters"),
]


@each_case(FLAWS)
def test_what_cannot_be_counted_is_no_expression_of_ours(pattern: str, flaw: str) -> None:
    assert (flaw_of(pattern) or "").startswith(flaw)
    with pytest.raises(UnusableError):
        Regex(pattern)
