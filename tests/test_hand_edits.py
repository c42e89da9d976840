"""Each edit of `property_tests/mutants/by_hand.txt` fits the source: its old text stands once in its function."""

from property_tests.mutants.hand_edits import FILE, read


def test_each_edit_by_hand_fits_the_source() -> None:
    edits, problems = read(FILE.read_text(encoding="utf-8"))
    assert "\n".join(problems) == ""
    assert len({edit.name for edit in edits}) == len(edits) >= 200
