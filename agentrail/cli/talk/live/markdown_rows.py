"""Lays out what a model says as Markdown, by rich."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Final

from agentrail.cli.output.screen import TONES, Backdrop, TerminalStyle, clean

if TYPE_CHECKING:
    from markdown_it.token import Token


CODE: Final[Mapping[Backdrop, int]] = {"unknown": 31, "dark": 116, "light": 24}
"""The colour of code and marks, among the 256 of terminals; that for an unknown background is read on each."""


def markdown_rows(block: str, look: TerminalStyle) -> Sequence[str]:
    """Return the rows of *block* as Markdown, with the target of each link, and with HTML as it was written."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - takes a tenth of a second
    from rich.console import Console  # noqa: PLC0415 - the same
    from rich.markdown import Markdown  # noqa: PLC0415 - the same
    from rich.theme import Theme  # noqa: PLC0415 - the same

    markdown = Markdown("", hyperlinks=False, code_theme="ansi_light" if look.background == "light" else "ansi_dark")
    markdown.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(block)
    _clean(markdown.parsed)
    target = StringIO()
    console = Console(
        file=target,
        force_terminal=True,
        color_system="256" if look.colours else None,
        width=look.room,
        highlight=False,
        legacy_windows=False,
        theme=Theme({f"markdown.{name}": style for name, style in _styles(look.background).items()}),
        _environ={},
    )
    console.print(markdown)
    return _without_margins(target.getvalue().split("\n"))


def _styles(background: Backdrop) -> Mapping[str, str]:
    """Return the styles that rich has for one background alone, such as code on black, and yellow."""
    code, quiet = CODE[background], "dim"
    return {
        "code": f"bold color({code})",
        "code_block": f"color({code})",
        "block_quote": "italic",
        "hr": quiet,
        "list": "none",
        "item": "none",
        "item.bullet": f"color({code})",
        "item.number": f"color({code})",
        "link": f"color({code})",
        "link_url": f"underline color({code})",
    }


def _clean(tokens: Sequence[Token]) -> None:
    """Clean what the parser has decoded: `%1b` in an address and `&#x202e;` were no control characters before."""
    for token in tokens:
        token.content = clean(token.content)
        token.attrs = {name: clean(part) if isinstance(part, str) else part for name, part in token.attrs.items()}
        _clean(token.children or ())


def _without_margins(rows: Sequence[str]) -> Sequence[str]:
    """Return *rows* without the empty ones at their beginning and end, and without spaces at the ends of the others."""
    filled = [number for number, row in enumerate(rows) if TONES.sub("", row).strip()]
    return [row.rstrip(" ") for row in rows[filled[0] : filled[-1] + 1]] if filled else []
