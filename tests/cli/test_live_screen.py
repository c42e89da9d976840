import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.cli.output.screen import TONES, Flow, ScreenText, TerminalStyle, Tone, aside, columns, line, wrapped
from agentrail.cli.talk.live.live_screen import LiveScreen
from agentrail.cli.talk.live.markdown_rows import markdown_rows
from agentrail.cli.talk.live.text_blocks import TextBlocks

WIDTH, HEIGHT = 30, 10
LOOK = TerminalStyle(width=WIDTH, height=HEIGHT)
MARKDOWN = "# A\n\ntext\n- one\n\n  more\n```py\n\nx = 1\n```\n~~~\nb"


class ShownRows:
    """What is finished, and below it what changes."""

    def __init__(self, look: TerminalStyle = LOOK) -> None:
        self.live = LiveScreen(look)
        self.rows: list[str] = []

    def text(self) -> str:
        self.rows += self.live.take_finished()
        return "\n".join(TONES.sub("", row) for row in [*self.rows, *self.live.changing_rows(HEIGHT)])

    def end(self) -> str:
        self.live.close()
        return self.text()


def text_piece(text: str) -> ScreenText:
    return ScreenText(Flow.TEXT, text)


def test_what_is_finished_stays_above_what_changes() -> None:
    terminal = ShownRows()
    terminal.live.put(line("hello"))
    terminal.live.put(text_piece("One.\n\nTwo\nTh"))
    assert terminal.text() == "hello\nOne.\n\nTwo Th"
    assert terminal.rows == ["hello", "One."]
    terminal.live.put(aside("an aside"))
    terminal.live.put(text_piece("ree."))
    assert terminal.text() == "hello\nOne.\nan aside\n\nTwo Three."
    terminal.live.put(ScreenText(Flow.STATUS, "… 1 of 2"))
    assert terminal.text().endswith("Two Three.\n… 1 of 2")
    terminal.live.put(line("done"))
    terminal.live.send("typed")
    assert terminal.text() == "hello\nOne.\nan aside\n\nTwo Three.\ndone\n> typed"


def test_thoughts_are_folded_when_they_are_over() -> None:
    terminal = ShownRows()
    terminal.live.put(ScreenText(Flow.THOUGHT, "I think " * 30))
    thoughts = terminal.text().split("\n")
    assert len(thoughts) == 3
    assert "I think I think" in thoughts[0]
    terminal.live.put(text_piece("So."))
    assert terminal.text().split("\n")[-1] == "So."
    assert "(60 words;" in terminal.text()


def test_a_question_stays_below_all_else_until_it_is_answered() -> None:
    terminal = ShownRows()
    terminal.live.ask((line("? write_file"), line("  [y]es")))
    terminal.live.put(line("meanwhile"))
    terminal.live.put(text_piece("text"))
    assert terminal.text() == "meanwhile\ntext\n? write_file\n  [y]es"
    terminal.live.ask(())
    assert terminal.end() == "meanwhile\ntext"


def test_of_a_question_that_is_too_long_only_the_answers_stay_below() -> None:
    terminal = ShownRows()
    terminal.live.ask((*(line(f"{number}") for number in range(20)), line("  [y]es")))
    assert terminal.text().endswith("18\n19\n  [y]es")
    terminal.live.ask(())
    assert terminal.text().endswith("18\n19")


def test_of_a_text_that_fills_the_screen_the_last_rows_are_seen() -> None:
    live = LiveScreen(LOOK)
    live.put(text_piece("```\n" + "\n".join(map(str, range(50)))))
    live.put(ScreenText(Flow.STATUS, "… 1 of 2"))
    assert [row.strip() for row in live.changing_rows(4)[-2:]] == ["49", "… 1 of 2"]
    assert len(live.changing_rows(4)) == 4


def test_of_a_long_text_that_was_sent_the_beginning_is_shown() -> None:
    terminal = ShownRows()
    terminal.live.send("\n".join(f"\t{number}\x1b[2J" for number in range(10_000)))
    *rows, count = terminal.text().split("\n")
    assert rows[:2] == [">     0\ufffd[2J", "      1\ufffd[2J"]
    assert count == "  … 10000 lines"


PIECES = st.lists(
    st.one_of(
        st.text("ab \n`日\x1b", max_size=60).map(text_piece),
        st.builds(ScreenText, st.just(Flow.THOUGHT), st.text("think \n", max_size=40)),
        st.builds(ScreenText, st.just(Flow.STATUS), st.text("0123456789", max_size=50)),
        st.text("xy 日", min_size=1, max_size=70).map(line),
        st.text("uv", min_size=1, max_size=70).map(aside),
    ),
    max_size=15,
)


