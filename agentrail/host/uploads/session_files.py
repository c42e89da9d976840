"""`SessionFiles`: the files that were uploaded to sessions, each in a folder of its session's sandbox.

Beside each file there is a note with its sender's name and media type for it. A file without a note does not count as
uploaded. File and note are erased with the session.

Media types of uploaded files, and the names under which the host stores them in place of the sender's.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from types import MappingProxyType
from typing import Final, Protocol

import msgspec
import trio
from attrs import frozen

from agentrail.api.limits import HostLimits
from agentrail.api.public_ids import SessionName
from agentrail.errors import BodyTooLarge, FileMissing, RefusedError, UnknownSession, UsageError
from agentrail.errors.agentrail_error import cut
from agentrail.host.requests.http_messages import Body
from agentrail.ports.sandbox import KIB, Kind, Receiver, Sandbox
from agentrail.values.value import Value, learned

PDF: Final = "application/pdf"
UNKNOWN: Final = "application/octet-stream"

_BEGINNINGS: Final[Mapping[str, re.Pattern[bytes]]] = MappingProxyType(
    {
        "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
        "image/jpeg": re.compile(rb"\xff\xd8\xff"),
        "image/gif": re.compile(rb"GIF8[79]a"),
        "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
        PDF: re.compile(rb"%PDF-"),
    }
)
"""How files that models are shown begin, by media type."""

HEAD: Final = 16
"""How many bytes of a file tell what it is."""

SHOWN: Final = frozenset(_BEGINNINGS)
"""Media types of the files that models are shown as parts of the message."""

IMAGES: Final = SHOWN - {PDF}

_SAYS_NOTHING: Final = frozenset({"", UNKNOWN, "application/x-www-form-urlencoded"})
"""Media types that clients such as curl send if nobody tells them one."""
_SAME: Final = {"image/jpg": "image/jpeg"}
_MEDIA: Final = re.compile(r"(?!multipart/)[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}", re.ASCII)

MAX_KEPT: Final = 60
"""The most characters of the sender's name that are in a name of ours."""
_MAX_ENDING: Final = 10
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_SEVERAL: Final = re.compile(r"[.-]{2,}")
_OURS: Final = re.compile(rf"[0-9a-f]{{12}}-[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{MAX_KEPT - 1}}}", re.ASCII)


def claimed_media(header: str) -> str:
    """Return the media type in the header `Content-Type`, empty if it is missing; raise `UsageError` if not valid.

    A multipart form is refused: the file would be one of its parts.
    """
    media = header.partition(";")[0].strip().lower()
    if media in _SAYS_NOTHING:
        return ""
    if not _MEDIA.fullmatch(media):
        raise UsageError("wrong-media", cut(media), UNKNOWN)
    return _SAME.get(media, media)


def media_of(media: str, head: bytes) -> str:
    """Return *media*, checked against *head*, the first bytes; raise `UsageError` if one of `SHOWN` is wrong."""
    shown_type = shown_media(head)
    if media in SHOWN and shown_type != media:
        raise UsageError("wrong-content", cut(media))
    return media or shown_type or UNKNOWN


def shown_media(head: bytes) -> str | None:
    """Return the media type, one of `SHOWN`, of a file that begins with *head*; `None` if it is of another."""
    return next((media for media, beginning in _BEGINNINGS.items() if beginning.match(head)), None)


def new_name(name: str) -> str:
    """Return a new name for a file that its sender calls *name*: random digits, and letters of *name*."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = _SEVERAL.sub("-", _FOREIGN.sub("-", plain))
    plain = (f"file{plain}" if plain.startswith(".") else plain).strip(".-") or "file"
    stem, dot, ending = plain.rpartition(".")
    if stem and len(ending) <= _MAX_ENDING:
        plain = f"{stem[: MAX_KEPT - len(dot) - len(ending)]}{dot}{ending}"
    return f"{secrets.token_hex(6)}-{plain[:MAX_KEPT]}".rstrip(".-")


def is_ours(name: str) -> bool:
    """Whether `new_name` can have made *name*."""
    return _OURS.fullmatch(name) is not None


def readable(name: str) -> str:
    """Return a sender's name without characters that cannot be printed, such as line breaks."""
    return "".join([char if char.isprintable() else "\ufffd" for char in name])


