"""Lays out what a model says: as Markdown if the extra `cli` (rich) is installed, else as it was written."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from io import StringIO

from agentrail.cli.live_screen import Format
from agentrail.cli.screen import TONES, TerminalStyle, wrapped


def text_format() -> Format:
    """Return the function that lays out text; it imports rich, which takes a tenth of a second."""
    if find_spec("rich") is None:
        return plain_rows
    import_module("rich.markdown")  # imported now, so that the first block of text does not wait for it
    return markdown_rows


def plain_rows(block: str, look: TerminalStyle) -> Sequence[str]:
    """Return the lines of *block* unchanged, as rows."""
    return wrapped(block, look.room)


def markdown_rows(block: str, look: TerminalStyle) -> Sequence[str]:
    """Return the rows of *block* as Markdown, with the target of each link, and with HTML as it was written."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - comes with rich
    from rich.console import Console  # noqa: PLC0415 - an extra
    from rich.markdown import Markdown  # noqa: PLC0415 - an extra

    markdown = Markdown("", hyperlinks=False, code_theme="ansi_dark")
    markdown.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(block)
    target = StringIO()
    console = Console(
        file=target,
        force_terminal=True,
        color_system="256" if look.colours else None,
        width=look.room,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    console.print(markdown)
    return _without_margins(target.getvalue().split("\n"))


def _without_margins(rows: Sequence[str]) -> Sequence[str]:
    """Return *rows* without the empty ones at their beginning and end, and without spaces at the ends of the others."""
    filled = [number for number, row in enumerate(rows) if TONES.sub("", row).strip()]
    return [row.rstrip(" ") for row in rows[filled[0] : filled[-1] + 1]] if filled else []