@pytest.mark.long
@given(PIECES)
def test_how_often_it_is_drawn_changes_nothing_that_stays(pieces: list[ScreenText]) -> None:
    often, once = ShownRows(), ShownRows()
    for piece in pieces:
        often.live.put(piece)
        often.text()
        once.live.put(piece)
    assert often.end() == once.end()


@pytest.mark.long
@given(st.text(st.sampled_from(MARKDOWN), max_size=80), st.lists(st.integers(0, 80)))
def test_it_does_not_matter_how_a_text_arrives(text: str, cuts: list[int]) -> None:
    at_once, parts = TextBlocks(), TextBlocks()
    at_once.add(text)
    expected = [*at_once.take(), at_once.rest()]
    blocks: list[str] = []
    position = 0
    for cut in sorted({*cuts, len(text)}):
        parts.add(text[position:cut])
        position = max(position, cut)
        blocks.extend(parts.take())
    assert [*blocks, parts.rest()] == expected
    assert re.sub(r"\s+", "", "".join(expected)) == re.sub(r"\s+", "", text)


def test_a_list_and_a_fence_are_one_block() -> None:
    blocks = TextBlocks()
    blocks.add("Intro.\n\n- one\n\n  more of it\n- two\n\n```\na\n\nb\n```\n\nEnd.\n")
    assert list(blocks.take()) == ["Intro.", "- one\n\n  more of it\n- two", "```\na\n\nb\n```"]
    assert blocks.rest() == "End."


def test_code_within_a_line_opens_no_fence() -> None:
    blocks = TextBlocks()
    blocks.add("```ls``` lists files.\n\nNext.\n\n~~~ a`b\n\nin it\n~~~\n\nEnd.\n")
    assert list(blocks.take()) == ["```ls``` lists files.", "Next.", "~~~ a`b\n\nin it\n~~~"]


@given(st.text(st.sampled_from("ab 日\u0301-"), max_size=100), st.integers(4, 20))
def test_rows_fit_and_nothing_is_lost(text: str, width: int) -> None:
    rows = wrapped(text, width)
    assert all(columns(row) <= width for row in rows)
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")


def test_words_are_kept_whole_and_indented_rows_stay_so() -> None:
    assert wrapped("  one two three", 9) == ["  one two", "  three"]
    assert wrapped("a  b\n\nlongerthanthat", 6) == ["a  b", "", "longer", "thanth", "at"]


@pytest.mark.parametrize("colours", [True, False])
def test_markdown_hides_nothing(colours: bool) -> None:
    look = TerminalStyle(width=60, colours=colours)
    text = "See <b>this</b> [link](http://x.y/z) and `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    rows = "\n".join(re.sub(r"\x1b\[[0-9;]*m", "", row) for row in markdown_rows(text, look))
    assert "See <b>this</b> link (http://x.y/z) and code" in rows
    assert re.search(r" a +b *\n.*\n *1 +2", rows)
    assert ("\x1b" in "".join(markdown_rows("**bold**", look))) == colours


@pytest.mark.long
@given(st.text(max_size=60), st.integers(10, 40))
def test_any_text_can_be_laid_out(text: str, width: int) -> None:
    look = TerminalStyle(width=width)
    terminal = ShownRows()
    terminal.live.put(text_piece(text))
    terminal.end()
    for row in markdown_rows(text, look):
        assert "\n" not in row


def test_colours_of_a_row_do_not_count_as_columns() -> None:
    terminal = ShownRows(LOOK.but(colours=True))
    terminal.live.put(ScreenText(Flow.STATUS, "x" * 50, Tone.DIM))
    assert terminal.text().count("x") == WIDTH - 2


@pytest.mark.parametrize(
    "text",
    [
        "See <http://x/%1b]52;c;cm0gLXJmIH4K%1b%5c> ok",
        "See [x](http://x/%1b[2J%1b[H) ok",
        "See <http://x/%C2%9B2J> ok",
        "a &#x202e; b",
        "![a](b%1b[2J 'c&#x9b;2J')",
        "```a&#x9b;2J\nx\n```",
        "| a &#x9b;2J |\n|---|\n| <http://x/%1bc> |",
        "1. <http://x/%07%08>",
    ],
)
def test_what_markdown_decodes_commands_no_terminal(text: str) -> None:
    rows = "\n".join(TONES.sub("", row) for row in markdown_rows(text, LOOK))
    assert rows.strip()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", rows)


def test_a_question_that_has_no_room_any_more_stays_whole_above() -> None:
    terminal = ShownRows(TerminalStyle(width=WIDTH, height=50))
    terminal.live.ask([line("? shell"), *[line(f"    {number}") for number in range(20)], line("  [y]es / [n]o")])
    old_text = terminal.text()
    terminal.live.resize(LOOK)
    assert terminal.text() == old_text
    assert len(terminal.live.changing_rows(HEIGHT)) == 1
