"""`AttachmentHints` over a real socket: the model reads an uploaded file by its tool, because it was told of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agentrail import SessionSpec
from agentrail.errors import UnknownArgument, WrongType
from agentrail.host import Attachment, AttachmentHints
from agentrail.models import ModelRequest
from agentrail.sandboxes import LocalSandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import standard_tools
from tests.host.hosted import open_desk
from tests.kit import Element

NOTES = Attachment("notes.csv", "text/csv", "uploads/0/1-notes.csv", 2)
PICTURE = Attachment("red.png", "image/png", "uploads/0/2-red.png", 1)


def read_what_came(request: ModelRequest) -> Element:
    """Call `read_file` with the path that the message has."""
    (path,) = re.findall(r"\): (\S+)$", request.messages[-1].text, re.MULTILINE)
    return say(calls=[call("read_file", {"path": path})])


async def test_the_model_finds_a_file_that_came_with_the_message(tmp_path: Path) -> None:
    model = ScriptedModel([read_what_came, "at four"])
    spec = SessionSpec(model=model, sandbox=LocalSandbox(tmp_path), tools=standard_tools())
    async with open_desk(spec, [AttachmentHints()]) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        path, headers = "/v1/sessions/trip/files?name=notes.txt", {"content-type": "text/plain"}
        name = (await desk.ann.post(path, content=b"Tea at four.\n", headers=headers)).json()["name"]
        body = {"message": "When is tea?", "session": "trip", "files": [name]}
        assert (await desk.ann.post("/v1/chat", json=body)).json()["text"] == "at four"
    hints, requests = model.requests[0].messages[-1].parts
    assert re.fullmatch(
        r"These files came with the message\. They are in your sandbox:\n"
        rf'- "notes\.txt" \(text/plain, 1 KiB\): uploads/[0-9a-f]{{16}}/{name}\n\n',
        getattr(hints, "text", ""),
    )
    assert getattr(requests, "text", "") == "When is tea?"
    assert "Tea at four." in model.requests[1].messages[-1].text


def test_a_name_is_written_as_people_write_it() -> None:
    report = AttachmentHints().attachment_handler([Attachment("Übersicht.csv", "text/csv", "uploads/0/1", 2)])
    assert report is not None
    assert '- "Übersicht.csv" (text/csv, 2 KiB): uploads/0/1' in report


def test_files_of_some_kinds_can_be_left_out() -> None:
    hints = AttachmentHints(introduction="Files:", leave_out=["image/", "application/pdf"])
    assert (
        hints.attachment_handler([NOTES, PICTURE]) == 'Files:\n- "notes.csv" (text/csv, 2 KiB): uploads/0/1-notes.csv'
    )
    assert hints.attachment_handler([PICTURE]) is None
    assert AttachmentHints().attachment_handler([PICTURE]) is not None


@pytest.mark.parametrize("name", ['a"b', "a\nb", "\u202egnp", "a): /etc/passwd", "ü"])
def test_a_name_cannot_end_its_line(name: str) -> None:
    text = AttachmentHints().attachment_handler([NOTES.but(name=name)]) or ""
    _, line = text.split("\n")
    result, _, rest = line.removeprefix("- ").rpartition(" (text/csv, 2 KiB): ")
    assert (json.loads(result), rest) == (name, NOTES.path)


def test_options_are_checked() -> None:
    for wrong in ("image/", [""], [7], 7):
        with pytest.raises(WrongType):
            AttachmentHints(leave_out=wrong)  # type: ignore[arg-type]
    with pytest.raises(WrongType):
        AttachmentHints(introduction=7)  # type: ignore[arg-type]
    with pytest.raises(UnknownArgument):
        AttachmentHints(leaveout=[])  # type: ignore[call-arg]
