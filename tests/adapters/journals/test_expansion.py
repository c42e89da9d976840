"""Texts and messages that are stored by reference: what they would become is counted before the memory is needed."""

import sqlite3
import tracemalloc
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest

from agentrail.adapters.journals.archive_reader import check_of_end, outside
from agentrail.adapters.journals.message_index import MessageReferences
from agentrail.adapters.journals.packing import BLOB_FROM, NO_CHECK, PackedRecord, checksum_of, digest_of, pack
from agentrail.adapters.journals.sql.stored_rows import ChainedColumns
from agentrail.codec.versions import FORMAT
from agentrail.core.vocabulary.changes import Appended, Change
from agentrail.errors import BadArchive, BadRecord
from agentrail.events import AgentEnd
from agentrail.journals import MemoryJournal, Record, SqliteJournal, export_session, import_session
from agentrail.models import Text, Usage, UserMessage
from agentrail.testing.conformance.expected_errors import raised
from agentrail.testing.conformance.journal_tests import with_event
from tests.kit import prompted, run_of

# Sessions of a stranger: each checksum fits, and what they cover is not what agentrail would have written

HOLE: Final = b'"a place to fill"'
"""A text in the body of a record, in place of which others are put."""


def body_with(filling: bytes, number: int = 1) -> bytes:
    """Return the body of a record that has *filling* among the names of its effects."""
    body = pack(prompted("s", number).but(effects=(HOLE.strip(b'"').decode(),))).body
    assert body.count(HOLE) == 1
    return body.replace(HOLE, filling)


def write_archive(path: Path, bodies: Sequence[bytes], session_id: str = "s") -> None:
    """Write an export file of a session whose records have these *bodies*."""
    check, lines = NO_CHECK, [b'{"kind":"agentrail export","version":1,"session":"%b"}' % session_id.encode()]
    for body in bodies:
        check = checksum_of(check, outside(FORMAT, session_id), body)
        lines.append(b'{"check":"%b","format":%d,"record":%b}' % (check.hex().encode(), FORMAT, body))
    end = check_of_end(check, session_id, len(bodies)).hex().encode()
    path.write_bytes(b"\n".join([*lines, b'{"check":"%b","end":%d}' % (end, len(bodies)), b""]))


async def write_database(path: Path, bodies: Sequence[PackedRecord]) -> None:
    """Write a journal with a session `s` whose records have these *bodies*."""
    journal = SqliteJournal(path, sync="normal")
    await journal.append(await journal.claim("s", "test"), 0, run_of("s", 1, len(bodies)))
    await journal.close()
    with closing(sqlite3.connect(path)) as db, db:
        check = NO_CHECK
        for number, packed in enumerate(bodies, 1):
            query = "SELECT epoch, seq, format FROM record WHERE number = ?"
            epoch, seq, form = db.execute(query, (number,)).fetchone()
            names = " ".join(packed.blobs)
            row = ChainedColumns("s", number, epoch, seq, None, form, names, b"", packed.body, None)
            check = checksum_of(check, row.covered_columns, row.body)
            query = "UPDATE record SET body = ?, blobs = ?, checksum = ? WHERE number = ?"
            db.execute(query, (row.body, row.blobs, check, number))
            db.executemany("INSERT OR IGNORE INTO blob SELECT key, ?, ? FROM session", packed.blobs.items())
        db.execute("UPDATE session SET checksum = ?", (check,))


TEXT = "x" * 200_000
MUCH = 16 * 1024 * 1024
"""Bytes of memory that no attack here may need; unmended, each needs more than 100 MB."""