FOLDER: Final = "uploads"
"""The folder, in a sandbox, with a folder for each session."""

NOTES: Final = "notes"
"""The folder, in that of a session, with the notes."""

PIECE: Final = 64 * KIB
"""How many bytes a sandbox gets at once."""

MAX_NOTE: Final = 4 * KIB
UNNAMED: Final = "."
"""How names begin of files that never came to their end, because the process was killed."""


class UploadSandbox(Sandbox, Receiver, Protocol):
    """A sandbox that takes files."""


class FileNote(Value):
    """The note beside a stored file."""

    name: str
    """Name that the sender gave to the file, without what cannot be printed."""
    media_type: str
    """Its media type."""


@frozen
class StoredFile:
    """An uploaded file."""

    name: str
    """Its name in the session."""
    path: str
    """Its path in the sandbox."""
    size: int
    """Its size in bytes."""
    note: FileNote


class Intake:
    """The uploads to one session that are under way, and the number and size of its files."""

    __slots__ = ("bytes", "count", "is_counted", "looking", "over", "scopes")

    def __init__(self) -> None:
        self.bytes = 0
        self.count = 0
        self.is_counted = False
        self.looking = trio.Lock()
        self.scopes = set[trio.CancelScope]()
        self.over = trio.Event()


class Incoming:
    """The body of an upload, in pieces: each is counted before it is written."""

    def __init__(self, body: Body, media_type: str, intake: Intake, limits: HostLimits) -> None:
        self._body = body
        self._claimed_type = media_type
        self._intake = intake
        self._limits = limits
        self.media_type = ""
        self.size = 0

    async def next_piece(self) -> bytes:
        """Return the next bytes; raise an error if the file or all files get too large."""
        piece = bytearray()
        while len(piece) < PIECE and (chunk := await self._body.chunk()):
            self.check(len(chunk))
            self.size += len(chunk)
            self._intake.bytes += len(chunk)
            piece += chunk
        if not self.media_type:
            self.media_type = media_of(self._claimed_type, bytes(piece[:HEAD]))
        if not self.size:
            raise UsageError("bad-body", "upload", "it", "is empty, and must be the file itself")
        return bytes(piece)

    def check(self, more: int) -> None:
        """Raise `BodyTooLarge` or `RefusedError` if *more* bytes are more than there may be."""
        limits = self._limits
        if self.size + more > limits.file_bytes:
            raise BodyTooLarge(limits.file_bytes)
        if self._intake.bytes + more > limits.session_files_bytes:
            raise RefusedError("files-too-large", limits.session_files_bytes)


