"""`checked_words`: applies the rules of uploaded files to images and files that are in a message itself."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from agentrail.adapters.models.providers import PROVIDERS
from agentrail.api.limits import HostLimits
from agentrail.errors import UsageError
from agentrail.host.uploads.file_kinds import HEAD, IMAGES, UNKNOWN, media_of, said_media
from agentrail.host.uploads.prompt_files import MAX_SHOWN, TOO_LARGE, most_shown
from agentrail.values.content import File, Image, Part

EMPTY: Final = "has no content"
NO_BASE64: Final = "is no base64, or has something else in it"
NO_IMAGE: Final = f"is `{{}}`, and must be one of {', '.join(sorted(IMAGES))}"
HAS_BOTH: Final = "has bytes and a reference, and must have one of them"
MAX_URL: Final = 4096
"""The most characters of a reference; addresses that are signed may have some 2,000."""
MAX_HOST: Final = 253
"""The most characters of a name in the DNS."""
NO_URL: Final = (
    f"has a `reference` that is no plain public `https://` URL of at most {MAX_URL} characters (a name of the "
    f"internet, no user, no other port, all else than ASCII with `%`); give one, or upload the file"
)
AT_PROVIDER: Final = (
    "has a `reference` to a provider of models, where the host's key can read files of others; upload the file, or "
    "give its bytes"
)
HAS_PROVIDER: Final = (
    "has a `provider`, and only the host's program can give files that were uploaded to one; upload the file here, or "
    "give its bytes"
)

_URL: Final = re.compile(
    r"https://((?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9]))"
    r"\.?(?::443)?(?:[/?#][A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*)?"
)
"""A URL that all who read it read alike. The last label begins with a letter, so it is no IP address in any form."""
_NOT_PUBLIC: Final = re.compile(
    r".+\.(?:arpa|corp|home|internal|intranet|invalid|lan|local|localhost|onion|private|test)"
)
"""Names that a provider, or a model that runs beside the host, would look up in its own network."""
_PROVIDERS: Final = frozenset(
    {
        *[urlsplit(provider.base_url).hostname or "" for provider in PROVIDERS.values()],
        "googleapis.com",  # Gemini also reads files of Google's storage, and has regional addresses
        "storage.cloud.google.com",
    }
)
"""Where providers keep the files of their customers, with all below them."""


def checked_words(call: str, words: Sequence[Part], limits: HostLimits) -> tuple[Part, ...]:
    """Check the parts of a message; return them, each image and file with the media type of its content.

    Raise `UsageError`, `UsageError` or `UsageError` for one that could not be uploaded, or not be shown to a model. A
    provider fetches a reference with the host's key, so only addresses of public files are allowed.
    """
    checked: list[Part] = []
    room = MAX_SHOWN
    for number, part in enumerate(words):
        at = f"its `message[{number}]`"
        if isinstance(part, File) and (part.reference or part.provider):
            checked.append(part.but(media_type=_media_by_reference(call, at, part)))
        elif isinstance(part, Image | File):
            media, size = _checked_media(call, at, part, room, limits)
            checked.append(part.but(media_type=media))
            room -= size
        else:
            checked.append(part)
    return tuple(checked)


def _media_by_reference(call: str, at: str, file: File) -> str:
    """Return the media type of a file given by reference; raise `UsageError` if it may be to a private file."""
    problem = _reference_problem(file)
    if problem is not None:
        raise UsageError("bad-body", call, at, problem)
    media = said_media(file.media_type) or UNKNOWN
    _check_image(call, at, file, media)
    return media


def _reference_problem(file: File) -> str | None:
    if file.provider:
        return HAS_PROVIDER
    if file.data:
        return HAS_BOTH
    match = _URL.fullmatch(file.reference) if len(file.reference) <= MAX_URL else None
    host = "" if match is None else match[1].lower()
    if not 0 < len(host) <= MAX_HOST or _NOT_PUBLIC.fullmatch(host):
        return NO_URL
    labels = host.split(".")
    is_at_provider = any(".".join(labels[index:]) in _PROVIDERS for index in range(len(labels)))
    return AT_PROVIDER if is_at_provider else None


def _check_image(call: str, at: str, part: Image | File, media: str) -> None:
    if media not in IMAGES and (isinstance(part, Image) or media.startswith("image/")):
        raise UsageError("bad-body", call, at, NO_IMAGE.format(media))


def _checked_media(call: str, at: str, part: Image | File, room: int, limits: HostLimits) -> tuple[str, int]:
    """Return the media type of *part* and its size in bytes."""
    if not part.data:
        raise UsageError("bad-body", call, at, EMPTY)
    try:
        content = a2b_base64(part.data, strict_mode=True)
    except ValueError as error:  # raised for invalid base64, and for characters that are not ASCII
        raise UsageError("bad-body", call, at, NO_BASE64) from error
    media = media_of(said_media(part.media_type), content[:HEAD])
    _check_image(call, at, part, media)
    most = min(most_shown(media, room), limits.file_bytes)
    if len(content) > most:
        raise UsageError("bad-body", call, at, TOO_LARGE.format(size=len(content), left=most))
    return media, len(content)
