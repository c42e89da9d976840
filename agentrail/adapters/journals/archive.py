"""Exports one session to a file and imports it: to move a session, to keep it, or to show what happened in it.

The file is lines of JSON: a head, one line for each record with a chained checksum, and an end. It can be
imported into any journal, all or nothing, and is refused if a line is missing or was changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.journals.message_index import MessagePlaces, messages_in
from agentrail.adapters.journals.packing import NO_CHECK, PackedRecord, UnpackError, check_of, unpack
from agentrail.adapters.journals.sqlite.writer_lock import ONLY_ITS_OWNERS_FILE
from agentrail.adapters.journals.stored_form import stored_record
from agentrail.adapters.journals.text_dedup import share_texts
from agentrail.codec.json_text import DOCUMENT_DEPTH, from_text, to_text
from agentrail.codec.values import write
from agentrail.codec.versions import FORMAT
from agentrail.errors import BadArchive, BadText, FileFailed, NotReadable, SessionExists, SessionNotStored
from agentrail.ports.journal import Journal, Record
from agentrail.values.argument_checks import checked
from agentrail.values.json import Json
from agentrail.values.messages import Message

VERSION: Final = 1
"""The version of the file's format; `import_session` refuses a file of another version."""

WITH_SESSION: Final = 4
"""The oldest format whose records do not name their session, so that the checksum of their lines covers it."""

PAGE: Final = 100
"""The most records that one call reads from the journal while a session is exported."""

OWNER: Final = "import"
KIND: Final = "agentrail session"


@checked
async def export_session(journal: Journal, session_id: str, path: str | os.PathLike[str]) -> int:
    """Write a session of *journal* to the file *path*, which is replaced if it exists; return the number of records."""
    records: list[Record] = []
    while page := await journal.read(session_id, len(records), PAGE):
        records.extend(page)
    if not records:
        raise SessionNotStored(session_id)
    await trio.to_thread.run_sync(_write, Path(path), session_id, records)
    return len(records)


@checked
async def import_session(journal: Journal, path: str | os.PathLike[str]) -> str:
    """Read the file *path*, written by `export_session`, into *journal*; return the id of the session."""
    session_id, records = await trio.to_thread.run_sync(_read, Path(path))
    if await journal.read(session_id, 0, 1):
        raise SessionExists(session_id)
    claim = await journal.claim(session_id, OWNER)
    if claim.head:
        raise SessionExists(session_id)
    await journal.append(claim, 0, records)
    return session_id


def _write(path: Path, session_id: str, records: Sequence[Record]) -> None:
    unfinished = path.with_name(f"{path.name}.part")
    check = NO_CHECK
    places = MessagePlaces()
    try:
        opened = os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, ONLY_ITS_OWNERS_FILE)
        with open(opened, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor is no path
            print(to_text({"kind": KIND, "version": VERSION, "session": session_id}), file=file)
            for record in records:
                body = share_texts(write(stored_record(record, places)))
                check = check_of(check, _outside(FORMAT, session_id), body)
                print(f'{{"check":"{check.hex()}","format":{FORMAT},"record":{body.decode()}}}', file=file)
            print(to_text({"end": len(records)}), file=file)
        unfinished.replace(path)
    except OSError as error:
        raise FileFailed("write", str(path), error.strerror or str(error)) from error


def _read(path: Path) -> tuple[str, tuple[Record, ...]]:
    """Return the session's id and its records; raise `BadArchive` unless the file is as `export_session` wrote it."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise NotReadable(str(path), error.strerror or str(error)) from error
    head = _line(path, lines, 0, ("kind", "version", "session"))
    if (head["kind"], head["version"]) != (KIND, VERSION):
        raise BadArchive(str(path), 1, "it is not the first line of an exported session, or of an unknown version")
    session_id = str(head["session"])
    end = _line(path, lines, len(lines) - 1, ("end",))
    if end["end"] != len(lines) - 2:
        raise BadArchive(str(path), len(lines), f"it counts {end['end']} records, but there are {len(lines) - 2}")
    check = NO_CHECK
    records: list[Record] = []
    for place in range(1, len(lines) - 1):
        line = _line(path, lines, place, ("check", "format", "record"))
        form = line["format"]
        for body in _bodies(lines[place], line):
            own_check = check_of(check, _outside(form, session_id), body)
            if own_check.hex() == line["check"] and isinstance(form, int):
                break
        else:
            raise BadArchive(str(path), place + 1, "it, or one before it, has changed since it was written")
        check = own_check
        try:
            records.append(unpack(PackedRecord(body, {}, form), session_id, place, partial(_messages, records)))
        except UnpackError as error:
            raise BadArchive(str(path), place + 1, str(error)) from error
    return session_id, tuple(records)


def _bodies(text: bytes, line: Mapping[str, Json]) -> Iterator[bytes]:
    """Yield the two byte strings that a line's checksum may cover: its record as it stands, or as `to_text` writes it.

    The first is exact: one number can be written in several ways. The second accepts a line that another program has
    written again, with spaces for instance.
    """
    match = _LINE.fullmatch(text)
    if match is not None:
        yield match["record"]
    yield to_text(line["record"]).encode()


_LINE: Final = re.compile(rb'\{"check":"[0-9a-f]+","format":[0-9]+,"record":(?P<record>.*)\}')


def _outside(form: Json, session_id: str) -> bytes:
    """Return the bytes that a line's checksum covers beside its record: the format, and from format 4 the session."""
    return (f"{form} {session_id}" if isinstance(form, int) and form >= WITH_SESSION else str(form)).encode()


def _messages(records: Sequence[Record], number: int) -> Sequence[Message]:
    """Return the messages in the change of record *number*, which stands in an earlier line."""
    return messages_in(records[number - 1].change)


def _line(path: Path, lines: Sequence[bytes], place: int, keys: tuple[str, ...]) -> Mapping[str, Json]:
    try:
        line = from_text(lines[place], DOCUMENT_DEPTH + 1) if lines else None
    except BadText as error:
        raise BadArchive(str(path), place + 1, str(error)) from error
    if not isinstance(line, Mapping) or tuple(line) != keys:
        raise BadArchive(str(path), place + 1, f"it does not have the keys {', '.join(keys)}")
    return line
