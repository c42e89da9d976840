"""What differs between two texts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail.insight.text_comparison import difference_of
from agentrail.insight.text_difference import MOST_CHARS, MOST_ROWS, TextDifference, difference_in

LINES = st.lists(st.sampled_from(["a", "b", "foo bar", "foo baz", "", "\r", "é\u2028"]), max_size=30)
TEXTS = st.tuples(LINES, st.booleans()).map(lambda drawn: "\n".join(drawn[0]) + "\n" * drawn[1])


def applied(old: str, difference: TextDifference) -> str:
    """Return the new text that *difference* makes of *old*."""
    lines, has_end = old.removesuffix("\n").split("\n") if old else [], old.endswith("\n")
    for hunk in reversed(difference.hunks):
        rows = [row for row in hunk.rows if row.mark != "+"]
        assert lines[hunk.old - 1 : hunk.old - 1 + len(rows)] == [row.text for row in rows]
        lines[hunk.old - 1 : hunk.old - 1 + len(rows)] = [row.text for row in hunk.rows if row.mark != "-"]
        for old_number, new_number, row in hunk.numbered():
            assert (old_number is None, new_number is None) == (row.mark == "+", row.mark == "-")
    changed_ends = [row for hunk in difference.hunks for row in hunk.rows if row.lacks_end]
    if changed_ends:
        has_end = changed_ends[0].mark == "-"
    return "\n".join(lines) + "\n" * has_end if lines else ""


@settings(max_examples=100)
@given(TEXTS, TEXTS)
def test_a_difference_makes_the_new_text_of_the_old_one(old: str, new: str) -> None:
    difference = difference_of(old, new)
    made = applied(old, difference)
    assert made == new or ((not old or not new) and made.removesuffix("\n") == new.removesuffix("\n"))
    assert difference_in({"difference": difference.as_json()}) == difference
    rows = [row for hunk in difference.hunks for row in hunk.rows]
    assert (difference.removed, difference.added) == tuple(sum(row.mark == mark for row in rows) for mark in "-+")


def marked(old: str, new: str) -> list[tuple[str, ...]]:
    return [row.parts for hunk in difference_of(old, new).hunks for row in hunk.rows]


def test_the_words_that_change_within_a_line_are_marked() -> None:
    assert marked("total = price * rate", "total = cost * rate") == [
        ("total = ", "price", " * rate"),
        ("total = ", "cost", " * rate"),
    ]
    assert marked("return x", "raise Error(y)") == [("return x",), ("raise Error(y)",)], "hardly alike: another line"
    assert marked("a b c", "a b c  ") == [("a b c", "", ""), ("a b c", "  ", "")], "spaces, too"
    assert marked("x\nkeep one two\n", "new\nkeep one 2\ny\n")[-3:] == [("new",), ("keep one ", "2", ""), ("y",)]


def test_a_change_at_both_ends_of_a_long_file_is_two_hunks() -> None:
    old = [f"line {number}" for number in range(5_000)]
    new = ["first", *old[1:2_500], "between", *old[2_500:-1], "last"]
    difference = difference_of("\n".join(old), "\n".join(new))
    assert [(hunk.old, hunk.new) for hunk in difference.hunks] == [(1, 1), (2_498, 2_498), (4_997, 4_998)]
    assert (difference.removed, difference.added) == (2, 3)


def test_like_lines_of_large_texts_are_not_compared_with_each_other() -> None:
    difference = difference_of("a\n" * 300 + "b\n" * 300, "b\n" * 300 + "a\n" * 300)
    assert (difference.removed, difference.added) == (600, 600)


def test_of_a_large_difference_the_first_rows_are_kept() -> None:
    for text in ("line\n" * 2 * MOST_ROWS, "x" * MOST_CHARS + "\n" + "y\n"):
        short = difference_of("", text).shortened()
        rows = [row for hunk in short.hunks for row in hunk.rows]
        assert len(rows) + short.left_out == text.count("\n")
        assert len(rows) <= MOST_ROWS
        assert sum(len(row.text) for row in rows) <= MOST_CHARS
    whole = difference_of("a", "b")
    assert whole.shortened() == whole
