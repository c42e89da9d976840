from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail import HeldCall
from agentrail.cli.output.screen import Tone, escaped
from agentrail.cli.talk.questions import numbered_changes, question_about, replaced_lines
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
    assert [piece.text for piece in numbered_changes(old, old)] == [
        "    nothing in the file changes",
        "    … 12 lines stay as they are",
    ]
    assert "    a.bin is no text" in [piece.text for piece in question_about(call, "a.bin is no text")]


@settings(max_examples=50)
@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abc"), max_size=30))
def test_what_goes_and_comes_makes_the_new_text_of_the_old_one(old: list[str], new: list[str]) -> None:
    old_text, after = "".join(f"{row}\n" for row in old), "".join(f"{row}\n" for row in new)
    rows = [piece.text for piece in numbered_changes(old_text, after)]
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
    for mark, text in (("-", old), ("+", new)):
        lines = [row[6:] for row in rows if row[4] in {mark, " "}]
        *first_rows, last = [escaped(line) for line in text.split("\n")]
        assert lines == first_rows + ([f"{last} (no end of line)"] if last else [])


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


def test_of_large_texts_only_beginnings_and_ends_are_compared() -> None:
    old = [f"old {number}" for number in range(250)]
    new = [f"new {number}" for number in range(250)]
    old[100] = new[20] = "the same"
    rows = list(replaced_lines("\n".join(["top", *old, "end\n"]), "\n".join(["top", *new, "end\n"])))
    assert [row.text.strip() for row in rows if row.tone is Tone.DIM] == ["top", "end"]
