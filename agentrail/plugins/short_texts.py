"""Shortens texts that plugins repeat: on one line, or with the middle left out."""

from __future__ import annotations


def printable_line(text: str) -> str:
    """Return *text* on one line, without invisible characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def one_line(text: str, max_chars: int) -> str:
    """Return *text* on one line of at most *max_chars* characters, without invisible characters."""
    line = printable_line(text[: 4 * max_chars])
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def without_middle(text: str, max_chars: int) -> str:
    """Return *text*, with its middle left out if it is longer than *max_chars* characters."""
    half = max_chars // 2
    return text if len(text) <= max_chars else f"{text[: half - 1]}…{text[-half:]}"
