"""Names and media types of uploaded files, whatever their senders say; and files whose note cannot be kept."""

from __future__ import annotations

import re
import string
from typing import Final

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from agentrail.adapters.sandboxes.paths import check_writable, parts_of
from agentrail.api.limits import DEFAULTS
from agentrail.api.public_ids import SessionName
from agentrail.errors import DiskFull, RefusedError, UnknownSession, UsageError
from agentrail.host.requests.http_messages import Body
from agentrail.host.uploads.session_files import (
    SHOWN,
    FileNote,
    SessionFiles,
    StoredFile,
    claimed_media,
    folder_of,
    is_ours,
    media_of,
    new_name,
    readable,
    shown_media,
)
from agentrail.sandboxes import MemorySandbox, Written

TRIP: Final = SessionName("acme", "ann", "trip")
HOSTILE: Final = (
    "",
    ".",
    "..",
    "../../etc/passwd",
    "..\\..\\boot.ini",
    "a\0b.png",
    "x" * 100_000,
    "x" * 300 + ".png",
    "." * 300,
    "CON",
    "nul.txt",
    ".git",
    ".bashrc",
    "notes",
    "/etc/passwd",
    "~root",
    "a\r\nSet-Cookie: b",
    "\u202egnp.exe",
    "\uff0e\uff0e\u2215x",
    "\u2101\u00bd",
    "\ud800",
    "漢字.png",
    "-rf",
    "$(reboot)",
    "a.png.",
    "a....png",
    "\u0130.PNG",
)
OURS: Final = re.compile(r"[0-9a-f]{12}-[A-Za-z0-9_]([A-Za-z0-9_.-]{0,58}[A-Za-z0-9_])?", re.ASCII)


SAID: Final = st.sampled_from(HOSTILE) | st.text() | st.text(string.punctuation + "aZ0\0\n", max_size=80)
MEDIA: Final = st.sampled_from(
    ("image/png", "IMAGE/PNG; q=1", "image/jpg", "multipart/form-data; boundary=x", "text", "", "*/*", "a/b/c", "\0/x")
)


@given(SAID)
def test_a_name_of_ours_is_safe_whatever_the_sender_says(client_name: str) -> None:
    name = new_name(client_name)
    assert OURS.fullmatch(name)
    assert is_ours(name)
    path = f"{folder_of(TRIP.internal)}/{name}"
    parts = parts_of(path)
    assert len(parts) == len(("uploads", "digest", "name"))
    check_writable(path, parts)
    assert new_name(client_name) != name


@given(st.sampled_from(HOSTILE) | st.text())
def test_a_name_that_is_not_ours_is_no_path_if_it_counts_as_ours(given_name: str) -> None:
    assert not is_ours(given_name) or OURS.fullmatch(given_name)


@given(SAID)
def test_a_name_that_plugins_and_models_get_is_printable_and_as_long(name: str) -> None:
    readable_name = readable(name)
    assert readable_name.isprintable()
    assert len(readable_name) == len(name)


@given(MEDIA | st.text(), st.binary(max_size=20))
def test_a_media_type_that_is_shown_is_that_of_the_content(claimed: str, head: bytes) -> None:
    try:
        media = media_of(claimed_media(claimed), head)
    except UsageError:
        return
    assert (media in SHOWN) == (shown_media(head) is not None and media == shown_media(head))
    assert re.fullmatch(r"[!-~]+/[!-~]+", media)
    assert not media.startswith("multipart/")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Übersicht 2026.pdf", "Ubersicht-2026.pdf"),
        ("../../etc/passwd", "etc-passwd"),
        ("漢字.png", "file.png"),
        (".bashrc", "file.bashrc"),
        ("CON", "CON"),
        ("", "file"),
        ("..", "file"),
        ("x" * 300 + ".tar.gz", f"{'x' * 57}.gz"),
        ("a." + "x" * 300, f"a.{'x' * 58}"),
    ],
)
def test_what_can_be_kept_of_a_name_is_kept(name: str, expected: str) -> None:
    assert new_name(name)[12:] == f"-{expected}"


# Notes


