"""`partial_json`: the JSON value that the beginning of a text holds."""

from __future__ import annotations

import json
import re
from typing import Final

from agentrail.errors import NotJson
from agentrail.values.argument_checks import checked
from agentrail.values.json import Json, freeze

_WORD: Final = re.compile(r'\s*([{\[]|[}\]]|[:,]|"(?:[^"\\]|\\.)*"|[^\s{}\[\]:,"]+)', re.DOTALL)
_CLOSERS: Final = {"{": "}", "[": "]"}
_BEGUN: Final = re.compile(r'\s*"(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*', re.DOTALL)
"""The beginning of a string, without an escape that is not whole."""
_HALF: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")
"""The first half of a character that is written as two escapes."""


@checked
def partial_json(text: str) -> Json:
    """Return the JSON value that *text*, the beginning of one, holds so far; `None` if there is none yet.

    What is not whole is left out, but for a string, which has what there is of it: `{"to": "Bo` is `{"to": "Bo"}`.
    """
    closed_text, closers = "", list[str]()
    is_key = False
    end = 0
    while match := _WORD.match(text, end):
        word, end = match[1], match.end()
        if word in _CLOSERS:
            closers.append(_CLOSERS[word])
        elif word in "}]" and closers:
            closers.pop()
        if word in ":," or (is_key and word[0] == '"'):
            is_key = word == "," and closers[-1:] == ["}"]
            continue
        is_key = word == "{"
        if end < len(text) or word[0] in '{}[]"':  # a number at the end may go on
            closed_text = text[:end] + "".join(reversed(closers))
    begun = None if is_key else _BEGUN.match(text, end)
    if begun is not None:
        closed_text = _HALF.sub("", text[: begun.end()]) + '"' + "".join(reversed(closers))
    try:
        return freeze(json.loads(closed_text)) if closed_text else None
    except (ValueError, NotJson, RecursionError):
        return None