class SessionFiles:
    """Stores, finds and erases the files of sessions."""

    def __init__(self, limits: HostLimits) -> None:
        self._limits = limits
        self._intakes: dict[str, Intake] = {}  # by id of the session; only sessions with uploads under way
        self._erasing = set[str]()

    @contextmanager
    def taking(self, name: SessionName) -> Generator[Intake]:
        """Let an upload to a session begin; raise `UnknownSession` if its files are erased meanwhile."""
        session = name.internal
        if session in self._erasing:
            raise UnknownSession(name.visible)
        intake = self._intakes.setdefault(session, Intake())
        scope = trio.CancelScope()
        intake.scopes.add(scope)
        try:
            with scope:
                yield intake
        finally:
            intake.scopes.remove(scope)
            if not intake.scopes:
                del self._intakes[session]
                intake.over.set()
        if scope.cancelled_caught:
            raise UnknownSession(name.visible)

    async def receive(
        self, session: str, sandbox: UploadSandbox, intake: Intake, body: Body, said_name: str, claimed_media: str
    ) -> StoredFile:
        """Store a file under a new name; if that fails, raise an error and remove what was written."""
        await self._count(session, sandbox, intake)
        if intake.count >= self._limits.session_files:
            raise RefusedError("too-many-files", self._limits.session_files)
        incoming = Incoming(body, claimed_media, intake, self._limits)
        incoming.check(body.length or 0)
        intake.count += 1
        try:
            return await self._store(session, sandbox, incoming, said_name)
        except BaseException:
            intake.count -= 1
            intake.bytes -= incoming.size
            raise

    async def _store(self, session: str, sandbox: UploadSandbox, incoming: Incoming, said_name: str) -> StoredFile:
        name = new_name(said_name)
        path = f"{folder_of(session)}/{name}"
        await sandbox.receive(path, incoming.next_piece)
        note = FileNote(readable(said_name), incoming.media_type)
        try:
            await sandbox.write(_note_path(session, name), msgspec.json.encode(note))
        except BaseException:
            # Shielded: the file would stay, although no client knows its name.
            # tests/host/uploaded/test_session_files.py::test_a_file_whose_note_cannot_be_written_is_removed
            with trio.CancelScope(shield=True):
                await sandbox.remove(path)
            raise
        return StoredFile(name, path, incoming.size, note)

    async def _count(self, session: str, sandbox: UploadSandbox, intake: Intake) -> None:
        """Count the files of the session, and their bytes, once for all uploads that are under way together."""
        async with intake.looking:
            if intake.is_counted:
                return
            folder, most = folder_of(session), self._limits.session_files
            try:
                entries = await sandbox.list(folder, 2 * most)
            except FileMissing:
                entries = None
            size, count = 0, 0
            for entry in entries.entries if entries else ():
                if entry.path.rpartition("/")[2].startswith(UNNAMED):
                    await sandbox.remove(entry.path)
                elif entry.kind is Kind.FILE:
                    size += entry.size
                    count += 1
            # Not before all is counted: if a removal fails, or is cancelled, the next upload counts from the beginning.
            # tests/host/uploaded/test_session_files.py::test_files_count_once_although_the_first_count_of_them_failed
            intake.bytes, intake.count, intake.is_counted = size, count, True

    async def find(self, session: str, sandbox: UploadSandbox, names: Sequence[str]) -> tuple[StoredFile, ...]:
        """Return the files of a session by their names; raise `UsageError` for one that is not there."""
        return tuple([await self._find(session, sandbox, name) for name in dict.fromkeys(names)])

    async def _find(self, session: str, sandbox: UploadSandbox, name: str) -> StoredFile:
        if not is_ours(name):
            raise UsageError("unknown-file", cut(name))
        path = f"{folder_of(session)}/{name}"
        try:
            content = await sandbox.read(_note_path(session, name), 0, MAX_NOTE)
            size = (await sandbox.read(path, 0, 0)).size
            note = msgspec.json.decode(content.data, type=learned(FileNote))
        # tools of the session may have changed the note
        except (FileMissing, msgspec.MsgspecError, UnicodeDecodeError):
            raise UsageError("unknown-file", cut(name)) from None
        return StoredFile(name, path, size, note)

    @asynccontextmanager
    async def closed(self, name: SessionName) -> AsyncGenerator[None, None]:
        """End the uploads to a session, and let none begin until the `async with` is left."""
        session = name.internal
        self._erasing.add(session)
        try:
            intake = self._intakes.get(session)
            if intake is not None:
                for scope in intake.scopes:
                    scope.cancel()
                await intake.over.wait()
            yield
        finally:
            self._erasing.discard(session)

    async def erase(self, name: SessionName, sandbox: UploadSandbox | None) -> None:
        """Erase the files of a session. No-op if *sandbox* is `None`: its sessions take no files."""
        if sandbox is not None:
            await sandbox.remove(folder_of(name.internal))


def folder_of(session: str) -> str:
    """Return the folder, in a sandbox, with the files of a session; its name does not reveal the session."""
    return f"{FOLDER}/{sha256(session.encode()).hexdigest()[:16]}"


def _note_path(session: str, name: str) -> str:
    return f"{folder_of(session)}/{NOTES}/{name}.json"
