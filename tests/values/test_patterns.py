"""A search says what `re` says, and ends within its time; what would take long to compile is refused before."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentrail.values import patterns as patterns_module
from agentrail.values.patterns import MAX_GROUPS, MAX_PARTS, MAX_PATTERN, UnusableError, expression, flaw_of, width_of
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
        ours = expression(pattern)
        for text in found:
            try:
                expected = native.search(text) is not None
            except SystemError:  # `re` of 3.11 asks to report a bug
                assume(False)
            assert ours.found_in(text, Meter(PLENTY)) == expected


ANSWERED = [
    (r"^([a-zA-Z0-9]+\s?)*$", "a" * 40 + "!", False),
    (r"^(?=.*[A-Z])(?=.*\d).{8,}$", "a" * 1_000, False),
    (r"^[a-z0-9-]+$", "a" * 100_000, True),
    (r"\S", " " * 100_000, False),
    (r"^(a|b)\1$", "aa", True),
    (r"(?>a+)b", "aab", True),
    ("^/users/{id}$", "/users/{id}", True),
    ("^a{e}$", "ab", False),
    (r"^\{a{1,2}$", "{aa", True),
    (r"^[{]a{,2}$", "{aa", True),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), ANSWERED, ids=lambda one: str(one)[:30])
def test_a_search_finds_what_is_there(pattern: str, text: str, *, expected: bool) -> None:
    assert expression(pattern).found_in(text, Meter(CHECK_STEPS)) is expected


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(x+x+)+y", "x" * 50_000),
        (r"^([a-zA-Z0-9]+\s?)*$", "a" * 2_000 + "!"),
        (r"^(a|a)*$", "a" * 5_000 + "b"),
        (r"(?:a{1,1000}){1,1000}b", "a" * 5_000),
        (r"(?:(a+)\1)+b", "a" * 5_000),
        (r"(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)\d", "a" * 5_000),
    ],
)
def test_a_search_that_takes_too_long_is_stopped(pattern: str, text: str) -> None:
    with pytest.raises(TooManyStepsError):
        expression(pattern).found_in(text, Meter(CHECK_STEPS))


def test_a_search_takes_no_more_time_than_there_are_steps() -> None:
    meter = Meter(100)
    with pytest.raises(TooManyStepsError):
        expression(r"(x+x+)+y").found_in("x" * 5_000, meter)


@pytest.mark.parametrize(("microseconds", "steps"), [(3, 12), (20, 12), (21, 75), (900, 2_712)])
def test_a_search_that_is_not_quick_takes_three_steps_for_each_microsecond(
    microseconds: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([1.0, 1.0000001 + microseconds / 1e6])
    monkeypatch.setattr(patterns_module, "thread_time", lambda: next(times))
    meter = Meter(CHECK_STEPS)
    expression("^[a-z]+$").found_in("a" * 128, meter)
    assert CHECK_STEPS - meter.left == steps


FLAWS = [
    ("(", "is no regular expression: missing )"),
    (r"\p{L}", r"is no regular expression: bad escape \p"),
    ("a" * (MAX_PATTERN + 1), f"has more than {MAX_PATTERN} characters"),
    ("(" * (MAX_GROUPS + 2) + "a" + ")" * (MAX_GROUPS + 2), f"has more than {MAX_GROUPS} groups inside each other"),
    ("(" * 2_000 + "a" + ")" * 2_000, f"has more than {MAX_GROUPS} groups inside each other"),
    ("(?:x{1000}){1000}", f"repeats its groups more than {MAX_PARTS} times"),
    ("(?=(?:x{1000}){1000})?", f"repeats its groups more than {MAX_PARTS} times"),
    ("(?:" * 9 + "a|b" + "){16}" * 9, f"repeats its groups more than {MAX_PARTS} times"),
    ("(a)?(?(1)(?>x{6000})|y)", f"repeats its groups more than {MAX_PARTS} times"),
]


@each_case(FLAWS)
def test_what_would_take_long_to_compile_is_refused(pattern: str, flaw: str) -> None:
    assert (flaw_of(pattern) or "").startswith(flaw)
    with pytest.raises(UnusableError):
        expression(pattern)


@pytest.mark.parametrize(("pattern", "width"), [("a{2,5}b?", 6), ("a+", None), ("(?:ab|c){3}", 6)])
def test_the_width_of_a_match_is_known(pattern: str, width: int | None) -> None:
    assert width_of(pattern) == width
