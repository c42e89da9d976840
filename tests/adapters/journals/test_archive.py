"""One session as a file: the same session elsewhere, or a refusal that says which line is wrong."""

import json
import os
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio
from hypothesis import example, given

from agentrail import State
from agentrail.adapters.journals import archive_reader
from agentrail.codec.values import read
from agentrail.codec.values import write as written
from agentrail.errors import BadArchive, BadId, FileFailed, OutsideError, SessionExists, UnknownSession
from agentrail.journals import Journal, MemoryJournal, Record, SqliteJournal, export_session, import_session
from agentrail.testing.conformance.expected_errors import raised
from tests.codec.generators import a, floats
from tests.kit import Setup, Verdict, opened, prompted, run_of
from tests.patience import PATIENCE


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = SqliteJournal(tmp_path / "agentrail.db")
    yield journal
    await journal.close()


@pytest.mark.long
async def test_a_session_is_the_same_in_another_journal(journal: Journal, tmp_path: Path) -> None:
    claim = await journal.claim("s", "test")
    first = prompted("s", 1, opening=State("s", Setup("brief"), "demo"), due=5, at_work=True)
    records = (first, prompted("s", 2, "word 🙂 " * 50_000), *run_of("s", 3, 250))
    await journal.append(claim, 0, records)
    await opened(journal, "other")
    assert await export_session(journal, "s", tmp_path / "s.jsonl") == 252
    await trio.Path(tmp_path / "new").mkdir()
    for into in (MemoryJournal(), MemoryJournal(encode=True), SqliteJournal(tmp_path / "new" / "x.db")):
        assert await import_session(into, tmp_path / "s.jsonl") == "s"
        assert await into.read("s", 0, 1000) == records
        assert len(await into.sessions()) == 1
        assert await into.append(await into.claim("s", "test"), 252, run_of("s", 253, 1)) == 253
        with pytest.raises(SessionExists):
            await import_session(into, tmp_path / "s.jsonl")
        await into.close()


async def moved(record: Record) -> tuple[Record, ...]:
    """Return what another journal has of a session of this one record, after an export and an import."""
    journal, into = MemoryJournal(), MemoryJournal()
    await journal.append(await journal.claim("s", "test"), 0, (record,))
    with TemporaryDirectory() as folder:
        await export_session(journal, "s", Path(folder, "s.jsonl"))
        await import_session(into, Path(folder, "s.jsonl"))
    return await into.read("s")


@pytest.mark.long
@given(floats)
@example(1.3e-05)
@example(1e16)
@example(-0.0)
@example(5e-324)
async def test_a_number_is_the_same_whatever_its_text(number: float) -> None:
    first = prompted("s", 1)
    record = first.but(arrival=first.arrival.but(random=number))
    assert repr(await moved(record)) == repr((record,))


@pytest.mark.long
@given(a(Record))
async def test_any_record_is_the_same_in_another_journal(drawn: Record) -> None:
    rulings = tuple([one for one in drawn.rulings if one.pause or one.verdict is not Verdict.ASK])
    events = tuple([envelope.but(seq=envelope.seq % 2**63) for envelope in drawn.events])  # as a journal can store it
    record = drawn.but(session_id="s", number=1, rulings=rulings, events=events, redacted=None)
    assert await moved(record) == (read(Record, written(record)),)


async def test_a_file_whose_lines_were_written_anew_is_still_whole(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    journal, into = MemoryJournal(), MemoryJournal()
    await opened(journal, "s", 3)
    await export_session(journal, "s", file)
    write(file, "\n".join(json.dumps(json.loads(line)) for line in lines(file)).encode())
    assert await import_session(into, file) == "s"
    assert await into.read("s") == run_of("s", 1, 3)


async def test_a_file_is_only_for_its_owner_and_replaces_what_was_there(journal: Journal, tmp_path: Path) -> None:
    claim = await opened(journal, "s", 1)
    file = tmp_path / "s.jsonl"
    await export_session(journal, "s", file)
    await journal.append(claim, 1, run_of("s", 2, 1))
    await export_session(journal, "s", str(file))
    assert (file.stat().st_mode & 0o777) == 0o600
    assert len(lines(file)) == 4
    assert not (await MemoryJournal().sessions())


async def test_a_session_that_is_not_there_is_no_file(journal: Journal, tmp_path: Path) -> None:
    await raised(UnknownSession, export_session(journal, "s", tmp_path / "s.jsonl"))
    await opened(journal, "s")
    await raised(FileFailed, export_session(journal, "s", tmp_path / "no such folder" / "s.jsonl"))
    await raised(OutsideError, import_session(journal, tmp_path / "s.jsonl"))


@pytest.mark.campaign
@pytest.mark.long
async def test_every_cut_and_every_changed_bit_is_noticed(tmp_path: Path) -> None:
    journal = MemoryJournal()
    await opened(journal, "s", 2)
    whole = tmp_path / "whole.jsonl"
    await export_session(journal, "s", whole)
    data = content(whole)
    damaged = [data[:length] for length in range(len(data) - 1)]
    damaged += [data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :] for at in range(len(data)) for bit in (1, 4, 32)]
    for number, each in enumerate(damaged):
        write(tmp_path / "damaged.jsonl", each)
        into = MemoryJournal()
        try:
            name = await import_session(into, tmp_path / "damaged.jsonl")
        except BadArchive:
            assert await into.sessions() == (), number
        else:
            assert (name, await into.read(name)) == ("s", run_of("s", 1, 2)), each


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda lines: lines[:0], "line 1: it does not have the keys kind, version, session"),
        (lambda lines: lines[:-1], "line 4: it does not have the keys check, end"),
        (lambda lines: lines[:2] + lines[3:], "line 4: it counts 3 records, but there are 2"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "line 2: it, or one before it, has changed"),
        (
            lambda lines: [lines[0].replace("agentrail export", "session"), *lines[1:]],
            "line 1: it is not the first line",
        ),
        (
            lambda lines: [lines[0].replace("1", "2"), *lines[1:]],
            "line 1: the session has version 2 of the format, and this agentrail reads versions up to 1; use a later",
        ),
        (lambda lines: [*lines[:-2], '{"end":2}'], "line 4: it does not have the keys check, format, record"),
        (lambda lines: [*lines[:-2], ended(lines[-1], 2)], "line 4: records before it are missing, or it has changed"),
        (lambda lines: [lines[0], ended(lines[-1], 0)], "line 2: it ends a session without a record"),
        (lambda lines: [*lines[:-2], ended(lines[-3], 2)], "line 4: records before it are missing, or it has changed"),
        (lambda lines: [*lines[:-1], ended(lines[-1], "3")], "line 5: it counts '3' records, but there are 3"),
        (lambda lines: [lines[0].replace('"s"', '"t"'), *lines[1:]], "line 2: it, or one before it, has changed"),
        (lambda lines: [lines[0], lines[1][:-2], *lines[2:]], "line 2: cannot read this text as JSON"),
    ],
)
async def test_a_file_that_is_not_whole_is_refused_by_its_line(
    tmp_path: Path, change: Callable[[list[str]], list[str]], problem: str
) -> None:
    file = tmp_path / "s.jsonl"
    journal = MemoryJournal()
    await opened(journal, "s", 3)
    await export_session(journal, "s", file)
    write(file, "\n".join(change(lines(file))).encode())
    error = await raised(BadArchive, import_session(MemoryJournal(), file))
    assert problem in str(error)


