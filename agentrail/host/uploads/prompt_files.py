"""`PromptFiles`: the files that a prompt names, and the parts of the message that are made from them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Final

import trio
from attrs import frozen

from agentrail.host.plugins.plugin_runner import HostPluginRow
from agentrail.host.plugins.plugin_values import Attachment
from agentrail.host.uploads.file_kinds import HEAD, IMAGES, PDF, SHOWN, shown_media
from agentrail.host.uploads.session_files import StoredFile, UploadSandbox
from agentrail.ports.sandbox import KIB
from agentrail.values.content import File, Image, Part, Text
from agentrail.values.untrusted_content import MAX_IMAGE, MAX_IMAGES

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
    for at in range(0, len(content), PIECE):
        pieces.append(b64encode(content[at : at + PIECE]))
        await trio.lowlevel.checkpoint()
    return b"".join(pieces).decode()


def _not_shown(file: StoredFile, why: str) -> Text:
    note = NOT_SHOWN.format(name=file.note.name, media=file.note.media_type, why=why, path=file.path)
    return Text(f"{note}\n\n")
