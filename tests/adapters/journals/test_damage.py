"""Damage: the last good state, or a refusal that names the session; never a hole, and never anybody else's loss.

A spread of cuts and bits here; all of them with `AGENTRAIL_PROFILE=campaign`.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import trio

from agentrail.adapters.journals.packing import pack
from agentrail.adapters.journals.sqlite import SqliteJournal
from agentrail.core.answers import Accepted
from agentrail.core.state import Setup, State
from agentrail.errors import BadRecord, JournalError, JournalUnusable
from agentrail.ports.journal import Record, Snapshot
from agentrail.testing.journals import prompted, silent

CAMPAIGN = os.environ.get("AGENTRAIL_PROFILE") == "campaign"
SPREAD = 1 if CAMPAIGN else 61
"""Every which byte is cut or changed; no power of two, so that all kinds of places come up."""

BITS = tuple(range(8)) if CAMPAIGN else (0, 6)
NAMES = ("a", "b", "c")


def records_of(name: str) -> tuple[Record, ...]:
    """A session of a few records, told apart from any other by all that is in them."""
    first = prompted(name, 1, f"first of {name}", opening=State(name, Setup(), "demo"))
    answered = prompted(name, 2, f"second of {name}", command="c", answer=Accepted("p2", "started"))
    return (first, answered, silent(name, 3), prompted(name, 4, f"fourth of {name}"), prompted(name, 5, "last " * 20))


async def fill(path: Path, *, close: bool) -> SqliteJournal:
    """Write three sessions by turns, so that the records of each stand between those of the others."""
    journal = SqliteJournal(path, synchronous="NORMAL")
    claims = {name: await journal.claim(name, "test") for name in NAMES}
    for head in range(5):
        for name in NAMES:
            await journal.append(claims[name], head, records_of(name)[head : head + 1])
    await journal.keep(claims["a"], Snapshot("a", 5, State("a", Setup(), "demo")))
    if close:
        await journal.close()
    return journal


async def read_all(path: Path) -> dict[str, tuple[Record, ...] | JournalError]:
    """Read each session in a new process's way: what there is, or why not."""
    journal = SqliteJournal(path)
    found: dict[str, tuple[Record, ...] | JournalError] = {}
    for name in NAMES:
        try:
            found[name] = await journal.read(name)
        except JournalError as error:
            found[name] = error
    await journal.close()
    return found


def is_honest(name: str, found: tuple[Record, ...] | JournalError) -> bool:
    """Whether a session is whole, or refused by its name; a file that cannot be used at all names itself."""
    if isinstance(found, BadRecord):
        return bool(found.args[0] == name)
    return isinstance(found, JournalUnusable) or bool(found == records_of(name))


def flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    """A closed journal, which is one file."""
    trio.run(partial(fill, tmp_path / "whole.db", close=True))
    return (tmp_path / "whole.db").read_bytes()


def check(path: Path, data: bytes) -> dict[str, tuple[Record, ...] | JournalError]:
    path.write_bytes(data)
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    return trio.run(read_all, path)


def last_records(whole: bytes) -> Iterator[tuple[str, int]]:
    """Return the places of the bytes of each session's last record."""
    for name in NAMES:
        body = pack(records_of(name)[-1]).body
        at = whole.index(body)
        yield from ((name, place) for place in range(at, at + len(body), 1 if CAMPAIGN else 7))


def test_a_changed_bit_in_a_last_record_is_noticed_and_harms_nobody_else(tmp_path: Path, whole: bytes) -> None:
    for name, at in last_records(whole):
        for bit in BITS:
            found = check(tmp_path / "damaged.db", flipped(whole, at, bit))
            refusal = BadRecord(name, 5, "it has changed since it was written")
            assert found == {other: refusal if other == name else records_of(other) for other in NAMES}, (at, bit)


def test_a_changed_bit_anywhere_is_never_a_hole(tmp_path: Path, whole: bytes) -> None:
    refused = 0
    for at in range(0, len(whole), SPREAD if CAMPAIGN else 4 * SPREAD):
        for bit in BITS:
            found = check(tmp_path / "damaged.db", flipped(whole, at, bit))
            for name in NAMES:
                assert is_honest(name, found[name]), (at, bit, found[name])
                refused += not isinstance(found[name], tuple)
    assert refused


def test_damage_that_sqlite_cannot_even_quote_is_a_refusal_too(tmp_path: Path, whole: bytes) -> None:
    """Half a character in the text of a table's definition breaks SQLite's own message."""
    at = whole.index(b"CREATE TABLE session")
    found = check(tmp_path / "damaged.db", whole[:at] + b"\xe2\x28" + whole[at + 2 :])
    assert {name: type(error) for name, error in found.items()} == dict.fromkeys(NAMES, BadRecord)


def test_a_cut_file_is_never_a_shorter_session(tmp_path: Path, whole: bytes) -> None:
    for length in range(1, len(whole), SPREAD * (1 if CAMPAIGN else 6)):
        found = check(tmp_path / "damaged.db", whole[:length])
        for name in NAMES:
            assert is_honest(name, found[name]), (length, found[name])


def test_a_cut_log_leads_back_to_a_commit(tmp_path: Path) -> None:
    """What was not moved into the file yet is lost from its end, commit by commit, and nothing else."""
    path = tmp_path / "open.db"
    journal = trio.run(partial(fill, path, close=False))
    data, log = path.read_bytes(), path.with_name("open.db-wal").read_bytes()
    states: set[tuple[int, ...]] = set()
    lengths = range(0, len(log) + 1, SPREAD * (1 if CAMPAIGN else 20))
    damaged = [log[:length] for length in lengths] + [flipped(log, at, 3) for at in lengths[:-1]]
    for each in damaged:
        copy = tmp_path / "copy" / "open.db"
        copy.parent.mkdir(exist_ok=True)
        copy.with_name("open.db-shm").unlink(missing_ok=True)
        copy.write_bytes(data)
        copy.with_name("open.db-wal").write_bytes(each)
        found = trio.run(read_all, copy)
        for name in NAMES:
            records = found[name]
            assert isinstance(records, tuple)
            assert records == records_of(name)[: len(records)]
        states.add(tuple(len(records) for records in found.values() if isinstance(records, tuple)))
    trio.run(journal.close)
    assert states <= {(rounds + (turn > 0), rounds + (turn > 1), rounds) for rounds in range(6) for turn in range(3)}
    assert {(0, 0, 0), (5, 5, 5)} <= states


def test_a_damaged_snapshot_is_none(tmp_path: Path, whole: bytes) -> None:
    at = whole.rindex(b'"$":"Snapshot"')
    for place in range(at, at + 100, 1 if CAMPAIGN else 9):
        path = tmp_path / "damaged.db"
        assert check(path, flipped(whole, place, 1)) == {name: records_of(name) for name in NAMES}

        async def look(path: Path = path) -> Snapshot | None:
            journal = SqliteJournal(path)
            found = await journal.snapshot("a")
            await journal.close()
            return found

        assert trio.run(look) is None


def test_without_any_snapshot_everything_is_as_before(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "without.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("DELETE FROM snapshot")
    assert trio.run(read_all, path) == {name: records_of(name) for name in NAMES}
