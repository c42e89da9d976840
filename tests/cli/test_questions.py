from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail import HeldCall
from agentrail.cli.output.screen import Tone
from agentrail.cli.talk.difference_rows import difference_rows, shown_part
from agentrail.cli.talk.questions import changed_lines, made_changes, question_about, replaced_lines
from agentrail.insight.text_comparison import difference_of
from agentrail.insight.text_difference import TextDifference
from agentrail.tools.builtin.file_changes import FileChange
from tests.cli.test_rendering import args


def rows_of(call: HeldCall) -> list[str]:
    return [piece.text for piece in question_about(call)]


def held_call(hint: str = "", **given: object) -> HeldCall:
    return HeldCall("a1", "approval", "c1", "write_file", args(**given), hint)


def test_a_text_of_several_lines_has_a_row_for_each() -> None:
    assert rows_of(held_call(path="a.py", content="x = 1\n\ty\u202e\n")) == [
        "? write_file waits for your approval",
        "    path: a.py",
        "    content:",
        "    │ x = 1",
        "    │ \\u0009y\\u202e",
        "  [y]es / [n]o / [e]dit",
    ]
    assert rows_of(held_call(content="a\nb"))[-2] == "    │ b (no end of line)"


def test_an_edit_is_shown_as_the_lines_that_go_and_come() -> None:
    call = held_call(path="a.py", old_text="one\ntwo\nthree\n", new_text="one\n2\nthree\nfour\n")
    pieces = question_about(call)[2:-1]
    assert [piece.text for piece in pieces] == ["      one", "    - two", "    + 2", "      three", "    + four"]
    assert [piece.tone for piece in pieces] == [Tone.DIM, Tone.BAD, Tone.GOOD, Tone.DIM, Tone.GOOD]


def test_a_file_that_is_replaced_is_shown_with_what_goes_and_comes_and_where() -> None:
    old = "".join(f"line {number}\n" for number in range(1, 13))
    new = old.replace("line 6\n", "six\n").replace("line 12\n", "line 12\nthirteen\n")
    call = held_call(path="a.txt", content=new)
    assert [piece.text for piece in question_about(call, FileChange("/a.txt", old, new))] == [
        "? write_file waits for your approval",
        "    path: a.txt",
        "    … 2 lines stay as they are",
        "     3  3   line 3",
        "     4  4   line 4",
        "     5  5   line 5",
        "     6    - line 6",
        "        6 + six",
        "     7  7   line 7",
        "     8  8   line 8",
        "     9  9   line 9",
        "    10 10   line 10",
        "    11 11   line 11",
        "    12 12   line 12",
        "       13 + thirteen",
        "  [y]es / [n]o / [e]dit",
    ]
    assert shown(old, old) == ["    nothing changes"]
    assert "    a.bin is no text" in [piece.text for piece in question_about(call, "a.bin is no text")]


def shown(old: str, new: str) -> list[str]:
    return [piece.text for piece in difference_rows(difference_of(old, new))]


def test_of_a_file_that_is_new_or_emptied_it_is_said() -> None:
    call = held_call(path="a.txt", content="one\n\u21e5\ttwo\r\x1b[2J")
    assert [piece.text for piece in question_about(call, FileChange("/a.txt", None, "one\n\u21e5\ttwo\r\x1b[2J"))] == [
        "? write_file waits for your approval",
        "    path: a.txt",
        "    a new file:",
        "      1 + one",
        "      2 + \\u21e5\u21e5   two\\u000d\\u001b[2J",
        "  [y]es / [n]o / [e]dit",
    ]
    new, emptied = FileChange("/a", None, ""), FileChange("/a", "one", "")
    assert [piece.text for piece in question_about(held_call(), new)][1] == "    a new file with nothing in it"
    rows = [piece.text for piece in question_about(held_call(), emptied)][1:-1]
    assert rows == ["    nothing is left of the file:", "    1   - one"]


def test_a_missing_end_of_line_is_said_where_it_changes() -> None:
    assert shown("a\nb", "a\nc") == ["    1 1   a", "    2   - b", "      2 + c"]
    assert shown("a\nb\n", "a\nb") == ["    1 1   a", "    2   - b", "      2 + b (no end of line)"]
    assert shown("a", "a\nb\n") == ["    1   - a (no end of line)", "      1 + a", "      2 + b"]


