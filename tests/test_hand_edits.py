"""Each edit that is written by hand, and each bug that is planted, fits the source: its text stands once there."""

from property_tests.mutants.hand_edits import FILE, read
from property_tests.planted.bugs import load


def test_each_edit_by_hand_fits_the_source() -> None:
    edits, problems = read(FILE.read_text(encoding="utf-8"))
    assert "\n".join(problems) == ""
    assert len({edit.name for edit in edits}) == len(edits) >= 200


def test_each_planted_bug_fits_the_source_and_says_what_finds_it() -> None:
    assert len(load()) >= 30