class Pieces(Body):
    """A body that is there already."""

    def __init__(self, *pieces: bytes) -> None:
        self._left = list(pieces)

    @property
    def length(self) -> int | None:
        return None

    @property
    def limit(self) -> int:
        return 0

    async def chunk(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return self._left.pop(0) if self._left else b""


class NoNotes(MemorySandbox):
    """A sandbox whose disk is full as soon as a file is there; or it waits for ever."""

    hangs = False

    async def write(self, path: str, data: bytes) -> Written:
        if self.hangs:
            await trio.sleep_forever()
        raise DiskFull("write", path, f"no space for {len(data)} bytes")


async def store(files: SessionFiles, sandbox: MemorySandbox) -> StoredFile:
    with files.taking(TRIP) as intake:
        return await files.receive(TRIP.internal, sandbox, intake, Pieces(b"con", b"tent"), "a.txt", "text/plain")


async def test_a_file_whose_note_cannot_be_written_is_removed(autojump_clock: object) -> None:  # noqa: ARG001
    files, sandbox = SessionFiles(DEFAULTS), NoNotes()
    with pytest.raises(DiskFull):
        await store(files, sandbox)
    assert sandbox.files == {}
    sandbox.hangs = True
    with trio.move_on_after(1) as scope:
        await store(files, sandbox)
    assert scope.cancelled_caught
    assert sandbox.files == {}


async def test_a_file_is_found_with_what_its_sender_said_of_it() -> None:
    files, sandbox = SessionFiles(DEFAULTS), MemorySandbox()
    stored = await store(files, sandbox)
    assert stored == StoredFile(
        stored.name, f"{folder_of(TRIP.internal)}/{stored.name}", 7, FileNote("a.txt", "text/plain")
    )
    assert await SessionFiles(DEFAULTS).find(TRIP.internal, sandbox, [stored.name, stored.name]) == (stored,)
    async with files.closed(TRIP):
        with pytest.raises(UnknownSession):
            await store(files, sandbox)
        await files.erase(TRIP, sandbox)
    assert sandbox.files == {}
    await store(files, sandbox)


class Unremovable(MemorySandbox):
    """A sandbox that cannot remove the rest of an upload that was killed, the first time."""

    failed = False

    async def remove(self, path: str) -> None:
        if not self.failed:
            self.failed = True
            raise DiskFull("remove", path, "no space")
        await super().remove(path)


async def test_files_count_once_although_the_first_count_of_them_failed() -> None:
    sandbox, stored = Unremovable(), list[StoredFile]()
    await sandbox.write(f"{folder_of(TRIP.internal)}/-written-by-a-tool", b"tool")
    await sandbox.write(f"{folder_of(TRIP.internal)}/.killed", b"kil")
    files = SessionFiles(DEFAULTS.but(session_files=2, session_files_bytes=11))

    async def upload() -> None:
        try:
            stored.append(await store(files, sandbox))
        except DiskFull:
            assert not stored

    async with trio.open_nursery() as nursery:
        nursery.start_soon(upload)
        nursery.start_soon(upload)
    assert len(stored) == 1
    assert f"{folder_of(TRIP.internal)}/.killed" not in sandbox.files


async def test_files_are_counted_anew_when_no_upload_is_under_way() -> None:
    files, sandbox = SessionFiles(DEFAULTS.but(session_files=1)), MemorySandbox()
    stored = await store(files, sandbox)
    with pytest.raises(RefusedError, match="1"):
        await store(files, sandbox)
    await sandbox.remove(f"{folder_of(TRIP.internal)}/{stored.name}")  # as a tool of the session may do
    await store(files, sandbox)


class Slow(Pieces):
    """A body whose end comes when the test says so."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__(*pieces)
        self.may_end = trio.Event()

    async def chunk(self) -> bytes:
        piece = await super().chunk()
        if not piece:
            await self.may_end.wait()
        return piece


class Cut(Pieces):
    """A body that is cut off in its middle."""

    async def chunk(self) -> bytes:
        piece = await super().chunk()
        if not piece:
            raise ConnectionResetError
        return piece


async def test_an_upload_that_has_failed_counts_no_more_while_another_is_under_way() -> None:
    files = SessionFiles(DEFAULTS.but(session_files=2, session_files_bytes=100))
    sandbox, slow = MemorySandbox(), Slow(b"x" * 40)

    async def upload(body: Body) -> None:
        with files.taking(TRIP) as intake:
            await files.receive(TRIP.internal, sandbox, intake, body, "a.txt", "text/plain")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(upload, slow)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            with pytest.raises(ConnectionResetError):
                await upload(Cut(b"x" * 60))
        await upload(Pieces(b"x" * 60))
        with pytest.raises(RefusedError, match="2"):
            await upload(Pieces(b"x"))
        slow.may_end.set()
