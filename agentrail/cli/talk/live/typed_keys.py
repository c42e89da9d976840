"""`TypedKeys`: what prompt_toolkit reads of a terminal, and pastes that it would take apart or wait for."""

from __future__ import annotations

from time import monotonic
from typing import Final, TextIO

from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

BEGIN: Final = "\x1b[200~"
"""What a terminal sends before a text that is pasted."""

END: Final = "\x1b[201~"

LOST_END: Final = 1.0
"""Seconds of silence after which a paste has ended without its end mark, which would be waited for ever."""

CHUNK: Final = 4096
"""The most bytes that are read at once: as many as a terminal of Linux gives."""

LONGEST_TYPED: Final = 64
"""The most characters that arrive at once and are typed; more are pasted, in a terminal that does not mark that."""


class TypedKeys(Vt100Input):
    """The keys of one terminal."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self._is_in_paste = False
        self._tail = ""  # the last characters, which may be the beginning of a mark
        self._read_at = 0.0
        self._unmarked = ""  # what has come of a paste that the terminal does not mark

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that have come; a long text will be one of them, as the line is copied for each."""
        text = self.stdin_reader.read(CHUNK)
        self._note_marks(text)
        if len(text) > LONGEST_TYPED and not self._is_in_paste and text.isprintable():
            self._unmarked += text
            return []
        pasted = self._take_unmarked()
        self.vt100_parser.feed(text)
        return [*pasted, *self._take()]

    def flush_keys(self) -> list[KeyPress]:
        """Return the keys that wait for more, because nothing came for a while."""
        return [*self._take_unmarked(), *super().flush_keys()]

    def end_lost_paste(self) -> list[KeyPress]:
        """Return the paste whose end mark has not come, as a key; no-op while it may still come."""
        if self._is_in_paste and monotonic() - self._read_at > LOST_END:
            self._is_in_paste = False
            self.vt100_parser.feed(END)
        return self._take()

    def _note_marks(self, text: str) -> None:
        """Note whether *text* leaves a paste open."""
        text_so_far = self._tail + text
        if END in text_so_far or BEGIN in text_so_far:
            self._is_in_paste = text_so_far.rfind(BEGIN) > text_so_far.rfind(END)
        self._tail, self._read_at = text_so_far[1 - len(BEGIN) :], monotonic()

    def _take_unmarked(self) -> list[KeyPress]:
        text, self._unmarked = self._unmarked, ""
        return [KeyPress(Keys.BracketedPaste, text)] if text else []

    def _take(self) -> list[KeyPress]:
        keys, self._buffer = self._buffer, []
        return keys
