"""What other code has made is shown without long work, however it is built."""

import pytest

from agentrail.values.content import Text
from agentrail.values.outside import MAX_FACTS, words

SHOWN = 0


class Counting:
    """Counts how often it is shown."""

    def __repr__(self) -> str:
        global SHOWN  # noqa: PLW0603 - a fact of an error has no better place to count in
        SHOWN += 1
        return "one"


ONE = Counting()


@pytest.mark.parametrize(
    "fact",
    [
        [ONE] * (MAX_FACTS + 1),
        [[ONE] * MAX_FACTS],
        ((ONE,) * MAX_FACTS,) * MAX_FACTS,
        {"key": [{ONE}] * MAX_FACTS},
        {(ONE,) * MAX_FACTS: 1},
        Text([ONE] * MAX_FACTS),  # type: ignore[arg-type]
    ],
    ids=["list", "in a list", "squared", "in a dict", "in a key", "in a value"],
)
def test_an_error_that_holds_much_at_any_depth_is_not_written_out(fact: object) -> None:
    before = SHOWN
    assert words(ValueError("well", fact)) == "it holds more than can be shown"
    assert before == SHOWN


def test_an_error_that_holds_little_is_written_out() -> None:
    assert words(KeyError({"a": (1, [2])})) == "{'a': (1, [2])}"
