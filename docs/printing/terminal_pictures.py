"""The pictures of the terminal: `agentrail chat` with the demo model in a pseudo-terminal, drawn by a browser.

`python -m docs.printing.terminal_pictures` (`make terminal-pictures`) writes them into `docs/pictures/terminal`. They
show ports and tokens, so they are made anew only when the terminal has changed; whoever makes them looks at each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

from agentrail.cli.talk.chat import fill
from docs.printing.small_png import small_png
from tests.cli.talking import at_a_terminal
from tests.host.browser.browsing import CHROMIUM, FLAGS

if TYPE_CHECKING:
    from playwright.sync_api import Page
    from pyte.screens import Char

    from tests.cli.talking import Talk

FOLDER: Final = Path(__file__).parents[1] / "pictures" / "terminal"

MOST_BYTES: Final = 60_000
"""The most bytes of a picture."""

SMALL: Final = (80, 24)
LARGE: Final = (120, 40)
"""Columns and rows."""


@frozen
class Theme:
    """How a terminal looks, and how it says so."""

    environment: Mapping[str, str]
    """The variables by which a program knows."""
    ink: str
    """The colour of text."""
    paper: str
    """The colour behind it."""
    colours: Mapping[str, str]
    """The 16 colours of the terminal that are used, by name."""


_DARK: Final = {
    "cyan": "#7fc8d8",
    "brightblack": "#6b7589",
    "blue": "#82a8e6",
    "magenta": "#c39ae0",
    "black": "#000000",
}
_LIGHT: Final = {
    "cyan": "#0b7285",
    "brightblack": "#6a737d",
    "blue": "#0550ae",
    "magenta": "#8250df",
    "black": "#000000",
}
THEMES: Final = {
    "dark": Theme({"COLORFGBG": "15;0"}, "#d8dee9", "#1e2430", _DARK),
    "light": Theme({"COLORFGBG": "0;15"}, "#24292f", "#ffffff", _LIGHT),
    "plain": Theme({"NO_COLOR": "1"}, "#d8dee9", "#1e2430", {}),
}


@frozen
class Picture:
    """A screen: in which terminal it is, and how a person gets there."""

    name: str
    theme: str
    size: tuple[int, int]
    steps: Sequence[tuple[str, Sequence[str]]]
    """What is typed, and what is on the screen then."""
    notes: str = ""
    """The content of `notes.txt`, if it is not that of the samples."""


REST: Final = ">\n  idle"
LIST: Final = ("list the files\r", ("answered", REST))
READ: Final = ("read notes.txt\r", ("> read notes.txt", "answered", REST))
ASKED: Final = ("write Tuesday: tea with Ada at five. to notes.txt\r", ("waits for your approval", "waits for you"))

PICTURES: Final = (
    Picture("greeting-dark", "dark", SMALL, (("", ()),)),
    Picture("greeting-light", "light", SMALL, (("?", ("Shift-Tab",)),)),
    Picture("question-dark", "dark", SMALL, (ASKED,)),
    Picture("question-light", "light", SMALL, (ASKED,)),
    Picture("question-plain", "plain", SMALL, (ASKED,)),
    Picture("menu-dark", "dark", SMALL, (LIST, ("/r", ("/rewind",)))),
    Picture("rewind-light", "light", SMALL, (LIST, READ, ("/rewind\r", ("Escape",)))),
    Picture("memory-dark", "dark", SMALL, (LIST, ("# Tea takes four minutes.\r", ("Which memory file",)))),
    Picture(
        "steering-dark",
        "dark",
        LARGE,
        (
            LIST,
            ("count to 60\r", ("… 1 of 60",)),
            ("\x1b[200~stop, and look at @notes.txt first:\n  it has the days\x1b[201~\r", ("reads it now", REST)),
            ("/status\r", ("turns so far", REST)),
        ),
    ),
    Picture(
        "talk-light",
        "light",
        LARGE,
        (
            LIST,
            READ,
            ("search for tea\r", ("> search for tea", "answered", REST)),
            ("!wc -l notes.txt\r", ("3 notes.txt", REST)),
            ("what is in @src/tea.py and @tea.txt?\r", ("no such file", "built-in demo model", REST)),
        ),
    ),
)


def make(folder: Path) -> None:
    """Write the pictures into *folder*; raise if one is too large."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be installed

    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        for picture in PICTURES:
            content = _drawn(page, _screen_as_html(picture))
            if len(content) > MOST_BYTES:
                problem = f"{picture.name} has {len(content)} bytes, and may have {MOST_BYTES}: make it smaller"
                raise ValueError(problem)
            (folder / f"{picture.name}.png").write_bytes(content)
        browser.close()


