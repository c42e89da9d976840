"""Files that go with a prompt: what plugins are told, what the model sees, and what is refused."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from agentrail import SessionSpec
from agentrail.api.limits import DEFAULTS
from agentrail.errors import BrokenPlugin
from agentrail.host import (
    Attachment,
    AttachmentHints,
    HandledResponse,
    HostLimits,
    HostPlugin,
    Request,
    RequestContext,
    RequestEnd,
)
from agentrail.host.operations import talk_calls
from agentrail.host.uploads import prompt_files
from agentrail.host.uploads.session_files import folder_of
from agentrail.journals import SqliteJournal
from agentrail.models import File, Image, Text
from agentrail.sandboxes import LocalSandbox, MemorySandbox, Sandbox
from agentrail.testing import ScriptedModel
from tests.host.hosted import Desk, open_desk

FOLDER: Final = folder_of("h.acme.ann.trip")
PDF: Final = b"%PDF-1.7\n1 0 obj <<>> endobj\ntrailer <<>>\n%%EOF\n"


def png(size: int = 2) -> bytes:
    """Return a real picture of *size* times *size* red points."""
    rows = b"".join([b"\0" + b"\xff\0\0" * size] * size)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    chunk = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk)


class Scene:
    """A session whose model is scripted, and files that are uploaded to it."""

    def __init__(self, desk: Desk, model: ScriptedModel) -> None:
        self.desk = desk
        self.model = model

    async def upload(self, content: bytes, name: str, media: str = "") -> str:
        headers = {"content-type": media} if media else {}
        await self.desk.ann.post("/v1/sessions", json={"session": "trip"})
        response = await self.desk.ann.post(
            "/v1/sessions/trip/files", content=content, params={"name": name}, headers=headers
        )
        assert response.status_code == 201, response.text
        return str(response.json()["name"])

    async def seen(self, *files: str, message: object = "look") -> Sequence[object]:
        """Prompt the session with *files*, and return what the model sees of that."""
        body = {"message": message, "session": "trip", "files": files}
        response = await self.desk.ann.post("/v1/chat", json=body)
        assert response.status_code == 200, response.text
        return self.model.requests[-1].messages[-1].parts


class Noting(HostPlugin):
    """Notes what it is told, and says what the test wants about files."""

    def __init__(self, calls: list[object], says: object = None, name: str = "noting", priority: int = 0) -> None:
        self.calls = calls
        self.says = says
        self.name = name
        self.priority = priority

    def on_request_start(self, context: RequestContext) -> None:
        self.calls.append((self.name, "start", context.session_id))

    def intercept(self, request: Request) -> HandledResponse | None:
        self.calls.append((self.name, "intercept", request.attachments))
        return HandledResponse(200, "mine") if request.message == "intercept" else None

    def attachment_handler(self, files: Sequence[Attachment]) -> str | None:
        self.calls.append((self.name, "files", tuple(files)))
        if isinstance(self.says, Exception):
            raise self.says
        return self.says  # type: ignore[return-value]

    def on_request_end(self, context: RequestEnd) -> None:
        self.calls.append((self.name, "end", context.outcome))


@asynccontextmanager
async def scene(
    *plugins: HostPlugin,
    limits: HostLimits = DEFAULTS,
    sandbox: Sandbox | None = None,
    errors: list[object] | None = None,
) -> AsyncGenerator[Scene, None]:
    model = ScriptedModel(["seen"], repeat_last=True)
    spec = SessionSpec(model=model, sandbox=sandbox or MemorySandbox())

    def note(plugin: str, hook: str, error: BaseException) -> None:
        if errors is not None:
            errors.append((plugin, hook, type(error)))

    async with open_desk(spec, plugins, limits=limits, on_plugin_error=note) as desk:
        yield Scene(desk, model)


def as_image(content: bytes, media: str = "image/png") -> Image:
    return Image(media, b64encode(content).decode())


async def test_the_model_sees_a_picture_that_was_uploaded(tmp_path: Path) -> None:
    async with scene(sandbox=LocalSandbox(tmp_path)) as here:
        picture = await here.upload(png(), "red.png", "image/png")
        assert await here.seen(picture, message="what colour?") == (as_image(png()), Text("what colour?"))
        read = (await here.desk.ann.get("/v1/sessions/trip/messages")).json()["items"][0]["parts"]
        assert [part["$"] for part in read] == ["Image", "Text"]


@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_a_picture_of_several_pieces_is_seen_whole(more: int) -> None:
    content = png() + bytes(2 * prompt_files.PIECE + more - len(png()))
    async with scene() as here:
        picture = await here.upload(content, "red.png", "image/png")
        assert await here.seen(picture, message="what colour?") == (as_image(content), Text("what colour?"))


@pytest.mark.parametrize(
    ("content", "claimed", "media"),
    [
        (png(), "", "image/png"),
        (png(), "application/octet-stream", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpg", "image/jpeg"),
        (b"GIF89a\1\0", "image/gif", "image/gif"),
        (b"RIFF\4\0\0\0WEBPVP8 ", "image/webp", "image/webp"),
    ],
)
async def test_pictures_of_each_kind_are_seen(content: bytes, claimed: str, media: str) -> None:
    async with scene() as here:
        assert await here.seen(await here.upload(content, "a", claimed)) == (as_image(content, media), Text("look"))


async def test_a_pdf_is_a_file_with_the_name_that_its_sender_gave_it() -> None:
    async with scene() as here:
        sent = await here.upload(PDF, "Übersicht\n2026.pdf", "application/pdf")
        data = b64encode(PDF).decode()
        assert await here.seen(sent) == (File("application/pdf", data, name="Übersicht\ufffd2026.pdf"), Text("look"))


@pytest.mark.parametrize("claimed", ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"])
async def test_what_is_said_to_be_a_picture_must_begin_like_one(claimed: str) -> None:
    async with scene() as here:
        await here.desk.ann.post("/v1/sessions", json={"session": "trip"})
        for content in (b"", b"<svg/>", PDF if claimed != "application/pdf" else png()):
            path, headers = "/v1/sessions/trip/files", {"content-type": claimed}
            response = await here.desk.ann.post(path, content=content, headers=headers)
            assert (response.status_code, response.json()["type"]) == (422, "urn:agentrail:problem:wrong-content")
            assert f"the content of the file is not `{claimed}`" in response.json()["detail"]


async def test_plugins_are_told_of_all_files_and_their_texts_come_first() -> None:
    calls: list[object] = []
    plugins = [Noting(calls, "low", "low"), Noting(calls, "high", "high", 5), Noting(calls, None, "silent")]
    async with scene(*plugins) as here:
        notes = await here.upload(b"x" * 1025, "notes.csv", "text/csv")
        picture = await here.upload(png(), "red.png")
        calls.clear()
        attachments = (
            Attachment("notes.csv", "text/csv", f"{FOLDER}/{notes}", 2),
            Attachment("red.png", "image/png", f"{FOLDER}/{picture}", 1),
        )
        parts = await here.seen(notes, picture, notes)
        assert parts == (Text("high\n\nlow\n\n"), as_image(png()), Text("look"))
    rows = ("high", "low", "silent")
    assert calls == [
        *[(name, "start", "ann.trip") for name in rows],
        *[(name, "intercept", attachments) for name in rows],
        *[(name, "files", attachments) for name in rows],
        *[(name, "end", "finished") for name in rows],
    ]


async def test_a_plugin_that_fails_is_reported_and_the_others_are_heard() -> None:
    errors: list[object] = []
    plugins = [Noting([], ValueError("no"), "broken", 9), Noting([], 7, "wrong", 8), Noting([], "fine", "fine")]
    async with scene(*plugins, errors=errors) as here:
        assert await here.seen(await here.upload(b"x", "a.txt")) == (Text("fine\n\n"), Text("look"))
    assert errors == [
        ("broken", "attachment_handler", ValueError),
        ("wrong", "attachment_handler", BrokenPlugin),
    ]


async def test_a_request_that_is_intercepted_asks_nobody_about_its_files() -> None:
    calls: list[object] = []
    async with scene(Noting(calls, "text")) as here:
        name = await here.upload(b"x", "a.txt")
        calls.clear()
        body = {"message": "intercept", "session": "trip", "files": [name]}
        assert (await here.desk.ann.post("/v1/chat", json=body)).json() == "mine"
        attachments = (Attachment("a.txt", "application/octet-stream", f"{FOLDER}/{name}", 1),)
        assert calls == [
            ("noting", "start", "ann.trip"),
            ("noting", "intercept", attachments),
            ("noting", "end", "intercepted"),
        ]


async def test_a_request_with_an_unknown_file_is_refused_and_its_hooks_are_paired() -> None:
    calls: list[object] = []
    async with scene(Noting(calls)) as here:
        name = await here.upload(b"x", "a.txt")
        for files in ([f"{name}x"], [name, "../secret"], ["0123456789ab-x"], ["notes"]):
            calls.clear()
            for path in ("/v1/chat", "/v1/stream", "/v1/sessions/trip/prompt"):
                body = {"message": "hi", "files": files} | ({} if "trip" in path else {"session": "trip"})
                response = await here.desk.ann.post(path, json=body)
                assert (response.status_code, response.json()["type"]) == (422, "urn:agentrail:problem:unknown-file")
            assert calls == [("noting", "start", "ann.trip"), ("noting", "end", "refused")] * 3
        assert here.model.requests == []


async def test_a_prompt_names_so_many_files_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talk_calls, "PROMPT_FILES", 2)
    async with scene() as here:
        names = [await here.upload(b"x", "a.txt") for _ in range(3)]
        assert await here.seen(*names[:2]) == (Text("look"),)
        body = {"message": "hi", "session": "trip", "files": names}
        answers = await here.desk.ann.post("/v1/chat", json=body)
        assert (answers.status_code, answers.json()["type"]) == (422, "urn:agentrail:problem:bad-body")
        assert "its `files` are 3, and 2 are the most" in answers.json()["detail"]


async def test_a_picture_that_is_too_large_to_be_shown_is_told_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_files, "MOST_IMAGE", 200)
    monkeypatch.setattr(prompt_files, "MAX_SHOWN", 400)
    head = png()
    async with scene() as here:
        fits, large = await here.upload(head.ljust(200), "a.png"), await here.upload(head.ljust(201), "b.png")
        pdf, late = await here.upload(PDF.ljust(200), "c.pdf"), await here.upload(PDF, "d.pdf")

        def untold(name: str, media: str, path: str, size: int, most: int) -> Text:
            why = f"it has {size} bytes, and {most} are the most here. It is the file `{FOLDER}/{path}` of the sandbox"
            return Text(f"[`{name}` ({media}) cannot be shown to you: {why}.]\n\n")

        assert await here.seen(fits, large, pdf, late) == (
            as_image(head.ljust(200)),
            untold("b.png", "image/png", large, 201, 200),
            File("application/pdf", b64encode(PDF.ljust(200)).decode(), name="c.pdf"),
            untold("d.pdf", "application/pdf", late, len(PDF), 0),
            Text("look"),
        )


async def test_a_picture_that_a_tool_has_changed_is_shown_only_if_it_is_still_one(tmp_path: Path) -> None:
    async with scene(sandbox=LocalSandbox(tmp_path)) as here:
        image, broken, deleted = [await here.upload(png(), name) for name in ("a.png", "b.png", "c.png")]
        (tmp_path / FOLDER / image).write_bytes(png(3))
        (tmp_path / FOLDER / broken).write_bytes(b"no picture")
        why = f"its content is something else by now. It is the file `{FOLDER}/{broken}` of the sandbox.]\n\n"
        assert await here.seen(image, broken) == (
            as_image(png(3)),
            Text(f"[`b.png` (image/png) cannot be shown to you: {why}"),
            Text("look"),
        )
        (tmp_path / FOLDER / deleted).unlink()
        (tmp_path / FOLDER / "notes" / f"{image}.json").write_bytes(b'{"name": 7}')
        for name in (deleted, image):
            body = {"message": "hi", "session": "trip", "files": [name]}
            assert (await here.desk.ann.post("/v1/chat", json=body)).status_code == 422


async def test_a_message_of_parts_stays_as_it_is() -> None:
    async with scene(Noting([], "hint")) as here:
        name = await here.upload(b"x", "a.txt")
        message = [{"$": "Text", "text": "one"}, {"$": "Text", "text": "two"}]
        assert await here.seen(name, message=message) == (Text("hint\n\n"), Text("one"), Text("two"))


async def test_a_prompt_that_is_sent_twice_is_carried_out_once_with_its_files() -> None:
    async with scene(Noting([], "hint")) as here:
        name = await here.upload(png(), "a.png")
        body, key = {"message": "hi", "session": "trip", "files": [name]}, {"idempotency-key": "k"}
        answers = [(await here.desk.ann.post("/v1/chat", json=body, headers=key)).json() for _ in range(2)]
        assert (answers[0], len(here.model.requests)) == (answers[1], 1)
        other = await here.desk.ann.post("/v1/chat", json=body | {"files": []}, headers=key)
        assert (other.status_code, other.json()["type"]) == (409, "urn:agentrail:problem:command-conflict")


async def test_a_model_that_takes_no_pdf_refuses_the_prompt_and_the_session_goes_on() -> None:
    async with open_desk(SessionSpec(model="groq:x", sandbox=MemorySandbox())) as desk:
        here = Scene(desk, ScriptedModel())
        body = {"message": "look", "files": [await here.upload(PDF, "a.pdf")]}
        response = await desk.ann.post("/v1/sessions/trip/prompt", json=body)
        assert (response.status_code, response.json()["type"]) == (422, "urn:agentrail:problem:part-refused")
        assert "`groq` takes no files" in response.json()["detail"]
        assert (await desk.ann.get("/v1/sessions/trip/messages")).json()["items"] == []


@pytest.mark.parametrize("query", ["", "?redact"])
async def test_nothing_of_a_file_is_in_the_journal_of_a_session_that_was_erased(tmp_path: Path, query: str) -> None:
    model, content = ScriptedModel(["seen"]), b64encode(png(3))

    def is_there() -> list[bool]:
        written = b"".join([path.read_bytes() for path in tmp_path.glob("journal.db*")])
        return [content in written, b"bill-of-ann" in written]

    spec = SessionSpec(model=model, sandbox=MemorySandbox())
    async with open_desk(spec, [AttachmentHints()], journal=SqliteJournal(tmp_path / "journal.db")) as desk:
        here = Scene(desk, model)
        await here.seen(await here.upload(png(3), "bill-of-ann.png"))
        assert is_there() == [True, True]
        assert (await desk.clients["boss"].delete(f"/v1/sessions/ann.trip{query}")).status_code == 200
        assert is_there() == [False, False]


async def test_a_fork_has_the_pictures_of_the_past_and_no_files() -> None:
    async with scene() as here:
        name = await here.upload(png(), "a.png")
        await here.seen(name)
        assert (await here.desk.ann.post("/v1/sessions/trip/fork", json={"session": "other"})).status_code == 201
        await here.desk.ann.post("/v1/chat", json={"message": "again", "session": "other"})
        assert here.model.requests[-1].messages[0].parts == (as_image(png()), Text("look"))
        body = {"message": "hi", "session": "other", "files": [name]}
        assert (await here.desk.ann.post("/v1/chat", json=body)).status_code == 422
