import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.cli.line_editor import END_OF_INPUT, END_OF_PASTE, ENTER, PASTE, EditedLine, keys_in
from agentrail.cli.screen import clean, columns
from tests.each_case import each_case
from tests.opcodes import counted_opcodes

typed_text = st.text(st.sampled_from("\x1b[O~A5; aé日\x7f\n"), max_size=12)


def typed(text: str, line: EditedLine = EditedLine()) -> EditedLine:  # noqa: B008 - frozen
    for key in keys_in(text)[0]:
        line = line.press(key)
    return line


def with_cursor(line: EditedLine) -> str:
    return f"{line.text[: line.at]}|{line.text[line.at :]}"


@pytest.mark.parametrize(
    ("text", "keys", "rest"),
    [
        ("ab", ("a", "b"), ""),
        ("\r", (ENTER,), ""),
        ("\n\x04", (ENTER, END_OF_INPUT), ""),
        ("\x1b[A\x1bOB\x1b[3~", ("up", "down", "delete"), ""),
        ("\x1b[1;5Cx", ("\x1b[1;5C", "x"), ""),
        ("a\x1b", ("a",), "\x1b"),
        ("a\x1b[1;", ("a",), "\x1b[1;"),
        ("\x1b\x1b[A", ("\x1b", "up"), ""),
        ("\x1b[é", ("\x1b[", "é"), ""),
    ],
)
def test_keys_are_told_apart(text: str, keys: tuple[str, ...], rest: str) -> None:
    assert keys_in(text) == (keys, rest)


@given(typed_text, st.integers(0, 12))
def test_it_does_not_matter_how_keys_arrive(text: str, cut: int) -> None:
    whole, rest = keys_in(text)
    first, left = keys_in(text[:cut])
    second, last = keys_in(left + text[cut:])
    assert (first + second, last) == (whole, rest)


@given(typed_text)
def test_whatever_came_a_whole_key_gets_through(text: str) -> None:
    keys, rest = keys_in(f"{text}\n\n")
    assert keys[-1] == ENTER
    assert rest == ""


@each_case(
    [
        ("hello", "hello|"),
        ("helo\x1b[Dl", "hell|o"),
        ("ab\x7f", "a|"),
        ("\x7f", "|"),
        ("ab\x01\x1b[3~", "|b"),
        ("ab\x01x\x05y", "xaby|"),
        ("one two  \x17", "one |"),
        ("one two\x1b[D\x15", "|o"),
        ("one two\x1b[D\x0b", "one tw|"),
        ("a\x1b[C\x1b[D\x1b[D\x1b[Db", "b|a"),
        ("a\tb", "a\tb|"),
        ("a\x1b[1;5Cb\x00c", "abc|"),
        ("日本\x1b[D語", "日語|本"),
        ("\x1b[A\x1b[B", "|"),
    ]
)
def test_a_line_is_edited(text: str, shown: str) -> None:
    assert with_cursor(typed(text)) == shown


def test_what_is_pasted_stays_as_it_is_and_is_drawn_so_that_it_harms_no_terminal() -> None:
    line = typed(f"> {PASTE}if x:\r\n\treturn 1\r\u202e\x1b[2J\x07{END_OF_PASTE}!")
    assert line.text == "> if x:\n\treturn 1\n\u202e\x1b[2J\x07!"
    assert line.visible_rows(20, 9) == (["> if x:", "    return 1", "\ufffd\ufffd[2J\ufffd!"], (2, 7))
    assert typed("\x1b[A\x1b[D", line).visible_rows(20, 9)[1] == (1, 9)
    assert EditedLine().says("\x1b]0;title\x07\t.").visible_rows(20, 9)[0] == ["\ufffd]0;title\ufffd    ."]


def test_earlier_lines_are_fetched_and_may_be_changed() -> None:
    line = EditedLine()
    for text in ("one", "two", "two", "  "):
        line = typed(text, line).end_line()
    assert line.past == ("one", "two")
    assert [
        with_cursor(typed(keys, line)) for keys in ("\x1b[A", "\x10\x10", "\x10\x10\x10", "\x10\x10\x0e", "\x10\x0e")
    ] == [
        "two|",
        "one|",
        "one|",
        "two|",
        "|",
    ]
    assert with_cursor(typed("\x10!", line)) == "two!|"


def test_a_text_can_be_offered() -> None:
    assert with_cursor(typed("\x7f)", EditedLine().says("f(x]"))) == "f(x)|"


@pytest.mark.long
@given(
    st.text(st.sampled_from("abé日\u0301\n\t\x1b"), max_size=60),
    st.integers(0, 60),
    st.integers(2, 12),
    st.integers(1, 5),
)
def test_what_is_shown_fits_and_has_the_cursor_in_it(text: str, at: int, width: int, most: int) -> None:
    at = min(at, len(text))
    rows, (row, column) = EditedLine(text, at).visible_rows(width, most)
    assert 0 < len(rows) <= most
    assert all(columns(shown) <= width for shown in rows)
    assert "".join(rows) in clean(text).replace("\n", "")
    assert 0 <= row < len(rows)
    assert 0 <= column <= width
    before = clean(text[:at]).rpartition("\n")[2]
    assert any(before.endswith(cut) for cut in prefixes(rows[row]) if columns(cut) == column)


def prefixes(text: str) -> list[str]:
    return [text[:end] for end in range(len(text) + 1)]


def test_the_cursor_moves_between_the_lines_of_a_text() -> None:
    line = typed("first", EditedLine()).end_line()
    text = line.says("one\ntwo two\n3")
    assert [with_cursor(typed(keys, text)) for keys in ("\x1b[A", "\x10\x10", "\x10\x10\x10", "\x10\x10\x0e\x05")] == [
        "one\nt|wo two\n3",
        "o|ne\ntwo two\n3",
        "first|",
        "one\ntwo two\n3|",
    ]
    assert with_cursor(text.press("up").press("up").press("down")) == "one\nt|wo two\n3"


@pytest.mark.parametrize("at", [0, 50_000, 100_000])
@pytest.mark.parametrize("char", ["a", "é"])
def test_of_a_long_line_only_what_is_shown_is_measured(char: str, at: int) -> None:
    line = EditedLine(char * 100_000, at)
    with counted_opcodes() as counted:
        line.visible_rows(80, 10)
    assert counted[0] < 300_000
