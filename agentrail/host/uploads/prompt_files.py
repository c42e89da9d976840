"""`PromptFiles`: the files that a prompt names, and the parts of the message that are made from them.

`checked_words`: applies the rules of uploaded files to images and files that are in a message itself.
"""

from __future__ import annotations

import re
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import trio
from attrs import frozen

from agentrail.adapters.models.providers import PROVIDERS
from agentrail.api.limits import HostLimits
from agentrail.errors import UsageError
from agentrail.host.plugins.plugin_runner import HostPluginRow
from agentrail.host.plugins.plugin_values import Attachment
from agentrail.host.uploads.session_files import (
    HEAD,
    IMAGES,
    PDF,
    SHOWN,
    UNKNOWN,
    StoredFile,
    UploadSandbox,
    claimed_media,
    media_of,
    shown_media,
)
from agentrail.ports.sandbox import KIB
from agentrail.values.content import File, Image, Part, Text
from agentrail.values.untrusted_content import MAX_IMAGE, MAX_IMAGES

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
        source = f"its `message[{number}]`"
        if isinstance(part, File) and (part.reference or part.provider):
            checked.append(part.but(media_type=_media_by_reference(call, source, part)))
        elif isinstance(part, Image | File):
            media, size = _checked_media(call, source, part, room, limits)
            checked.append(part.but(media_type=media))
            room -= size
        else:
            checked.append(part)
    return tuple(checked)


def _media_by_reference(call: str, source: str, file: File) -> str:
    """Return the media type of a file given by reference; raise `UsageError` if it may be to a private file."""
    problem = _reference_problem(file)
    if problem is not None:
        raise UsageError("bad-body", call, source, problem)
    media = claimed_media(file.media_type) or UNKNOWN
    _check_image(call, source, file, media)
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


def _check_image(call: str, source: str, part: Image | File, media: str) -> None:
    if media not in IMAGES and (isinstance(part, Image) or media.startswith("image/")):
        raise UsageError("bad-body", call, source, NO_IMAGE.format(media))


def _checked_media(call: str, source: str, part: Image | File, room: int, limits: HostLimits) -> tuple[str, int]:
    """Return the media type of *part* and its size in bytes."""
    if not part.data:
        raise UsageError("bad-body", call, source, EMPTY)
    try:
        content = a2b_base64(part.data, strict_mode=True)
    except ValueError as error:  # raised for invalid base64, and for characters that are not ASCII
        raise UsageError("bad-body", call, source, NO_BASE64) from error
    media = media_of(claimed_media(part.media_type), content[:HEAD])
    _check_image(call, source, part, media)
    most = min(most_shown(media, room), limits.file_bytes)
    if len(content) > most:
        raise UsageError("bad-body", call, source, TOO_LARGE.format(size=len(content), left=most))
    return media, len(content)


MOST_IMAGE: Final = MAX_IMAGE // 4 * 3
"""The most bytes of an image that a model is shown; providers accept no more."""

MAX_SHOWN: Final = MAX_IMAGES // 4 * 3
"""The most bytes of all images and PDFs of one message."""

PIECE: Final = 768 * KIB
"""How many bytes are encoded at once: a multiple of three, so that the pieces can be joined."""

NOT_SHOWN: Final = "[`{name}` ({media}) cannot be shown to you: {why}. It is the file `{path}` of the sandbox.]"
TOO_LARGE: Final = "it has {size} bytes, and {left} are the most here"
CHANGED: Final = "its content is something else by now"


@frozen
class PromptFiles:
    """The files of one prompt, in the sandbox of its session."""

    sandbox: UploadSandbox | None
    files: tuple[StoredFile, ...]

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The files as host plugins get them."""
        return tuple(
            [Attachment(file.note.name, file.note.media_type, file.path, -(-file.size // KIB)) for file in self.files]
        )

    async def message(self, words: Sequence[Part], rows: HostPluginRow) -> tuple[Part, ...]:
        """Return the parts of the message: the plugins' text about files, the images and PDFs, the user's *words*."""
        if self.sandbox is None:
            return tuple(words)
        text = await rows.attachment_text(self.attachments)
        parts: list[Part] = [Text(f"{text}\n\n")] if text else []
        room = MAX_SHOWN - sum([len(word.data) * 3 // 4 for word in words if isinstance(word, Image | File)])
        for file in self.files:
            if file.note.media_type in SHOWN:
                parts.append(await _part(self.sandbox, file, room))
                room -= 0 if isinstance(parts[-1], Text) else file.size
        return (*parts, *words)


NO_FILES: Final = PromptFiles(None, ())


def most_shown(media: str, room: int) -> int:
    """Return the largest size, in bytes, of a file of this media type that a model is shown; *room* is left for all."""
    return min(room, MOST_IMAGE) if media in IMAGES else room


async def _part(sandbox: UploadSandbox, file: StoredFile, room: int) -> Part:
    """Return an image or a PDF as a part of the message; a text in its place if it cannot be one."""
    media = file.note.media_type
    most = most_shown(media, room)
    if file.size > most:
        return _not_shown(file, TOO_LARGE.format(size=file.size, left=most))
    content = (await sandbox.read(file.path, 0, most)).data
    # tools of the session may have changed the file since the upload
    if len(content) != file.size or shown_media(content[:HEAD]) != media:
        return _not_shown(file, CHANGED)
    data = await _in_base64(content)
    return File(media, data, name=file.note.name) if media == PDF else Image(media, data)


async def _in_base64(content: bytes) -> str:
    """Return *content* in base64; after each piece, other tasks may run."""
    pieces: list[bytes] = []
    for start in range(0, len(content), PIECE):
        pieces.append(b64encode(content[start : start + PIECE]))
        await trio.lowlevel.checkpoint()
    return b"".join(pieces).decode()


def _not_shown(file: StoredFile, why: str) -> Text:
    note = NOT_SHOWN.format(name=file.note.name, media=file.note.media_type, why=why, path=file.path)
    return Text(f"{note}\n\n")