@pytest.mark.long
async def test_a_line_without_an_end_is_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_reader, "MAX_LINE", 64 * 1024)
    file = tmp_path / "s.jsonl"
    write(file, b'{"kind":"agentrail export","version":1,"session":"s"}\n')
    os.truncate(file, 64 * 1024 * 1024)
    tracemalloc.start()
    error = await raised(BadArchive, import_session(MemoryJournal(), file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "line 2: it has more than" in str(error)
    assert peak < 8 * 1024 * 1024


async def test_a_line_that_is_too_long_is_told_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_reader, "MAX_LINE", 100)
    file = tmp_path / "s.jsonl"
    write(file, b'{"kind":"agentrail export","version":1,"session":"s"}\n' + b" " * 101)
    error = await raised(BadArchive, import_session(MemoryJournal(), file))
    assert "line 2: it has more than" in str(error)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
async def test_what_is_no_regular_file_is_not_read(tmp_path: Path, kind: str) -> None:
    path = {"device": Path("/dev/zero"), "folder": tmp_path}.get(kind, tmp_path / "s.jsonl")
    if kind == "pipe":
        os.mkfifo(path)
    with trio.fail_after(PATIENCE):
        error = await raised(OutsideError, import_session(MemoryJournal(), path))
    assert "it is no regular file" in str(error)


@pytest.mark.parametrize("odd", ["", "-slot-3", "#redacted", "a b", "../a", "a\x1b[2J", "é", "a" * 129])
async def test_an_id_that_no_session_may_have_is_refused(tmp_path: Path, odd: str) -> None:
    file = tmp_path / "s.jsonl"
    write(file, f'{{"kind":"agentrail export","version":1,"session":{json.dumps(odd)}}}\n{{"end":0}}\n'.encode())
    error = await raised(BadArchive, import_session(MemoryJournal(), file))
    assert "line 1: the id " in str(error)
    assert "\x1b" not in str(error)


async def test_a_session_whose_id_none_may_have_is_not_exported(tmp_path: Path) -> None:
    journal, odd = MemoryJournal(), "\x1b]0;trip\x07"
    await opened(journal, odd)
    await raised(BadId, export_session(journal, odd, tmp_path / "trip.jsonl"))
    assert not await trio.Path(tmp_path / "trip.jsonl").exists()


async def test_an_export_into_a_folder_that_is_not_there_names_it(journal: Journal, tmp_path: Path) -> None:
    await opened(journal, "s")
    error = await raised(FileFailed, export_session(journal, "s", tmp_path / "gone" / "s.jsonl"))
    assert f"there is no folder `{tmp_path / 'gone'}`; make it with `mkdir -p`, or give another path" in str(error)


async def test_an_unfinished_export_is_not_written_through_a_link(journal: Journal, tmp_path: Path) -> None:
    await opened(journal, "s")
    victim = tmp_path / "victim.txt"
    write(victim, b"of the user")
    (tmp_path / "s.jsonl.part").symlink_to(victim)
    await raised(FileFailed, export_session(journal, "s", tmp_path / "s.jsonl"))
    assert content(victim) == b"of the user"


def ended(line: str, count: object) -> str:
    """Return the end of a session of *count* records, with the checksum of another *line*."""
    return json.dumps({"check": json.loads(line)["check"], "end": count})


def content(path: Path) -> bytes:
    return path.read_bytes()


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