def test_what_a_call_has_made_is_read_from_its_details() -> None:
    edit = args(path="a", old_text="one", new_text="two")
    details = {"difference": difference_of("0\none\n", "0\ntwo\n").as_json()}
    assert [piece.text for piece in made_changes(edit, details)] == ["    1 1   0", "    2   - one", "      2 + two"]
    for odd in (None, {}, {"difference": 5}, {"difference": {"hunks": [{"old": "x"}]}}):
        assert made_changes(edit, odd) == changed_lines(edit)
    odd_row = {"mark": "\x1b", "parts": ["\x1b[2J"], "lacks_end": False}
    hunk = {"old": -3, "new": 1, "rows": [odd_row, {**odd_row, "parts": []}]}
    difference = TextDifference(1, 1, 1, 5, ()).as_json()
    for piece in made_changes(edit, {"difference": {**difference, "hunks": [hunk]}}):
        assert "\x1b" not in piece.text


@settings(max_examples=50)
@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abc"), max_size=30))
def test_what_goes_and_comes_makes_the_new_text_of_the_old_one(old: list[str], new: list[str]) -> None:
    old_text, after = "".join(f"{row}\n" for row in old), "".join(f"{row}\n" for row in new)
    rows = shown(old_text, after)
    lines: list[str] = list(old)
    removed_rows = [int(row[4:].split()[0]) for row in rows if " - " in row]
    come = [(int(row[4:].split()[0]), row[-1]) for row in rows if " + " in row]
    for number in reversed(removed_rows):
        del lines[number - 1]
    for number, text in come:
        lines.insert(number - 1, text)
    assert lines == new


def test_values_are_not_taken_for_one_another() -> None:
    assert rows_of(held_call(a="true", b=True, c="", d=" x", e="5", f=None, g="a\n"))[1:-1] == [
        '    a: "true"',
        "    b: true",
        '    c: ""',
        '    d: " x"',
        '    e: "5"',
        "    f: null",
        '    g: "a\\n"',
    ]


def test_arguments_are_said_once_and_the_rule_that_asks_is_said() -> None:
    assert rows_of(held_call('`write_file` wants to run with {"path": "a"}', path="a"))[1:-1] == ["    path: a"]
    hint = '`write_file` wants to run with {"path": "a"}; the rule `write *` asks'
    assert rows_of(held_call(hint, path="a"))[1:-1] == ["    path: a", "    the rule `write *` asks"]


@settings(max_examples=25)
@given(st.text(min_size=1, max_size=12), st.text(max_size=12))
def test_nothing_of_an_edit_is_lost(old: str, new: str) -> None:
    rows = rows_of(held_call(old_text=old, new_text=new))[1:-1]
    if old == new:
        assert rows == ["    nothing changes"]
        return
    for mark, text in (("-", old), ("+", new)):
        lines = [row[6:].removesuffix(" (no end of line)") for row in rows if row[4] in {mark, " "}]
        assert lines == ([shown_part(line) for line in text.removesuffix("\n").split("\n")] if text else [])


def test_an_edit_of_many_lines_is_shown_at_once_and_whole() -> None:
    many = ["}", ""] * 1_000
    old, new = "\n".join(["a", *many, "old", *many[1:], "b\n"]), "\n".join(["a", *many, "new", "c", *many[1:], "b\n"])
    rows = list(replaced_lines(old, new))
    assert len(rows) == 2 * len(many) + 4
    assert [row.text for row in rows if row.tone is not Tone.DIM] == ["    - old", "    + new", "    + c"]


def test_a_large_edit_without_a_line_in_common_shows_what_goes_and_what_comes() -> None:
    rows = [row.text for row in replaced_lines("a\n" * 300, "b\n" * 400)]
    assert rows == ["    - a"] * 300 + ["    + b"] * 400
    assert [row.text for row in replaced_lines("a\n" * 300, "a\n" * 400)] == ["      a"] * 300 + ["    + a"] * 100


def test_a_call_of_a_sub_agent_says_so() -> None:
    assert rows_of(held_call().but(path=("s.c1",)))[0] == "? write_file waits for your approval (a sub-agent's)"


def test_of_large_texts_lines_that_both_have_once_are_taken_for_the_same() -> None:
    old = [f"old {number}" for number in range(250)]
    new = [f"new {number}" for number in range(250)]
    old[100] = new[20] = "the same"
    rows = list(replaced_lines("\n".join(["top", *old, "end\n"]), "\n".join(["top", *new, "end\n"])))
    assert [row.text.strip() for row in rows if row.tone is Tone.DIM] == ["top", "the same", "end"]
