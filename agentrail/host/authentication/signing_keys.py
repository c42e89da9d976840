"""`signing_keys`: the keys with which a host signs: one, or the new one and the one before it while it is replaced."""

from __future__ import annotations

import os
from typing import Final

from agentrail.values.secrets import Secret, secret_name

KEY_CHARS: Final = 32
"""The fewest characters of a key: who guesses it can sign."""

MOST_KEYS: Final = 2
"""How many keys there may be: the new one, and the one before."""

KEY_FOUND: Final = "a text that is missing or too short, or has more than two keys"
KEY_WANTED: Final = (
    f"a random text of {KEY_CHARS} characters or more, or two of them with a space between, the new key and the one "
    "before; or a `Secret` that names its variable"
)


def signing_keys(key: str | Secret) -> tuple[bytes, ...]:
    """Return the keys in *key*, the new one first; none if one is missing or too short, or there are too many."""
    name = secret_name(key)
    text = os.environ.get(name, "") if name is not None else key
    keys = text.split() if isinstance(text, str) else []
    if not 1 <= len(keys) <= MOST_KEYS or min(map(len, keys)) < KEY_CHARS:
        return ()
    return tuple([key.encode("utf-8", "surrogatepass") for key in keys])
