"""The commands that single keys stand for: a key does what a person could also type. And what keys do just now."""

from __future__ import annotations

from typing import Final

from agentrail.cli.output.screen_question import ScreenQuestion

LATER: Final = "/later "
"""Alt-Enter: what is typed is a prompt for later."""

NEXT: Final = "next"
"""What the command says for the mode after the one that is in force."""

NEXT_MODE: Final = f"/mode {NEXT}"
"""Shift-Tab: other calls run without asking."""

STOP: Final = "/stop"
"""Escape: what runs is stopped."""

AT_REST_ALONE: Final = "rest"
"""What the command says that goes back before a prompt only if no turn is open."""

GO_BACK: Final = f"/rewind {AT_REST_ALONE}"
"""Escape twice, where nothing runs: the person chooses before which prompt the conversation goes back."""

WHICH_KEYS: Final = "?"
"""Alone in the typed text: the keys of where one is are shown."""

AWAY: Final = "Backspace takes this away."

AT_REST: Final = f"""\
  Enter sends; \\ and Enter: another line; Ctrl-X Ctrl-E: your editor.
  Up, Ctrl-R: what you typed before. Ctrl-V: a picture in the clipboard.
  Shift-Tab: the next mode. / commands, @ files, ! a command line, # a memory.
  Escape twice: go back before a prompt. Ctrl-C twice, or Ctrl-D: leave.
  {AWAY}"""

AT_WORK: Final = f"""\
  Enter steers; Alt-Enter: a prompt for later. / commands, @ files.
  Escape, Ctrl-C: stop what runs. Ctrl-C twice: leave. {AWAY}"""

DECISIONS: Final = {
    "y": "y: yes",
    "n": "n: no",
    "a": "a: always, after you see for what",
    "e": "e: change the arguments",
    "r": "r: say why not",
}
"""What the keys do that answer a question."""


def keys_for(question: ScreenQuestion, *, is_working: bool) -> str:
    """Return what keys do while *question* is open, which may be none, and the session works or rests."""
    if not question.rows:
        return AT_WORK if is_working else AT_REST
    letters = f"{question.keys}{'a' if question.always else ''}"
    decisions = [text for letter, text in DECISIONS.items() if letter in letters] or ["Enter answers"]
    end = "Escape goes back" if question.can_leave else "Escape stops the turn"
    return f"  {', '.join(decisions)}. {end}. {AWAY}"
