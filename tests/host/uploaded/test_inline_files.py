"""Images and files in a message itself: over HTTP and WebSocket, they are held to the rules of uploaded ones."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

import pytest

from agentrail import SessionSpec
from agentrail.host import HostLimits
from agentrail.host.uploads.prompt_files import MOST_IMAGE
from agentrail.models import File, Image, Text, UserMessage
from agentrail.testing import ScriptedModel
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


def address(text: str, media: str = "application/pdf", **more: str) -> dict[str, str]:
    return {"$": "File", "media_type": media, "reference": text, **more}


UPLOADED: Final = "its `message[1]` has a `provider`, and only the host's program can give files that were uploaded"
NO_ADDRESS: Final = (
    "its `message[1]` has a `reference` that is no plain public `https://` URL of at most 4096 characters"
)
OF_PROVIDER: Final = "its `message[1]` has a `reference` to a provider of models, where the host's key can read files"
NOT_PUBLIC: Final = (
    "file-OTHER",
    "gs://bucket/secret.pdf",
    "http://example.com/a.pdf",
    "http://169.254.169.254/latest/meta-data",
    "HTTPS://example.com/a.pdf",
    "ftp://example.com/a.pdf",
    "file:///etc/passwd",
    "data:application/pdf;base64,JVBERi0=",
    "//example.com/a.pdf",
    "https:example.com",
    "https:///example.com",
    "https://",
    "https://example.com:8443/a.pdf",
    "https://user:word@example.com/a.pdf",
    "https://example.com@generativelanguage.googleapis.com/v1beta/files/abc",
    "https://example.com\\@api.openai.com/",
    "https://example.com/\\..\\a.pdf",
    "https://localhost/a.pdf",
    "https://intranet/a.pdf",
    "https://printer.local/a.pdf",
    "https://metadata.google.internal/computeMetadata/v1/",
    "https://127.0.0.1/a.pdf",
    "https://127.1/a.pdf",
    "https://0x7f.0.0.1/a.pdf",
    "https://a.0x7f/a.pdf",
    "https://2130706433/a.pdf",
    "https://[::1]/a.pdf",
    "https://[::ffff:169.254.169.254]/a.pdf",
    "https://example..com/a.pdf",
    "https://exam\uff50le.com/a.pdf",
    "https://generativelanguage\u3002googleapis.com/v1beta/files/abc",
    "https://ex%61mple.com/a.pdf",
    "https://example.com/a b.pdf",
    "https://example.com/a.pdf\r\nx: y",
    "https://example.com/a.pdf\n",
    " https://example.com/a.pdf",
    "https://example.com/\x00",
    f"https://example.com/{'a' * 500_000}",
    f"https://{'a' * 500_000}",
    f"https://{'a.' * 2_000}com/",
    f"https://example.com/{'a' * (4097 - len('https://example.com/'))}",
)
AT_PROVIDERS: Final = (
    "https://generativelanguage.googleapis.com/v1beta/files/abc",
    "https://GenerativeLanguage.GoogleAPIs.com/v1beta/files/abc",
    "https://generativelanguage.googleapis.com./v1beta/files/abc",
    "https://generativelanguage.googleapis.com:443/v1beta/files/abc",
    "https://us-central1-aiplatform.googleapis.com/v1/files/abc",
    "https://storage.googleapis.com/bucket/secret.pdf",
    "https://storage.cloud.google.com/bucket/secret.pdf",
    "https://api.openai.com/v1/files/file-OTHER/content",
    "https://eu.api.openai.com/v1/files/file-OTHER/content",
    "https://api.anthropic.com?file=file_OTHER",
    "https://api.mistral.ai#file",
)
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
    "a vector image as a file": (file(b"<svg/>", "image/svg+xml"), "bad-body", "is `image/svg+xml`, and must be one"),
    "an upload at a provider": (address("file-OTHER", provider="openai"), "bad-body", UPLOADED),
    "an address with a provider": (address("https://example.com/a.pdf", provider="gemini"), "bad-body", UPLOADED),
    "bytes with a provider": (file(PDF, provider="openai"), "bad-body", UPLOADED),
    "bytes and an address": (file(PDF, reference="https://example.com/a.pdf"), "bad-body", "has bytes and a reference"),
    "an address of another image": (
        address("https://example.com/a.svg", "image/svg+xml"),
        "bad-body",
        "`message[1]` is `image/svg+xml`, and must be one of image/gif",
    ),
    "an address with a header": (
        address("https://example.com/a.pdf", "application/pdf\r\nx: y"),
        "wrong-media",
        "the body is `application/pdf\r\nx: y`",
    ),
    "an address of a form": (
        address("https://example.com/a", "multipart/form-data"),
        "wrong-media",
        "the body is `multipart/form-data`",
    ),
    **{f"the address {text[:60]!r}": (address(text), "bad-body", NO_ADDRESS) for text in NOT_PUBLIC},
    **{f"the address {text!r} of a provider": (address(text), "bad-body", OF_PROVIDER) for text in AT_PROVIDERS},
}
CALLS: Final = ("/v1/chat", "/v1/stream", "/v1/sessions/trip/prompt", "/v1/sessions/trip/ask")


def message_parts(*parts: dict[str, str]) -> list[dict[str, str]]:
    return [{"$": "Text", "text": "look"}, *parts]


@pytest.mark.parametrize(("part", "kind", "finding"), HOSTILE.values(), ids=HOSTILE)
async def test_what_could_not_be_uploaded_is_refused_in_a_message_too(
    part: dict[str, str], kind: str, finding: str
) -> None:
    model = ScriptedModel(["never"])
    async with open_desk(SessionSpec(model=model), limits=SMALL) as desk, talking(desk) as talker:
        assert (await desk.ann.post("/v1/sessions", json={"session": "trip"})).status_code == 201
        for path in CALLS:
            response = await desk.ann.post(path, json={"message": message_parts(part)})
            document: dict[str, Any] = response.json()
            assert document["type"] == f"urn:agentrail:problem:{kind}"
            assert response.status_code == (415 if kind == "wrong-media" else 422)
            assert finding in document["detail"]
        heard = await talker.ask("prompt", session="trip", body={"message": message_parts(part)})
        assert problem(heard) == kind
    assert model.requests == []


FIT: Final = {
    "an image": (image(png()), Image("image/png", PNG)),
    "an old name": (image(b"\xff\xd8\xff\xe0", "image/JPG"), Image("image/jpeg", coded(b"\xff\xd8\xff\xe0"))),
    "of no type": (image(b"GIF89a\1\0", ""), Image("image/gif", coded(b"GIF89a\1\0"))),
    "a PDF": (file(PDF, name="a.pdf"), File("application/pdf", coded(PDF), name="a.pdf")),
    **{
        f"the address {text[:60]!r}": (address(text), File("application/pdf", reference=text))
        for text in (
            "https://example.com/a.pdf",
            "https://EXAMPLE.com:443/a%20b/(1)/a.pdf?key=~x&sign=a/b+c==&t=@1:2#page=2",
            "https://example.com",
            "https://xn--bcher-kva.example.xn--p1ai./",
            "https://notapi.openai.com.example.com/a.pdf",
            "https://fakegoogleapis.com/a.pdf",
            f"https://example.com/{'a' * (4096 - len('https://example.com/'))}",
        )
    },
    "an address of an image": (
        address("https://example.com/a.jpg", "image/JPG"),
        File("image/jpeg", reference="https://example.com/a.jpg"),
    ),
    "an address of no type": (
        address("https://example.com/a", ""),
        File("application/octet-stream", reference="https://example.com/a"),
    ),
}


@pytest.mark.parametrize(("part", "seen"), FIT.values(), ids=FIT)
async def test_what_fits_is_seen_by_the_model(part: dict[str, str], seen: Image | File) -> None:
    model = ScriptedModel(["red"])
    async with open_desk(SessionSpec(model=model)) as desk:
        response = await desk.ann.post("/v1/chat", json={"message": message_parts(part)})
        assert response.status_code == 200, response.text
    (message,) = model.requests[0].messages
    assert isinstance(message, UserMessage)
    assert message.parts == (Text("look"), seen)


@pytest.mark.long
async def test_images_that_providers_would_refuse_are_refused() -> None:
    async with open_desk(SessionSpec(model=ScriptedModel(["never"])), limits=LARGE) as desk:
        for parts, problem in (
            ([image(HALF + b"x")], f"`message[1]` it has {MOST_IMAGE + 1} bytes, and {MOST_IMAGE} are the most"),
            ([image(HALF)] * 5, f"`message[5]` it has {MOST_IMAGE} bytes, and 0 are the most here"),
        ):
            response = await desk.ann.post("/v1/chat", json={"message": message_parts(*parts)})
            assert response.status_code == 422
            assert problem in response.json()["detail"]
