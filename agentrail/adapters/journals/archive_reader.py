"""`ArchiveReader`: the sessions in an export file, page by page.

The file is lines of JSON. A session is a head, one line for each record, and an end, which counts the records; all but
the head have chained checksums. A file has one or several sessions, one after the other. When it is opened, all
checksums are compared, and the places of the lines are noted: eight bytes a record.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from errno import EINVAL
from functools import partial
from heapq import nsmallest
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Final

import trio

from agentrail.adapters.journals.message_index import MessagesOf
from agentrail.adapters.journals.packing import (
    NO_CHECK,
    PackedRecord,
    UnpackError,
    checksum_of,
    unpack,
    unpack_messages,
)
from agentrail.adapters.journals.text_dedup import check_whole
from agentrail.codec.json_text import DOCUMENT_DEPTH, from_text, to_text
from agentrail.codec.values import write
from agentrail.codec.versions import UNRELEASED
from agentrail.errors import BadArchive, BadRecord, BadText, OutsideError
from agentrail.ports.journal import ALL_SESSIONS, Record, SessionFilter, StoredSession
from agentrail.values.events.life import AgentEnd
from agentrail.values.json import Json
from agentrail.values.messages import Message
from agentrail.values.session_ids import follows_grammar
from agentrail.values.untrusted_values import brief

VERSION: Final = 1
"""The version of the file's format. Whoever raises it must still read the older ones."""

KIND: Final = "agentrail export"

UNRELEASED_KIND: Final = "agentrail session"
"""The kind of a file from before the first release. Its version and those of its records mean other formats."""

BEGINNING: Final = b'{"kind":"agentrail export",'
"""The first bytes of an export file, as it is written."""

BEGINNINGS: Final = (BEGINNING, b'{"kind":"agentrail session",')
"""The first bytes of each export file, those from before the first release among them."""

HEAD: Final = ("kind", "version", "session")
"""The keys of the first line of a session."""

RECORD: Final = ("check", "format", "record")
"""The keys of the line of a record."""

END: Final = ("check", "end")
"""The key of the last line of a session."""

MAX_LINE: Final = 256 * 1024 * 1024
"""The most bytes of a line. A record with many images has some 100 MB."""

TOO_LONG: Final = f"it has more than {MAX_LINE:,} bytes"
NO_FILE: Final = "it is no regular file; write what it gives into one, and read that"
BAD_ID: Final = "the id {} is not allowed: 1 to 128 letters, digits, `.`, `_`, `-`, beginning with a letter or digit"
CHANGED: Final = "it, or one before it, has changed since it was written"
NOT_FIRST: Final = "it is not the first line of an exported session"
OTHER_VERSION: Final = (
    f"the session has version {{}} of the format, and this agentrail reads versions up to {VERSION}; use a later one"
)
CUT: Final = "records before it are missing, or it has changed since it was written"
EMPTY: Final = "it ends a session without a record"
TWICE: Final = "it begins a session that was in an earlier line already"
SEVERAL: Final = "it begins a second session; `agentrail journal copy` reads a file with several"


class ArchivedSession:
    """One session in a file: where its lines are, and what is wrong with them."""

    __slots__ = ("end", "line", "offsets", "problem", "session_id", "sound")

    def __init__(self, session_id: str, line: int) -> None:
        self.session_id = session_id
        self.line = line
        """Number of its first line, which the records follow."""
        self.offsets = array("q")
        """Offset of the line of each record."""
        self.sound = 0
        """How many records come before the first problem."""
        self.problem: tuple[int, str] | None = None
        """Number of the first line that is wrong, and why; `None` if the session is whole."""
        self.end: int | None = None
        """Offset after its last line; `None` if that is missing."""

    def note(self, line: int, problem: str) -> None:
        """Note a problem, unless an earlier line has one."""
        self.problem = self.problem or (line, problem)

    @property
    def summary(self) -> StoredSession:
        """Id, last sound record and problem of the session."""
        problem = "" if self.problem is None else f"line {self.problem[0]}: {self.problem[1]}"
        return StoredSession(self.session_id, self.sound, problem=problem)


