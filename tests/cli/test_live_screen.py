import re

import pyte
import pyte.modes
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.cli.line_editor import EditedLine
from agentrail.cli.live_screen import LiveScreen
from agentrail.cli.markdown_rows import markdown_rows, plain_rows, text_format
from agentrail.cli.screen import Flow, ScreenText, TerminalStyle, Tone, aside, columns, line, wrapped
from agentrail.cli.text_blocks import TextBlocks

WIDTH, HEIGHT = 30, 10
LOOK = TerminalStyle(width=WIDTH, height=HEIGHT)
MARKDOWN = "# A\n\ntext\n- one\n\n  more\n```py\n\nx = 1\n```\n~~~\nb"


class Shown:
    """A terminal that nobody here wrote, and what is drawn on it."""

    def __init__(self) -> None:
        self.live = LiveScreen(LOOK, plain_rows)
        self.screen = pyte.HistoryScreen(WIDTH, HEIGHT, history=10_000, ratio=0.01)
        self.screen.set_mode(pyte.modes.LNM)
        self._stream = pyte.Stream(self.screen)

    def draw(self, typed: str = "", below: tuple[str, ...] = ()) -> str:
        self._stream.feed(self.live.draw(EditedLine(typed, len(typed)), prompts=True, below=below))
        return self.text()

    def end(self) -> str:
        self._stream.feed(self.live.end())
        return self.text()

    def text(self) -> str:
        above = ["".join(row[column].data for column in range(WIDTH)) for row in self.screen.history.top]
        return "\n".join(row.rstrip() for row in [*above, *self.screen.display]).rstrip()


def said(text: str) -> ScreenText:
    return ScreenText(Flow.TEXT, text)


def test_what_is_finished_stays_above_what_changes() -> None:
    shown = Shown()
    shown.live.put(line("hello"))
    shown.live.put(said("One.\n\nTwo\nTh"))
    assert shown.draw("typed", ("idle",)) == "hello\nOne.\n\nTwo\nTh\n> typed\nidle"
    shown.live.put(aside("an aside"))
    shown.live.put(said("ree."))
    assert shown.draw("typed", ("idle",)) == "hello\nOne.\nan aside\n\nTwo\nThree.\n> typed\nidle"
    shown.live.put(ScreenText(Flow.STATUS, "… 1 of 2"))
    shown.live.put(line("done"))
    shown.live.send(EditedLine("typed", 5))
    assert shown.draw() == "hello\nOne.\nan aside\n\nTwo\nThree.\ndone\n> typed\n>"
    assert shown.end() == "hello\nOne.\nan aside\n\nTwo\nThree.\ndone\n> typed"


def test_thoughts_are_folded_when_they_are_over() -> None:
    shown = Shown()
    shown.live.put(ScreenText(Flow.THOUGHT, "I think " * 30))
    *thoughts, prompt = shown.draw().split("\n")
    assert prompt == ">"
    assert len(thoughts) == 3
    assert "I think I think" in thoughts[0]
    shown.live.put(said("So."))
    assert shown.draw().split("\n")[-2:] == ["So.", ">"]
    assert "(60 words;" in shown.text()


def test_a_drawing_that_changes_nothing_writes_nothing() -> None:
    live = LiveScreen(LOOK, plain_rows)
    assert live.draw(EditedLine("a", 1), prompts=True)
    assert live.draw(EditedLine("a", 1), prompts=True) == ""


PIECES = st.lists(
    st.one_of(
        st.text("ab \n`日\x1b", max_size=60).map(said),
        st.builds(ScreenText, st.just(Flow.THOUGHT), st.text("think \n", max_size=40)),
        st.builds(ScreenText, st.just(Flow.STATUS), st.text("0123456789", max_size=50)),
        st.text("xy 日", min_size=1, max_size=70).map(line),
        st.text("uv", min_size=1, max_size=70).map(aside),
    ),
    max_size=15,
)


@pytest.mark.long
@given(PIECES, st.lists(st.text("pq\n日", max_size=80), min_size=1, max_size=4))
def test_how_often_it_is_drawn_changes_nothing_that_stays(pieces: list[ScreenText], typed: list[str]) -> None:
    often, once = Shown(), Shown()
    for number, piece in enumerate(pieces):
        often.live.put(piece)
        often.draw(typed[number % len(typed)], ("about",))
        assert often.screen.cursor.y < HEIGHT
        once.live.put(piece)
    assert often.end() == once.end()


@pytest.mark.long
@given(st.text(st.sampled_from(MARKDOWN), max_size=80), st.lists(st.integers(0, 80)))
def test_it_does_not_matter_how_a_text_arrives(text: str, cuts: list[int]) -> None:
    whole, parts = TextBlocks(), TextBlocks()
    whole.add(text)
    expected = [*whole.take(), whole.rest()]
    blocks: list[str] = []
    at = 0
    for cut in sorted({*cuts, len(text)}):
        parts.add(text[at:cut])
        at = max(at, cut)
        blocks.extend(parts.take())
    assert [*blocks, parts.rest()] == expected
    assert re.sub(r"\s+", "", "".join(expected)) == re.sub(r"\s+", "", text)


def test_a_list_and_a_fence_are_one_block() -> None:
    blocks = TextBlocks()
    blocks.add("Intro.\n\n- one\n\n  more of it\n- two\n\n```\na\n\nb\n```\n\nEnd.\n")
    assert list(blocks.take()) == ["Intro.", "- one\n\n  more of it\n- two", "```\na\n\nb\n```"]
    assert blocks.rest() == "End."


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
    shown = Shown()
    shown.live.to_rows = markdown_rows
    shown.live.put(said(text))
    shown.end()
    for row in markdown_rows(text, look):
        assert "\n" not in row


def test_without_the_extra_a_text_is_laid_out_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert text_format() is markdown_rows
    monkeypatch.setattr("agentrail.cli.markdown_rows.find_spec", lambda _: None)
    assert text_format() is plain_rows
    assert plain_rows("# Not *laid* out", LOOK) == ["# Not *laid* out"]


def test_colours_of_a_row_do_not_count_as_columns() -> None:
    live = LiveScreen(LOOK.but(colours=True), plain_rows)
    live.put(ScreenText(Flow.STATUS, "x" * 50, Tone.DIM))
    assert live.draw(EditedLine(), prompts=False).count("x") == WIDTH - 2
