"""Where the signatures of an answer belong, kept as thoughts without words.

The API signs parts of an answer, and wants each signature back on the part that had it. A thought holds its own; that
of another part becomes a thought without text, whose signature says where it belongs:
* `thought:…` the thought itself;
* `text:…` the text before it;
* `alone:…` a part of its own, without text;
* `call:2:…` the third call.
"""

from __future__ import annotations

from typing import Final

from agentrail.values.content import Thinking

THOUGHT: Final = "thought"
TEXT: Final = "text"
ALONE: Final = "alone"
CALL: Final = "call"


def thought(text: str, signature: str) -> Thinking:
    """Return a thought, with its own signature if it has one."""
    return Thinking(text, f"{THOUGHT}:{signature}" if signature else None)


def seal(place: str, signature: str) -> Thinking:
    """Return the *signature* of what is at *place*."""
    return Thinking("", f"{place}:{signature}")


def seal_of_call(number: int, signature: str) -> Thinking:
    """Return the *signature* of the call with this *number*, from 0."""
    return seal(CALL, f"{number}:{signature}")


def opened(part: Thinking) -> tuple[str, str]:
    """Return where the signature of *part* belongs, and the signature."""
    place, _, signature = (part.signature or "").partition(":")
    return place, signature


def opened_call(signature: str) -> tuple[str, str]:
    """Return the number of the call that *signature* begins with, as text, and the rest."""
    number, _, rest = signature.partition(":")
    return number, rest