class ArchiveReader:
    """Reads the sessions of a file. Of a session with a damaged line, the records before it can be read."""

    def __init__(self, path: Path, file: BinaryIO, archived: Iterable[ArchivedSession]) -> None:
        self.path = path
        self.file = file
        self._lock = trio.Lock()
        self._sessions: dict[str, ArchivedSession] = {}
        for session in archived:
            first = self._sessions.setdefault(session.session_id, session)
            if first is not session:
                first.note(session.line, TWICE)

    @property
    def archived(self) -> Iterable[ArchivedSession]:
        """The sessions in the file, by their order in it; one whose id comes again only once."""
        return self._sessions.values()

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* of the *wanted* sessions, sorted by id, without what they are about."""
        await trio.lowlevel.checkpoint()
        summaries = (
            session.summary for name, session in self._sessions.items() if after is None or name > after.session_id
        )
        return tuple(nsmallest(limit, filter(wanted.holds, summaries), wanted.rank))

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*; raise `BadRecord` if one is damaged."""
        async with self._lock:  # threads of several calls would move each other's place in the file
            return await trio.to_thread.run_sync(self._records, session_id, after, limit)

    async def holders(self) -> tuple[str, ...]:
        """Return nobody: no session runs in a file."""
        await trio.lowlevel.checkpoint()
        return ()

    def only_session(self) -> tuple[str, tuple[Record, ...]]:
        """Return id and records of the session; raise `BadArchive` unless the file is whole, and has no other."""
        session, *others = self._sessions.values()
        if session.problem is not None:
            raise BadArchive(str(self.path), *session.problem)
        if others:
            raise BadArchive(str(self.path), others[0].line, SEVERAL)
        try:
            records = self._records(session.session_id, 0, session.sound)
            _check_ends(records, self.file.seek(0, os.SEEK_END))
        except BadRecord as error:
            raise BadArchive(str(self.path), session.line + error.number, error.problem) from error
        return session.session_id, records

    def _records(self, session_id: str, after: int, limit: int) -> tuple[Record, ...]:
        session = self._sessions.get(session_id)
        if session is None:
            return ()
        last = min(after + limit, len(session.offsets))
        if last > session.sound:
            line, problem = session.problem or (session.line, CHANGED)
            raise BadRecord(session_id, session.sound + 1, f"line {line} of {self.path}: {problem}")
        messages = partial(self._messages, session, {})
        return tuple([self._record(session, number, messages) for number in range(after + 1, last + 1)])

    def _record(self, session: ArchivedSession, number: int, earlier: MessagesOf) -> Record:
        try:
            return unpack(self._packed(session, number), session.session_id, number, earlier)
        except UnpackError as error:
            raise BadRecord(session.session_id, number, str(error)) from error

    def _messages(
        self, session: ArchivedSession, messages: dict[int, Sequence[Message]], number: int
    ) -> Sequence[Message]:
        """Return the messages in the change of record *number*, which stands in an earlier line."""
        if number not in messages:
            messages[number] = unpack_messages(self._packed(session, number))
        return messages[number]

    def _packed(self, session: ArchivedSession, number: int) -> PackedRecord:
        if not 0 < number <= session.sound:
            problem = f"it refers to record {number}, and there is none"
            raise UnpackError(problem)
        self.file.seek(session.offsets[number - 1])
        text = self.file.readline(MAX_LINE).rstrip(b"\r\n")
        try:
            line = _parsed(text)  # the scan has looked at the checksum alone; this refuses what is no strict JSON
        except BadText as error:
            raise UnpackError(str(error)) from error
        match = _LINE.fullmatch(text)
        body = to_text(line["record"]).encode() if match is None else match["record"]
        return PackedRecord(body, {}, line["format"] if isinstance(line["format"], int) else 0)


class _Scan:
    """Takes the lines of a file in their order, and finds the sessions in it."""

    def __init__(self) -> None:
        self._sessions: list[ArchivedSession] = []
        self._open: ArchivedSession | None = None
        self._check = NO_CHECK
        self._number = 0
        self._offset = 0

    def take(self, text: bytes) -> None:
        """Take the next line, with the bytes that end it."""
        self._number += 1
        offset, self._offset = self._offset, self._offset + len(text)
        if len(text) > MAX_LINE:
            self._take_other(offset, TOO_LONG)
            return
        text = text.rstrip(b"\r\n")
        session = self._open
        if session is not None and _LINE.fullmatch(text):
            self._take_record(session, offset, text)
            return
        try:
            line = _parsed(text)
        except BadText as error:
            self._take_other(offset, str(error))
            return
        keys = tuple(line)
        if keys == HEAD:
            self._begin(line)
        elif session is None:
            self._take_other(offset, _lacks(HEAD))
        elif keys == END:
            self._end(session, line["check"], line["end"])
        elif keys == RECORD:
            self._take_record(session, offset, text)
        else:
            self._take_other(offset, _lacks(RECORD))

    def finish(self) -> list[ArchivedSession]:
        """Return the sessions, as there is no further line."""
        if not self._number:
            self._number = 1
            self._take_other(0, _lacks(HEAD))
        if self._open is not None:
            self._open.note(self._number, _lacks(END))
        return self._sessions

    def _begin(self, line: Mapping[str, Json]) -> None:
        if self._open is not None:
            self._open.note(self._number - 1, _lacks(END))
        session = self._open = ArchivedSession(str(line["session"]), self._number)
        self._check = NO_CHECK
        self._sessions.append(session)
        if line["kind"] == UNRELEASED_KIND:
            session.note(self._number, UNRELEASED)
        elif line["kind"] != KIND:
            session.note(self._number, NOT_FIRST)
        if line["version"] != VERSION:
            session.note(self._number, OTHER_VERSION.format(brief(line["version"])))
        if not follows_grammar(session.session_id):
            session.note(self._number, BAD_ID.format(brief(session.session_id)))

    def _take_record(self, session: ArchivedSession, offset: int, text: bytes) -> None:
        session.offsets.append(offset)
        if session.problem is not None:
            return
        for check, form, body in _readings(text):
            own_check = checksum_of(self._check, outside(form, session.session_id), body)
            if own_check.hex() == check and isinstance(form, int):
                self._check = own_check
                session.sound += 1
                return
        session.note(self._number, CHANGED)

    def _take_other(self, offset: int, problem: str) -> None:
        """Take a line that is no head, record or end; outside of a session it stands for one whose head is damaged."""
        if self._open is None:
            self._open = ArchivedSession(f"line {self._number}", self._number)
            self._sessions.append(self._open)
        else:
            self._open.offsets.append(offset)
        self._open.note(self._number, problem)

    def _end(self, session: ArchivedSession, check: Json, count: Json) -> None:
        if count != len(session.offsets):
            problem = f"it counts {brief(count)} records, but there are {len(session.offsets)}"
            session.problem = (self._number, problem)
        elif not count:
            session.note(self._number, EMPTY)
        elif check != check_of_end(self._check, session.session_id, session.sound).hex():
            session.note(self._number, CUT)
        session.end, self._open = self._offset, None


