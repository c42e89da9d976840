"""`in_own_words`: the text of an error of the library, as somebody reads it who has options, and no arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OWN_WORDS: Final[Mapping[str, str]] = {
    "; set it, or name another one by the option `api_key`": "; set it, or use another model: `agentrail models`",
    "; give a `Model` object, or register one with the supervisor": "; `agentrail models` tells about them",
    "; name one by the option `api_key`, because": "; `api_key` of an agent in a file names one, because",
    "nothing was run, because `bwrap` cannot confine it": "commands of agents run unconfined, and each is asked about",
    "; install it, or choose `LocalSandbox` on purpose": "; install bubblewrap",
    "; stop whoever uses it": "; end that program, or name another journal: "
    "`--journal FILE`; if it is agentrail, start both with the same `XDG_RUNTIME_DIR`, and they share the journal",
}
"""What the library advises those who write a program, and what the command line says in its place."""


def in_own_words(text: str) -> str:
    """Return *text* with the advice that `OWN_WORDS` has for the command line."""
    for library, command_line in OWN_WORDS.items():
        text = text.replace(library, command_line)
    return text
