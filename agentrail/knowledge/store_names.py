"""Checks of the names of documents and stores, and the names of their files."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final

from agentrail.errors import UsageError

MAX_NAME: Final = 300
"""The most characters of the name of a document."""

MAX_STORE: Final = 200
"""The most characters of the name of a store."""

_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_HARMFUL: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of controls, invisible characters, halves of pairs and ends of lines."""

_DEVICE: Final = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]")


def check_document_name(name: str) -> None:
    """Raise `UsageError` if no document can have the *name*: citations, lists and terminals show it as it is."""
    problem = _text_problem(name, MAX_NAME)
    if not problem and any(part in {"", ".", ".."} for part in name.split("/")):
        problem = "it has an empty part, or one that is `.` or `..`, between its `/`"
    if not problem and (name.startswith("[") or "[[" in name or "]]" in name):
        problem = "it begins with `[`, or has `[[` or `]]`, between which citations stand"
    if problem:
        raise UsageError("bad-document-name", name[:MAX_NAME], problem)


def is_shown_as_it_is(name: str) -> bool:
    """Whether citations and prompts can have *name*, which a file from elsewhere has: no line ends in it, nor a mark.

    Characters that a later version of Unicode knows are none that this one could call harmful.
    """
    if not 1 <= len(name) <= MAX_NAME or "[[" in name or "]]" in name:
        return False
    return name.isprintable() or not any(unicodedata.category(char) in _HARMFUL for char in name)


def check_store_name(name: str) -> None:
    """Raise `UsageError` if no store can have the *name*."""
    problem = _text_problem(name, MAX_STORE)
    if problem:
        raise UsageError("bad-store-name", name[:MAX_STORE], problem)


def file_stem(name: str) -> str:
    """Return the name of a file or folder for *name*: no two names have the same one, whatever the file system folds.

    It is the name itself if that is short and of small letters, digits, `_` and `-`; else a digest.
    """
    if _PLAIN.fullmatch(name) and not _DEVICE.fullmatch(name):
        return name
    return f"~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _text_problem(name: str, most: int) -> str:
    if not 1 <= len(name) <= most:
        return f"it has {len(name)} characters, and 1 to {most} are allowed"
    if not name.isprintable():
        return "it has characters that cannot be printed"
    if name != name.strip():
        return "it begins or ends with a blank"
    if not unicodedata.is_normalized("NFC", name):
        return "its letters and accents are not in the form NFC of Unicode"
    return ""