def _check_ends(records: Iterable[Record], size: int) -> None:
    """Raise `BadRecord` if the messages at the ends of turns are too long for a file of *size* bytes.

    They may refer to messages of earlier records, and a journal writes them anew if these are of another turn.
    """
    total_size, sizes = size, dict[int, int]()
    for record in records:
        for envelope in record.events:
            for message in envelope.event.messages if isinstance(envelope.event, AgentEnd) else ():
                if id(message) not in sizes:
                    sizes[id(message)] = len(write(message))
                total_size += sizes[id(message)]
        try:
            check_whole(total_size, size)
        except ValueError as why:
            raise BadRecord(record.session_id, record.number, str(why)) from None


def scanned(file: BinaryIO) -> list[ArchivedSession]:
    """Return the sessions in *file*, which stands at its beginning."""
    scan = _Scan()
    while text := file.readline(MAX_LINE + 1):  # the rest of a longer one is taken for further lines
        scan.take(text)
    return scan.finish()


def begins_as_export(path: Path) -> bool:
    """Whether the file *path* begins as an export does."""
    with path.open("rb") as file:
        return file.read(max(map(len, BEGINNINGS))).startswith(BEGINNINGS)


@asynccontextmanager
async def open_archive(path: Path) -> AsyncGenerator[ArchiveReader, None]:
    """Open the file *path* for reading; close it when the block ends."""
    try:
        file = await trio.to_thread.run_sync(_opened, path)
    except OSError as error:
        raise OutsideError("not-readable", str(path), error.strerror or str(error)) from error
    with file:
        yield ArchiveReader(path, file, await trio.to_thread.run_sync(scanned, file))


def _opened(path: Path) -> BinaryIO:
    if not S_ISREG(path.stat().st_mode):  # one without an end, or where nobody writes, would be read for ever
        raise OSError(EINVAL, NO_FILE)
    return path.open("rb")


def _readings(text: bytes) -> Iterator[tuple[Json, Json, bytes]]:
    """Yield checksum, format and record of a line, in the two ways in which its checksum may cover the record.

    The first has the record as it stands, which is exact: one number can be written in several ways. The second has it
    as `to_text` writes it, for a line that another program has written again, with spaces for instance.
    """
    match = _LINE.fullmatch(text)
    if match is not None:
        yield match["check"].decode(), int(match["format"]), match["record"]
    try:
        line = _parsed(text)
    except BadText:
        return
    yield line["check"], line["format"], to_text(line["record"]).encode()


_LINE: Final = re.compile(
    rb'\{"check":"(?P<check>[0-9a-f]+)","format":(?P<format>[0-9]{1,9}),"record":(?P<record>.*)\}'
)


def outside(form: Json, session_id: str) -> bytes:
    """Return the bytes that a line's checksum covers beside its record: the format and the session."""
    return f"{form} {session_id}".encode()


def check_of_end(last: bytes, session_id: str, count: int) -> bytes:
    """Return the checksum of the end of a session of *count* records, of which *last* is that of the last one."""
    return checksum_of(last, f"end {count} {session_id}".encode(), b"")


def _parsed(text: bytes) -> Mapping[str, Json]:
    """Return the object that a line is, an empty one for any other value; raise `BadText` if it is no strict JSON."""
    line = from_text(text, DOCUMENT_DEPTH + 1)
    return line if isinstance(line, Mapping) else {}


def _lacks(keys: tuple[str, ...]) -> str:
    return f"it does not have the keys {', '.join(keys)}"
