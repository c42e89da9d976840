"""`checked_words`: images and files that are in a message itself, held to the rules of uploaded ones."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Sequence
from typing import Final

from agentrail.errors import BadBody
from agentrail.host.uploads.file_kinds import HEAD, IMAGES, media_of, said_media
from agentrail.host.uploads.prompt_files import MOST_SHOWN, TOO_LARGE, most_shown
from agentrail.values.content import File, Image, Part
from agentrail.wire.limits import HostLimits

EMPTY: Final = "has no content"
NO_BASE64: Final = "is no base64, or has something else in it"
NO_IMAGE: Final = f"is `{{}}`, and must be one of {', '.join(sorted(IMAGES))}"


def checked_words(call: str, words: Sequence[Part], limits: HostLimits) -> tuple[Part, ...]:
    """Return the parts of a message, each image and file with the media type that its content has.

    Raise `BadBody`, `WrongMedia` or `WrongContent` for one that could not be uploaded, or not be shown to a model.
    """
    checked: list[Part] = []
    left = MOST_SHOWN
    for number, part in enumerate(words):
        match part:
            case Image() | File(reference=""):
                media, size = _looked_at(call, f"its `message[{number}]`", part, left, limits)
                checked.append(part.but(media_type=media))
                left -= size
            case _:
                checked.append(part)
    return tuple(checked)


def _looked_at(call: str, at: str, part: Image | File, left: int, limits: HostLimits) -> tuple[str, int]:
    """Return the media type of *part* and its size in bytes."""
    if not part.data:
        raise BadBody(call, at, EMPTY)
    try:
        content = a2b_base64(part.data, strict_mode=True)
    except ValueError as error:  # also a character that is not ASCII
        raise BadBody(call, at, NO_BASE64) from error
    media = media_of(said_media(part.media_type), content[:HEAD])
    if isinstance(part, Image) and media not in IMAGES:
        raise BadBody(call, at, NO_IMAGE.format(media))
    most = min(most_shown(media, left), limits.file_bytes)
    if len(content) > most:
        raise BadBody(call, at, TOO_LARGE.format(size=len(content), left=most))
    return media, len(content)
