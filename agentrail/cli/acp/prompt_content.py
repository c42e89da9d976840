"""What an editor sends as a prompt: as the parts of a message, and the words of the person in it."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Final

from agentrail.cli.acp.params import invalid, object_in, text_in, text_or_none
from agentrail.values.content import File, Image, Part, Text
from agentrail.values.json import JsonObject

PDF: Final = "application/pdf"


def parts_of(blocks: tuple[JsonObject, ...]) -> tuple[Part, ...]:
    """Return the content blocks of a prompt as parts of a message; raise `RpcError` for an unsupported kind."""
    if not blocks:
        raise invalid("`prompt` is empty; it has at least one block")
    return tuple([_part(block) for block in blocks])


def words_of(blocks: tuple[JsonObject, ...]) -> str:
    """Return what the person wrote in a prompt: no text of a file that goes with it, of a link its name alone."""
    keys = {"text": "text", "resource_link": "name"}
    words = [text_in(block, keys[kind]) for block in blocks if (kind := text_in(block, "type")) in keys]
    return " ".join(words).strip()


def _part(block: JsonObject) -> Part:
    kind = text_in(block, "type")
    match kind:
        case "text":
            return Text(text_in(block, "text"))
        case "resource_link":
            return Text(f"[{text_in(block, 'name')}]({text_in(block, 'uri')})")
        case "image":
            return Image(text_in(block, "mimeType"), _base64(block, "data"))
        case "resource":
            return _resource(object_in(block, "resource"))
        case _:
            raise invalid(f"a block of `prompt` has the type {kind!r}; use text, image, resource_link or resource")


def _resource(resource: JsonObject) -> Part:
    uri = text_in(resource, "uri")
    if "blob" not in resource:
        return Text(f"\n<resource uri={uri!r}>\n{text_in(resource, 'text')}\n</resource>\n")
    media_type, content = text_or_none(resource, "mimeType") or "", _base64(resource, "blob")
    if media_type.startswith("image/"):
        return Image(media_type, content)
    if media_type == PDF:
        return File(media_type, content, name=uri.rpartition("/")[2])
    raise invalid(f"the resource {uri!r} is neither text, an image nor a PDF, so no model can read it")


def _base64(block: JsonObject, name: str) -> str:
    content = text_in(block, name)
    try:
        b64decode(content, validate=True)
    except binascii.Error as error:
        raise invalid(f"`{name}` is no base64: {error}") from None
    return content
