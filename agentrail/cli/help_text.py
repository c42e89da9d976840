"""Texts of the terminal: the first screen and the help."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from agentrail.cli.screen import ScreenText, Tone, line

TRY: Final = (
    ("list the files", "a tool call"),
    ("read notes.txt", "or: search for tea, run ls, remember that I like tea"),
    ("write hello to a.txt", "asks you first: answer y, n, a or e"),
    ("count to 20", "slow: type while it runs, which is steering"),
    ("count to 20", "once more, and stop it with Ctrl-C"),
)
"""Suggested prompts, in order, with what each demonstrates."""

HELP: Final = """\
  While nothing runs, what you type is a prompt. While the agent works, it is steering: the agent
  reads it before it goes on, and tools that can be stopped are stopped for it. Lines from a pipe or
  a file wait until nothing runs, but for /steer: each is a prompt, or the answer to a question.

  Ctrl-C        stop what runs; twice within two seconds, or while nothing runs: leave
  Ctrl-D        leave
  /steer TEXT   steer; /steer now TEXT does not wait for the end of the answer
  /status       what the session is doing
  /model NAME   use another model from the next turn on
  /help         this
  /quit         leave"""
"""All keys and commands."""


def greeting(version: str, model: str, folder: Path, *, fresh: bool) -> tuple[ScreenText, ...]:
    """Return the first screen: what this is, where it works, the keys, and what to try with the demo model."""
    talks = "the built-in demo model, which only knows phrases" if model == "demo" else f"the model {model}"
    what = "a fresh folder, deleted at the end" if fresh else "your folder; it asks before it writes"
    width = max(len(phrase) for phrase, _ in TRY)
    suggestions = tuple(line(f"    {phrase:{width}}   {shows}") for phrase, shows in TRY) if model == "demo" else ()
    return (
        line(f"agentrail {version}: talk to {talks}.", Tone.BOLD),
        line(f"Its tools work in {folder}, {what}."),
        line("Shell commands are not confined to it: each runs only if you say yes."),
        line("Type and press Enter. Ctrl-C stops what runs, twice: leaves. /help tells more."),
        *((line("\n  Try, in this order:", Tone.DIM), *suggestions) if suggestions else ()),
        line(""),
    )
