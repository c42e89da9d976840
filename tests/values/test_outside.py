"""What other code has made is shown without long work, however it is built."""

import pytest

from agentrail.models import Text
from agentrail.values.untrusted_values import CHARACTERS_OF_A_FACT, MAX_FACTS, MAX_MESSAGE_CHARS, leaves, message_of
from tests.each_case import each_case

SHOWN = 0


class Counting:
    """Counts how often it is shown."""

    def __repr__(self) -> str:
        global SHOWN  # noqa: PLW0603 - a fact of an error has no better place to count in
        SHOWN += 1
        return "one"


ONE = Counting()


@each_case(
    [
        [ONE] * (MAX_FACTS + 1),
        [[ONE] * MAX_FACTS],
        ((ONE,) * MAX_FACTS,) * MAX_FACTS,
        {"key": [{ONE}] * MAX_FACTS},
        {(ONE,) * MAX_FACTS: 1},
        Text([ONE] * MAX_FACTS),  # type: ignore[arg-type]
        [ONE, "\0" * CHARACTERS_OF_A_FACT * MAX_FACTS],
        Text("\0" * CHARACTERS_OF_A_FACT * MAX_FACTS),
        bytes(CHARACTERS_OF_A_FACT * MAX_FACTS),
        OSError([ValueError("\0" * CHARACTERS_OF_A_FACT * MAX_FACTS)]),
    ]
)
def test_an_error_that_holds_much_at_any_depth_is_not_written_out(fact: object) -> None:
    before = SHOWN
    assert message_of(ValueError("well", fact)) == "it holds more than can be shown"
    assert before == SHOWN


def test_a_long_text_is_cut_where_it_is_the_text_of_the_error() -> None:
    text = "x" * CHARACTERS_OF_A_FACT * MAX_FACTS * 2
    assert message_of(ValueError(text)) == text[:MAX_MESSAGE_CHARS]
    assert message_of(KeyError(text)) == "it holds more than can be shown"  # it is written with quotes


def test_an_error_that_holds_little_is_written_out() -> None:
    assert message_of(KeyError({"a": (1, [2])})) == "{'a': (1, [2])}"


def test_a_group_has_the_errors_at_any_depth_in_order() -> None:
    first, second, third = OSError("first"), ValueError("second"), KeyError("third")
    group = ExceptionGroup("all", [first, ExceptionGroup("some", [second, third]), first])
    assert list(leaves(group)) == [first, second, third, first]
    assert list(leaves(first)) == [first]


@pytest.mark.long
def test_a_group_may_be_deeper_than_the_stack() -> None:
    error: Exception = OSError("deep")
    for _ in range(50_000):
        held: list[Exception] = [error]
        error = ExceptionGroup("one", held)
    assert [str(leaf) for leaf in leaves(error)] == ["deep"]
