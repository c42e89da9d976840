"""Images and files in a message itself: over HTTP and WebSocket, they are held to the rules of uploaded ones."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

import pytest

from agentrail import SessionSpec
from agentrail.host.uploads.prompt_files import MOST_IMAGE
from agentrail.testing import ScriptedModel
from agentrail.values.content import File, Image, Text
from agentrail.values.messages import UserMessage
from agentrail.wire.limits import HostLimits
from tests.host.hosted import open_desk
from tests.host.uploaded.test_prompt_files import PDF, png
from tests.host.websocket.talking import problem, talking

SMALL: Final = HostLimits(file_bytes=200, drain_seconds=0.5)
LARGE: Final = HostLimits(body_bytes=40_000_000, drain_seconds=0.5)


def coded(content: bytes) -> str:
    return b64encode(content).decode()


def image(content: bytes | str, media: str = "image/png") -> dict[str, str]:
    return {"$": "Image", "media_type": media, "data": content if isinstance(content, str) else coded(content)}


def file(content: bytes | str, media: str = "application/pdf", **more: str) -> dict[str, str]:
    return {**image(content, media), "$": "File", **more}


PNG: Final = coded(png())
HALF: Final = png() + bytes(MOST_IMAGE - len(png()))

HOSTILE: Final = {
    "a page": (
        image(b"<html><script>alert(1)</script>"),
        "wrong-content",
        "the content of the file is not `image/png`",
    ),
    "another image": (image(b"GIF89a\1\0"), "wrong-content", "the content of the file is not `image/png`"),
    "a vector image": (image(b"<svg/>", "image/svg+xml"), "bad-body", "`message[1]` is `image/svg+xml`, and must be"),
    "a page that says so": (image(b"<html>", "text/html"), "bad-body", "`message[1]` is `text/html`, and must be one"),
    "a PDF": (image(PDF, "application/pdf"), "bad-body", "`message[1]` is `application/pdf`, and must be one of"),
    "of no type": (image(b"MZ\x90", ""), "bad-body", "`message[1]` is `application/octet-stream`, and must be"),
    "a form": (image(png(), "multipart/form-data"), "wrong-media", "the body is `multipart/form-data`"),
    "a header": (image(png(), "image/png\r\nx-evil: 1"), "wrong-media", "the body is `image/png\r\nx-evil: 1`"),
    "nothing": (image(""), "bad-body", "its `message[1]` has no content"),
    "no base64": (image("!!!!"), "bad-body", "its `message[1]` is no base64"),
    "an address": (image("https://example.com/a.png"), "bad-body", "its `message[1]` is no base64"),
    "an address with data": (image(f"data:image/png;base64,{PNG}"), "bad-body", "its `message[1]` is no base64"),
    "spaces": (image(f"{PNG[:8]}\n{PNG[8:]}"), "bad-body", "its `message[1]` is no base64"),
    "more behind the end": (image(f"{coded(png() + b'1')}{PNG}"), "bad-body", "its `message[1]` is no base64"),
    "an end that is missing": (image("iVBORw0KGgo"), "bad-body", "is no base64"),
    "no ASCII": (image("ä" * 4), "bad-body", "its `message[1]` is no base64"),
    "too large": (image(png() + bytes(200)), "bad-body", "bytes, and 200 are the most here"),
    "a file that is no PDF": (file(b"<html>"), "wrong-content", "the content of the file is not `application/pdf`"),
    "a file that is no image": (file(b"<html>", "image/gif"), "wrong-content", "is not `image/gif`"),
    "a large file": (file(b"x" * 201, "text/plain"), "bad-body", "it has 201 bytes, and 200 are the most here"),
    "an empty file": (file("", "text/plain"), "bad-body", "its `message[1]` has no content"),
}
CALLS: Final = ("/v1/chat", "/v1/stream", "/v1/sessions/trip/prompt", "/v1/sessions/trip/ask")


def said(*parts: dict[str, str]) -> list[dict[str, str]]:
    return [{"$": "Text", "text": "look"}, *parts]


@pytest.mark.parametrize(("part", "kind", "told"), HOSTILE.values(), ids=HOSTILE)
async def test_what_could_not_be_uploaded_is_refused_in_a_message_too(
    part: dict[str, str], kind: str, told: str
) -> None:
    model = ScriptedModel(["never"])
    async with open_desk(SessionSpec(model=model), limits=SMALL) as desk, talking(desk) as talker:
        assert (await desk.ann.post("/v1/sessions", json={"session": "trip"})).status_code == 201
        for path in CALLS:
            found = await desk.ann.post(path, json={"message": said(part)})
            document: dict[str, Any] = found.json()
            assert document["type"] == f"urn:agentrail:problem:{kind}"
            assert found.status_code == (415 if kind == "wrong-media" else 422)
            assert told in document["detail"]
        heard = await talker.ask("prompt", session="trip", body={"message": said(part)})
        assert problem(heard) == kind
    assert model.requests == []


FIT: Final = {
    "an image": (image(png()), Image("image/png", PNG)),
    "an old name": (image(b"\xff\xd8\xff\xe0", "image/JPG"), Image("image/jpeg", coded(b"\xff\xd8\xff\xe0"))),
    "of no type": (image(b"GIF89a\1\0", ""), Image("image/gif", coded(b"GIF89a\1\0"))),
    "a PDF": (file(PDF, name="a.pdf"), File("application/pdf", coded(PDF), name="a.pdf")),
    "an address of a file": (
        {"$": "File", "media_type": "application/pdf", "reference": "https://example.com/a.pdf"},
        File("application/pdf", reference="https://example.com/a.pdf"),
    ),
}


@pytest.mark.parametrize(("part", "seen"), FIT.values(), ids=FIT)
async def test_what_fits_is_seen_by_the_model(part: dict[str, str], seen: Image | File) -> None:
    model = ScriptedModel(["red"])
    async with open_desk(SessionSpec(model=model)) as desk:
        found = await desk.ann.post("/v1/chat", json={"message": said(part)})
        assert found.status_code == 200, found.text
    (message,) = model.requests[0].messages
    assert isinstance(message, UserMessage)
    assert message.parts == (Text("look"), seen)


@pytest.mark.long
async def test_images_that_providers_would_refuse_are_refused() -> None:
    async with open_desk(SessionSpec(model=ScriptedModel(["never"])), limits=LARGE) as desk:
        for parts, told in (
            ([image(HALF + b"x")], f"`message[1]` it has {MOST_IMAGE + 1} bytes, and {MOST_IMAGE} are the most"),
            ([image(HALF)] * 5, f"`message[5]` it has {MOST_IMAGE} bytes, and 0 are the most here"),
        ):
            found = await desk.ann.post("/v1/chat", json={"message": said(*parts)})
            assert found.status_code == 422
            assert told in found.json()["detail"]
