"""From what an MCP server answers to the result of a call."""

from __future__ import annotations

import re
from typing import Final

from mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from agentrail.errors import NotJson
from agentrail.values.content import Data, Image, Part, Text
from agentrail.values.json import Json, JsonObject, freeze, weight
from agentrail.values.tools import Err, Ok

MAX_PARTS: Final = 100
"""Parts of a result."""

MAX_TEXT: Final = 1_000_000
"""Characters of one text; how much of it the model sees is another matter."""

MAX_IMAGE: Final = 5_000_000
"""Characters of an image in base64."""

MAX_STRUCTURED: Final = 64 * 1024
"""Bytes of structured content that are kept."""

PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The types of images that models take."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def result_of(answer: CallToolResult) -> Ok | Err:
    """Return *answer* as a result; what is too long or of no use to a model is left out with a note."""
    parts = [_part(block) for block in answer.content[:MAX_PARTS]]
    if len(answer.content) > MAX_PARTS:
        parts.append(Text(f"[{len(answer.content) - MAX_PARTS} more parts are left out]"))
    structured: object = answer.structured_content
    kept = None if structured is None else _kept(structured)
    if kept is None and structured is not None:
        parts.append(Text(f"[structured content of more than {MAX_STRUCTURED} bytes, or no JSON, is left out]"))
    if kept is not None and not parts:
        parts.append(Data(kept))
    details: JsonObject | None = None if kept is None else {"structured": kept}
    made = Err if answer.is_error else Ok
    return made(tuple(parts) or (Text("the tool failed and does not say why" if answer.is_error else "done"),), details)


def _part(block: ContentBlock) -> Part:
    match block:
        case TextContent(text=text):
            return Text(_cut(text))
        case ImageContent(data=data, mime_type=kind):
            good = kind in PICTURES and len(data) <= MAX_IMAGE and _BASE64.fullmatch(data)
            return Image(kind, data) if good else _note("an image", kind, len(data))
        case AudioContent(data=data, mime_type=kind):
            return _note("a sound", kind, len(data))
        case ResourceLink(uri=uri, name=name):
            return Text(_cut(f"[a link: {name}] {uri}"))
        case EmbeddedResource(resource=TextResourceContents(uri=uri, text=text)):
            return Text(_cut(f"[{uri}]\n{text}"))
        case EmbeddedResource(resource=resource):
            return _note("a file", resource.mime_type or str(resource.uri), 0)


def _note(what: str, kind: str, length: int) -> Text:
    size = f", {length} characters of base64" if length else ""
    return Text(f"[{what} ({kind[:100]}{size}) is left out]")


def _cut(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n[{len(text) - MAX_TEXT} more characters are left out]"


def _kept(structured: object) -> Json:
    try:
        kept = freeze(structured)
    except NotJson:
        return None
    return kept if weight(kept) <= MAX_STRUCTURED else None
