"""Keeps the API's signatures of the parts of an answer, so that later requests can return each on its part.

Only `Thinking` has a field for a signature. The signature of a text or a call is therefore kept in a `Thinking` without
text, called a seal here. A prefix of the signature says which part it belongs to:
* `thought:…` the `Thinking` itself, which has the text of the thought;
* `text:…` the text before the seal;
* `alone:…` a part without text, which has only a signature;
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
    """Return a thought with its *signature*; an empty one means that it has none."""
    return Thinking(text, f"{THOUGHT}:{signature}" if signature else None)


def seal(position: str, signature: str) -> Thinking:
    """Return a seal: a `Thinking` without text that keeps *signature* for the part named by *position*."""
    return Thinking("", f"{position}:{signature}")


def seal_of_call(number: int, signature: str) -> Thinking:
    """Return a seal that keeps *signature* for the call with this *number*, counted from 0."""
    return seal(CALL, f"{number}:{signature}")


def split_seal(part: Thinking) -> tuple[str, str]:
    """Return the prefix of the signature of *part*, which says what it belongs to, and the signature without it."""
    position, _, signature = (part.signature or "").partition(":")
    return position, signature


def split_call_seal(signature: str) -> tuple[str, str]:
    """Split *signature* of a `call:` seal into the number of the call, as text, and the API's signature."""
    number, _, rest = signature.partition(":")
    return number, rest
