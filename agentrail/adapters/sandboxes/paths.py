"""Checks the text of a path before it is opened: the first of two protections.

The second one is how files are opened (`confined_open`), which keeps any path within the root. The checks here give
clear errors, and refuse paths that no file system would refuse: names with characters that look like dots or slashes,
and files that other programs run or take settings from.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final, TypeAlias

from agentrail.errors import PathRefused

Parts: TypeAlias = tuple[str, ...]
"""A path below the root, as its parts between slashes; empty for the root itself."""

MAX_NAME: Final = 255
"""The most bytes of one part of a path; no common file system takes more."""

MAX_PATH: Final = 4095
"""The most bytes of a whole path."""


class Why(StrEnum):
    """The reasons for which a path is refused."""

    EMPTY = "it is empty; `.` is the root"
    NUL = "it has a NUL character"
    CONTROL = "it has a control character, or one that changes the direction of writing"
    SURROGATE = "it has half a character"
    ABSOLUTE = "it is absolute; give one relative to the root"
    HOME = "it begins with `~`, which stands for a home directory; write `./~` for a name"
    PARENT = "it has a `..` part; give one that goes down from the root"
    LOOKALIKE = "it has characters that look like dots or slashes"
    TOO_LONG = "it is too long"
    OUTSIDE = "it leads out of the root, or to another file system"
    THROUGH_LINK = "it leads through a link; write to what the link points to"
    LINKS = "it leads through too many links"
    HARD_LINK = "the file has more than one name, and the others may be outside of the root"
    NO_FILE = "it is neither a file nor a folder"
    PROTECTED = "it, or what is in it, is run or obeyed by other programs; a person must change it"
    OWN = "agentrail keeps files of its own there, which no agent sees"
    HIDDEN = (
        "the sandbox hides it, as it may have keys or passwords; a person can show it by `allowed_paths` of"
        " `SecurityGuard`, or by `hidden` of the sandbox"
    )
    MOVING = "somebody else changes it at the same time"


PROTECTED: Final = (
    ".git",
    ".gitmodules",
    ".gitconfig",
    ".hg",
    ".agentrail",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".envrc",
    ".ripgreprc",
    ".ssh",
)
"""Names of files and folders that cannot be written by default, nor anything in them, at any depth.

Other programs run them or take settings from them. They cannot be created either.
"""

_DIRECTIONS: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNSEEN: Final = frozenset("\u00ad\u034f\u200b\u200c\u200d\u2060\ufeff")
_SLASHES: Final = frozenset("\u2044\u2215\u29f8\uff0f")


def _empty(path: str) -> bool:
    return not path.strip()


def _nul(path: str) -> bool:
    return "\0" in path


def _surrogate(path: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in path)


def _control(path: str) -> bool:
    return any(char < " " or "\x7f" <= char <= "\x9f" or char in _DIRECTIONS for char in path)


def _absolute(path: str) -> bool:
    return path.startswith("/")


def _home(path: str) -> bool:
    return path.startswith("~")


def _parent(path: str) -> bool:
    return ".." in path.replace("\\", "/").split("/")


def _lookalike(path: str) -> bool:
    if path.isascii():
        return False
    bare = "".join(char for char in unicodedata.normalize("NFKC", path) if char not in _UNSEEN)
    return bool(_SLASHES & set(path)) or bare.count("/") != path.count("/") or _parent(bare)


def _too_long(path: str) -> bool:
    return len(path.encode()) > MAX_PATH or any(len(part.encode()) > MAX_NAME for part in path.split("/"))


CHECKS: Final[dict[Why, Callable[[str], bool]]] = {
    Why.EMPTY: _empty,
    Why.NUL: _nul,
    Why.SURROGATE: _surrogate,
    Why.TOO_LONG: _too_long,
    Why.CONTROL: _control,
    Why.ABSOLUTE: _absolute,
    Why.HOME: _home,
    Why.PARENT: _parent,
    Why.LOOKALIKE: _lookalike,
}
"""For each reason that the text of a path can give, the function that checks for it; checked in this order."""


def parts_of(path: str) -> Parts:
    """Return the parts of *path*; raise `PathRefused` if one of the checks fails."""
    for why, is_found in CHECKS.items():
        if is_found(path):
            raise PathRefused(path, why)
    return tuple(part for part in path.split("/") if part not in {"", "."})


def path_of(parts: Iterable[str]) -> str:
    """Return *parts* joined to the text of a path; `.` for the root."""
    return "/".join(parts) or "."


def check_writable(path: str, parts: Parts, protected: Iterable[str] = PROTECTED) -> None:
    """Raise `PathRefused` if *parts* is the root itself, or has a name in *protected*."""
    if not parts:
        raise PathRefused(path, Why.NO_FILE)
    names = {plain(part) for part in parts}
    if not names.isdisjoint(map(plain, protected)):
        raise PathRefused(path, Why.PROTECTED)


def plain(name: str) -> str:
    """Return *name* simplified as some file systems do: without case, invisible characters and dots at the end."""
    bare = "".join(char for char in unicodedata.normalize("NFKC", name) if char not in _UNSEEN)
    return bare.casefold().rstrip(". ")
