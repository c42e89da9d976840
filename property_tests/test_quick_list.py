"""Tests of the list for `make quick`: few tests in few files that reach nearly all lines for the least time."""

from property_tests.mutants.quick_list import FILE_SECONDS, cover, masks_of

LINES = {
    "agentrail/one.py": {1: {"a.py::all", "a.py::first"}, 2: {"a.py::all", "b.py::rest"}},
    "agentrail/two.py": {7: {"a.py::all", "b.py::rest"}, 9: {"a.py::all", "b.py::rest"}},
}


def test_each_test_has_the_lines_that_it_reaches() -> None:
    assert masks_of(LINES) == {"a.py::all": 0b1111, "a.py::first": 0b0001, "b.py::rest": 0b1110}


def test_the_cheapest_tests_that_reach_enough_are_chosen() -> None:
    seconds = {"a.py::all": 9.0, "a.py::first": 0.1, "b.py::rest": 0.1}
    assert cover(masks_of(LINES), seconds, share=1.0) == ["b.py::rest", "a.py::first"]
    assert cover(masks_of(LINES), seconds, share=0.75) == ["b.py::rest"]


def test_a_test_of_a_file_that_is_imported_anyway_comes_before_a_quicker_one_of_another_file() -> None:
    masks = {"a.py::most": 0b0111, "a.py::last": 0b1000, "b.py::last": 0b1000}
    seconds = {"a.py::most": 0.1, "a.py::last": 0.1, "b.py::last": 0.1 - FILE_SECONDS / 2}
    assert cover(masks, seconds, share=1.0) == ["a.py::most", "a.py::last"]
