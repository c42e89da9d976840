"""Tables of the command line."""

from __future__ import annotations

from agentrail.cli.output.text_table import aligned


def test_cells_begin_or_end_below_each_other_and_cannot_command_the_terminal() -> None:
    rows = [("a", "1", "x\ny"), ("日本", "100", "\x1b[2Jz")]
    assert aligned(rows, 80, right=[1]) == ["a       1  x y", "日本  100  \ufffd[2Jz"]


def test_a_line_is_cut_at_the_width_and_no_rows_are_no_lines() -> None:
    assert aligned([("abc", "defgh")], 8) == ["abc  de…"]
    assert aligned([], 8) == []