@contextmanager
def little_memory() -> Generator[None]:
    """Assert that the block needs little memory at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MUCH
    finally:
        tracemalloc.stop()


def referring(count: int) -> bytes:
    """Return the body of a record with a text of 200 kB, to which it refers *count* times."""
    return body_with(b",".join([b'"%b"' % TEXT.encode(), *[b'"$=0"'] * count]))


async def test_an_export_whose_references_stand_for_too_much_is_refused_by_its_line(tmp_path: Path) -> None:
    write_archive(tmp_path / "s.jsonl", [body_with(b'"a"'), referring(1000)])
    journal = MemoryJournal()
    with little_memory():
        error = await raised(BadArchive, import_session(journal, tmp_path / "s.jsonl"))
    assert "line 3: with all that it refers to it would have 200,20" in str(error)
    assert "was not written by agentrail" in str(error)
    assert not await journal.sessions()


async def test_a_row_of_a_database_whose_references_stand_for_too_much_is_damage(tmp_path: Path) -> None:
    await write_database(tmp_path / "a.db", [PackedRecord(body_with(b'"a"'), {}), PackedRecord(referring(1000), {})])
    await read_refused(tmp_path / "a.db")


@pytest.mark.parametrize("more", [b"", b',{"$blob.":1}'], ids=["as they are written", "with an odd key"])
async def test_a_row_of_a_database_that_names_a_long_text_too_often_is_damage(tmp_path: Path, more: bytes) -> None:
    name = digest_of(TEXT.encode())
    filling = b",".join([b'{"$blob":"%b"}' % name.encode()] * 1000) + more
    rows = [PackedRecord(body_with(b'"a"'), {}), PackedRecord(body_with(filling), {name: TEXT.encode()})]
    await write_database(tmp_path / "a.db", rows)
    await read_refused(tmp_path / "a.db")


async def read_refused(path: Path) -> None:
    """Assert that the second record of the session at *path* is refused, and the first is read."""
    journal = SqliteJournal(path)
    with little_memory(), pytest.raises(BadRecord, match="it would have 2") as refused:
        await journal.read("s")
    assert refused.value.number == 2
    assert len(await journal.read("s", 0, 1)) == 1
    await journal.close()


def ends(count: int) -> tuple[bytes, bytes]:
    """Return the bodies of a record with a message of 200 kB, and of an end of a turn with it *count* times."""
    message, places = UserMessage(tuple([Text(TEXT[:1000])] * 200)), MessageReferences()
    first = prompted("s", 1).but(change=Change(history=Appended((message,))))
    told = pack(first, places)
    last = pack(with_event(prompted("s", 2), AgentEnd("p1", "end_turn", (message,), Usage())), places)
    assert not last.blobs
    return told.body, last.body.replace(b"[[1,0]]", b"[%b]" % b",".join([b"[1,0]"] * count))


async def test_an_event_that_repeats_a_message_too_often_is_refused(tmp_path: Path) -> None:
    write_archive(tmp_path / "s.jsonl", ends(1000))
    error = await raised(BadArchive, import_session(MemoryJournal(), tmp_path / "s.jsonl"))
    assert "line 3: its `events[0].messages` repeats 20" in str(error)
    await write_database(tmp_path / "a.db", [PackedRecord(body, {}) for body in ends(1000)])
    journal = SqliteJournal(tmp_path / "a.db")
    with pytest.raises(BadRecord, match="repeats 20") as refused:
        await journal.read("s")
    assert refused.value.number == 2
    await journal.close()


@pytest.mark.long
async def test_many_ends_of_turns_with_one_message_are_not_written_anew_each(tmp_path: Path) -> None:
    told, end = ends(1)
    write_archive(tmp_path / "s.jsonl", [told, *[end] * 1000])
    journal = SqliteJournal(tmp_path / "a.db")
    with little_memory():
        error = await raised(BadArchive, import_session(journal, tmp_path / "s.jsonl"))
    await journal.close()
    assert "with all that it refers to" in str(error)


def with_repeated(text: str) -> Record:
    """Return a record that has one text so often that no reader would take it for one of agentrail's."""
    return prompted("s", 1).but(effects=(text, "$=0", '\\"$=0', *[text] * 500))


@pytest.mark.long
@pytest.mark.parametrize("size", [1000, BLOB_FROM])
async def test_what_a_session_repeats_too_often_is_stored_so_that_it_is_read(tmp_path: Path, size: int) -> None:
    record = with_repeated("y" * size)
    journal, other = SqliteJournal(tmp_path / "a.db"), MemoryJournal(encode=True)
    await journal.append(await journal.claim("s", "test"), 0, (record,))
    assert await journal.read("s") == (record,)
    await export_session(journal, "s", tmp_path / "s.jsonl")
    await import_session(other, tmp_path / "s.jsonl")
    assert await other.read("s") == (record,)
    await journal.close()


@pytest.mark.long
async def test_a_message_that_a_turn_has_twice_is_read_twice(tmp_path: Path) -> None:
    """A plugin may add one and the same message in each round."""
    note = UserMessage((Text("remember that " * 2000),))
    first = prompted("s", 1).but(change=Change(history=Appended((note,))))
    last = with_event(prompted("s", 2), AgentEnd("p1", "end_turn", (note,) * 100, Usage()))
    journal = SqliteJournal(tmp_path / "a.db")
    await journal.append(await journal.claim("s", "test"), 0, (first, last))
    assert await journal.read("s") == (first, last)
    await export_session(journal, "s", tmp_path / "s.jsonl")
    await import_session(MemoryJournal(), tmp_path / "s.jsonl")
    await journal.close()
