"""A test of many cases shows all that fail."""

from __future__ import annotations

import pytest

from tests.each_case import each_case


def test_all_cases_that_fail_are_shown_with_what_was_wrong() -> None:
    @each_case([(1, "1"), (2, "3"), (3, "x")])
    def test_it(number: int, text: str) -> None:
        assert number == int(text)

    with pytest.raises(AssertionError) as caught:
        test_it()
    assert "2 of 3 cases" in str(caught.value)
    assert "\n(2, '3'): AssertionError: " in str(caught.value)
    assert "\n(3, 'x'): ValueError: invalid literal" in str(caught.value)


def test_what_is_expected_to_raise_and_does_not_fails() -> None:
    @each_case(["x", "1"])
    def test_it(text: str) -> None:
        with pytest.raises(ValueError, match="literal"):
            int(text)

    with pytest.raises(AssertionError, match=r"1 of 2 cases(?s:.)*'1': Failed: DID NOT RAISE"):
        test_it()


def test_a_table_without_a_case_fails() -> None:
    @each_case([])
    def test_it(text: str) -> None:
        assert text

    with pytest.raises(AssertionError, match="there is no case"):
        test_it()
