"""`Document`: what a store of knowledge says of one of its documents."""

from __future__ import annotations

import msgspec


class Document(msgspec.Struct, frozen=True):
    """A document of a store, without its text."""

    name: str
    """Its name, unique in the store; it may have `/`, as the path of a file has."""
    chars: int
    """How many characters its text has."""
    passages: int
    """How many passages it was cut into."""
    digest: str
    """SHA-256 of its text in UTF-8, in hexadecimal digits."""
    added_ms: int
    """When this text was added, in milliseconds since 1970."""
