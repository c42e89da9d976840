import pytest

from tests.order import dealt

LONG = ["A", "B", "C"]
SHORT = ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("processes", "expected"),
    [(1, "ABCabcdef"), (2, "ABabCcdef"), (3, "AabBcdCef"), (4, "AaBbCcdef")],
)
def test_each_process_begins_with_long_tests(processes: int, expected: str) -> None:
    assert "".join(dealt(LONG, SHORT, processes)) == expected


def test_no_test_is_lost_if_there_are_few() -> None:
    assert dealt(LONG, [], 2) == ["A", "B", "C"]
    assert dealt([], SHORT[:1], 4) == ["a"]
    assert dealt(LONG, SHORT[:1], 4) == ["A", "B", "C", "a"]
