"""Media types of uploaded files, and the names under which the host stores them in place of the sender's."""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agentrail.errors import UsageError
from agentrail.errors.agentrail_error import cut

PDF: Final = "application/pdf"
UNKNOWN: Final = "application/octet-stream"

_BEGINNINGS: Final[Mapping[str, re.Pattern[bytes]]] = MappingProxyType(
    {
        "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
        "image/jpeg": re.compile(rb"\xff\xd8\xff"),
        "image/gif": re.compile(rb"GIF8[79]a"),
        "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
        PDF: re.compile(rb"%PDF-"),
    }
)
"""How files that models are shown begin, by media type."""

HEAD: Final = 16
"""How many bytes of a file tell what it is."""

SHOWN: Final = frozenset(_BEGINNINGS)
"""Media types of the files that models are shown as parts of the message."""

IMAGES: Final = SHOWN - {PDF}

_SAYS_NOTHING: Final = frozenset({"", UNKNOWN, "application/x-www-form-urlencoded"})
"""Media types that clients such as curl send if nobody tells them one."""
_SAME: Final = {"image/jpg": "image/jpeg"}
_MEDIA: Final = re.compile(r"(?!multipart/)[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}", re.ASCII)

MAX_KEPT: Final = 60
"""The most characters of the sender's name that are in a name of ours."""
_MAX_ENDING: Final = 10
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_SEVERAL: Final = re.compile(r"[.-]{2,}")
_OURS: Final = re.compile(rf"[0-9a-f]{{12}}-[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{MAX_KEPT - 1}}}", re.ASCII)


def said_media(header: str) -> str:
    """Return the media type in the header `Content-Type`, empty if it is missing; raise `UsageError` if not valid.

    A multipart form is refused: the file would be one of its parts.
    """
    media = header.partition(";")[0].strip().lower()
    if media in _SAYS_NOTHING:
        return ""
    if not _MEDIA.fullmatch(media):
        raise UsageError("wrong-media", cut(media), UNKNOWN)
    return _SAME.get(media, media)


def media_of(media: str, head: bytes) -> str:
    """Return *media*, checked against *head*, the first bytes; raise `UsageError` if one of `SHOWN` is wrong."""
    shown_type = shown_media(head)
    if media in SHOWN and shown_type != media:
        raise UsageError("wrong-content", cut(media))
    return media or shown_type or UNKNOWN


def shown_media(head: bytes) -> str | None:
    """Return the media type, one of `SHOWN`, of a file that begins with *head*; `None` if it is of another."""
    return next((media for media, beginning in _BEGINNINGS.items() if beginning.match(head)), None)


def new_name(name: str) -> str:
    """Return a new name for a file that its sender calls *name*: random digits, and letters of *name*."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = _SEVERAL.sub("-", _FOREIGN.sub("-", plain))
    plain = (f"file{plain}" if plain.startswith(".") else plain).strip(".-") or "file"
    stem, dot, ending = plain.rpartition(".")
    if stem and len(ending) <= _MAX_ENDING:
        plain = f"{stem[: MAX_KEPT - len(dot) - len(ending)]}{dot}{ending}"
    return f"{secrets.token_hex(6)}-{plain[:MAX_KEPT]}".rstrip(".-")


def is_ours(name: str) -> bool:
    """Whether `new_name` can have made *name*."""
    return _OURS.fullmatch(name) is not None


def readable(name: str) -> str:
    """Return a sender's name without characters that cannot be printed, such as line breaks."""
    return "".join([char if char.isprintable() else "\ufffd" for char in name])