def _drawn(page: Page, html: str) -> bytes:
    page.set_content(html)
    return small_png(page.locator("#screen").screenshot())


def _screen_as_html(picture: Picture) -> str:
    """Have the conversation of *picture*, and return what is on the screen then."""
    theme = THEMES[picture.theme]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name) / "tea"
        work.mkdir()
        fill(work)
        args = ("chat", "--model", "demo", "--dir", str(work), "--journal", str(Path(name) / "sessions.db"))
        variables = {"AGENTRAIL_HOME": str(Path(name) / "home"), "TERM": "xterm-256color", **theme.environment}
        with at_a_terminal(*args, **variables) as (talk, _):
            talk.resize(*picture.size)
            talk.sees(REST)
            for typed, texts in picture.steps:
                talk.say(typed)
                talk.sees(*texts)
            talk.settle()
            return _page(talk, theme, picture.size)


def _page(talk: Talk, theme: Theme, size: tuple[int, int]) -> str:
    columns, rows = size
    lines = "".join(f"<div>{''.join(_runs(talk, row, columns, theme))}</div>" for row in range(rows))
    style = (
        f"body{{margin:0}}#screen{{display:inline-block;padding:12px 14px;background:{theme.paper};color:{theme.ink};"
        "font:13px/17px 'DejaVu Sans Mono',monospace}"
        f"div div{{height:17px;width:{columns}ch;white-space:pre;position:relative}}"
        "span{position:absolute;top:0;height:17px;overflow:hidden}"
    )
    return f"<style>{style}</style><div id=screen>{lines}</div>"


def _runs(talk: Talk, row: int, columns: int, theme: Theme) -> Iterator[str]:
    """Yield an element for each run of characters that look alike, at its column: some are no cell wide in a font."""
    cells = [(column, talk.screen.buffer[row][column]) for column in range(columns)]
    for look, group in groupby(cells, key=lambda cell: _look(cell[1], theme, is_cursor=_is_cursor(talk, row, cell[0]))):
        run = list(group)
        text = "".join(char.data for _, char in run)
        if text.strip() or "background" in look:
            yield f'<span style="left:{run[0][0]}ch;width:{len(run)}ch;{look}">{escape(text)}</span>'


def _is_cursor(talk: Talk, row: int, column: int) -> bool:
    return (row, column) == (talk.screen.cursor.y, talk.screen.cursor.x)


def _look(char: Char, theme: Theme, *, is_cursor: bool) -> str:
    ink, paper = _colour(char.fg, theme.ink, theme), _colour(char.bg, theme.paper, theme)
    if char.reverse != is_cursor:
        ink, paper = paper, ink
    parts = [
        *([f"color:{ink}"] if ink != theme.ink else []),
        *([f"background:{paper}"] if paper != theme.paper else []),
        *(["font-weight:700"] if char.bold else []),
        *(["text-decoration:underline"] if char.underscore else []),
        *(["font-style:italic"] if char.italics else []),
    ]
    return ";".join(parts)


def _colour(name: str, default: str, theme: Theme) -> str:
    """Return a colour of CSS: pyte has names for 16 of them, and digits for the others."""
    if name == "default":
        return default
    is_number = len(name) == len("rrggbb") and all(digit in "0123456789abcdef" for digit in name)
    return f"#{name}" if is_number else theme.colours.get(name, default)


if __name__ == "__main__":
    make(FOLDER)
