"""Damage: the last good state, or a refusal that names the session; never a hole, and never anybody else's loss.

Each cut and a spread of bits in the last records here; with `AGENTRAIL_PROFILE=campaign` each cut, all bits of what is
beside a last record, and a bit of each other byte. What became of the sessions is counted, as properties of the tests.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from agentrail import Accepted, SessionSpec, State, open_supervisor, tool
from agentrail.adapters.journals.packing import pack
from agentrail.adapters.journals.sql.sqlite_tables import PAGE_SIZE
from agentrail.errors import BadRecord, JournalError, JournalUnusable
from agentrail.events import SessionForked
from agentrail.journals import Record, Redaction, SessionFilter, Snapshot, SqliteJournal, redacted
from agentrail.testing import ScriptedModel, call, say
from agentrail.testing.conformance.expected_errors import raised
from agentrail.testing.conformance.journal_tests import silent
from tests.kit import Element, Setup, prompted, run_of
from tests.profiles import CAMPAIGN

SPREAD = 1 if CAMPAIGN else 421
"""Every which byte is cut or changed where no last record is; no power of two, so that all kinds of places come up."""

BITS = tuple(range(8)) if CAMPAIGN else (0, 6)
FRAME = 24 + PAGE_SIZE
"""Bytes of a page in the log, with its head."""

Found = tuple[Record, ...] | JournalError
Says = Callable[[str, object], None]
"""Keeps a property of a test."""

NAMES = ("a", "b", "c")
GONE = "a-deleted-session"
NOTE = Redaction(7, "me")


def records_of(name: str) -> tuple[Record, ...]:
    """A session of a few records, told apart from any other by all that is in them."""
    first = prompted(name, 1, f"first of {name}", opening=State(name, Setup(), "demo"))
    answered = prompted(name, 2, f"second of {name}", command="c", answer=Accepted("p2", "started"))
    return (
        first,
        answered,
        silent(name, 3),
        prompted(name, 4, f"fourth of {name}"),
        prompted(name, 5, f"last {name} " * 14),
    )


def stored_of(name: str) -> tuple[Record, ...]:
    """The records of a session in a journal that was closed: two of the last one are redacted."""
    marked = range(2, 4) if name == NAMES[-1] else ()
    return tuple(redacted(each, NOTE, ()) if each.number in marked else each for each in records_of(name))


async def fill(path: Path, *, close: bool) -> SqliteJournal:
    """Write three sessions by turns, so that the records of each stand between those of the others.

    One that is closed has had a fourth session, which was deleted, and records of the last one are redacted.
    """
    journal = SqliteJournal(path, sync="normal")
    if close:
        gone = (prompted(GONE, 1, GONE * 9, opening=State(GONE, Setup(), "demo")), *run_of(GONE, 2, 20))
        await journal.append(await journal.claim(GONE, "test"), 0, gone)
    claims = {name: await journal.claim(name, "test") for name in NAMES}
    for head in range(5):
        for name in NAMES:
            await journal.append(claims[name], head, records_of(name)[head : head + 1])
    await journal.keep(claims["a"], Snapshot("a", 5, State("a", Setup(), "demo")))
    if close:
        assert await journal.redact(NAMES[-1], 2, 3, NOTE, "test") == 2
        assert await journal.delete(GONE, "test", 0) == 1
        await journal.close()
    return journal


async def look(path: Path, data: bytes, log: bytes | None = None) -> dict[str, Found]:
    """Read each session of a journal with these bytes as a new process does: what there is, or why not."""
    await trio.lowlevel.checkpoint()
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)  # noqa: ASYNC240 - nobody else waits
    path.write_bytes(data)  # noqa: ASYNC240
    if log is not None:
        path.with_name(f"{path.name}-wal").write_bytes(log)  # noqa: ASYNC240
    journal = SqliteJournal(path)
    found: dict[str, Found] = {}
    for name in NAMES:
        try:
            found[name] = await journal.read(name)
        except JournalError as error:
            found[name] = error
    with suppress(JournalError):
        assert await journal.read(GONE) == ()
    await journal.close()
    return found


def kind(name: str, found: Found) -> str:
    """Say in a word what became of a session; anything but these three is a failure."""
    if isinstance(found, BadRecord):
        assert found.args[0] == name, found
        return "refused by name"
    if isinstance(found, JournalError):
        assert isinstance(found, JournalUnusable), found
        return "file refused"
    assert found in (records_of(name)[: len(found)], stored_of(name)[: len(found)]), found
    return "whole" if len(found) == len(records_of(name)) else "earlier state"


def flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    """A closed journal, which is one file."""
    trio.run(partial(fill, tmp_path / "whole.db", close=True))
    return (tmp_path / "whole.db").read_bytes()


def places(whole: bytes, name: str) -> range:
    """Return where the last record of a session is."""
    body = pack(records_of(name)[-1]).body
    at = whole.rindex(body)
    return range(at, at + len(body))


def said(outcomes: Counter[str]) -> str:
    return ", ".join(f"{what} {count:,}" for what, count in sorted(outcomes.items()))


@pytest.mark.long
async def test_a_changed_bit_in_a_last_record_is_noticed_and_harms_nobody_else(
    tmp_path: Path, whole: bytes, record_property: Says
) -> None:
    flips = 0
    for name in NAMES:
        refusal = BadRecord(name, 5, "it has changed since it was written")
        expected = {other: refusal if other == name else stored_of(other) for other in NAMES}
        for at in places(whole, name)[:: 1 if CAMPAIGN else 7]:
            for bit in BITS:
                found = await look(tmp_path / "damaged.db", flipped(whole, at, bit))
                assert found == expected, (at, bit)
                flips += 1
    record_property("flips in last records", f"{flips:,}: each refused by name, the others whole")


@pytest.mark.long
async def test_a_changed_bit_anywhere_is_never_a_hole(tmp_path: Path, whole: bytes, record_property: Says) -> None:
    """All bits of the pages with the last records, and of the places that say where records are; else one of a byte."""
    outcomes: Counter[str] = Counter()
    flips = 0
    pages = {at // PAGE_SIZE for name in NAMES for at in places(whole, name)}
    for at in range(0, len(whole), SPREAD):
        for bit in BITS if at // PAGE_SIZE in pages else (at % 8,):
            found = await look(tmp_path / "damaged.db", flipped(whole, at, bit))
            kinds = {name: kind(name, each) for name, each in found.items()}
            assert "earlier state" not in kinds.values(), (at, bit)
            outcomes.update(kinds.values())
            flips += 1
    assert outcomes["refused by name"]
    record_property("flips anywhere", f"{flips:,}, sessions: {said(outcomes)}")


async def test_a_session_that_a_damaged_index_hides_is_not_taken_for_a_new_one(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "damaged.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as file:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_session_1'"
        ((page,),) = file.execute(query).fetchall()
    path.write_bytes(flipped(whole, (page - 1) * PAGE_SIZE + 8, 0))  # where the first entry is
    journal = SqliteJournal(path)
    for attempt in (
        lambda: journal.read("a"),
        lambda: journal.latest("a"),
        lambda: journal.summary("a"),
        lambda: journal.claim("a", "test"),
        lambda: journal.delete("a", "test", 1),
        lambda: journal.redact("a", 1, 2, Redaction(1, "test"), "test"),
    ):
        error = await raised(BadRecord, attempt())
        assert (error.args[0], "`REINDEX` mends that" in str(error)) == ("a", True)
    assert await journal.read("b") == stored_of("b")
    assert (await journal.claim("new", "test")).head == 0
    assert await journal.read("none") == ()
    assert await journal.summary("none") is None
    await journal.close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("REINDEX")
    assert await journal.read("a") == stored_of("a")
    await journal.close()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("head", "'text'"),
        ("head", "1.5"),
        ("due", "1.5"),
        ("at_work", "'text'"),
        ("ended", "x'01'"),
        ("active", "x'01'"),
        ("created", "'text'"),
    ],
)
async def test_a_number_of_another_type_is_damage_of_its_session_alone(
    column: str, value: str, tmp_path: Path, whole: bytes
) -> None:
    path = tmp_path / "damaged.db"
    path.write_bytes(whole)
    table, key = ("about", "session") if column == "created" else ("session", "id")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f"UPDATE {table} SET {column} = {value} WHERE {key} = CAST('a' AS BLOB)")  # noqa: S608
    journal = SqliteJournal(path)
    problem = f"its row in the journal is damaged: `{column}` is no whole number"
    stored = await journal.sessions()
    assert [(each.session_id, each.problem) for each in stored] == [("a", problem), ("b", ""), ("c", "")]
    assert await journal.summary("a") == stored[0]
    assert await journal.sessions(SessionFilter(due_before=10**9)) == ()
    if column == "head":
        assert problem in str(await raised(BadRecord, journal.read("a")))
    else:
        assert await journal.read("a") == stored_of("a")
    if table == "session":
        assert problem in str(await raised(BadRecord, journal.claim("a", "test")))
        assert problem in str(await raised(BadRecord, journal.redact("a", 1, 2, NOTE, "test")))
    assert await journal.delete("a", "test", 1) == 1
    assert await journal.read("b") == stored_of("b")
    await journal.close()


async def test_damage_that_sqlite_cannot_even_quote_is_a_refusal_too(tmp_path: Path, whole: bytes) -> None:
    """Half a character in the text of a table's definition breaks SQLite's own message."""
    at = whole.index(b"CREATE TABLE session")
    found = await look(tmp_path / "damaged.db", whole[:at] + b"\xe2\x28" + whole[at + 2 :])
    assert {name: type(error) for name, error in found.items()} == dict.fromkeys(NAMES, BadRecord)


@pytest.mark.long
async def test_a_cut_file_is_never_a_shorter_session(tmp_path: Path, whole: bytes, record_property: Says) -> None:
    outcomes: Counter[str] = Counter()
    every = 1 if CAMPAIGN else 7
    lengths = {*range(1, len(whole), SPREAD), *(at for name in NAMES for at in places(whole, name)[::every])}
    for length in sorted(lengths):
        found = await look(tmp_path / "damaged.db", whole[:length])
        kinds = {name: kind(name, each) for name, each in found.items()}
        assert "earlier state" not in kinds.values(), length
        outcomes.update(kinds.values())
    record_property("cuts of the file", f"{len(lengths):,}, sessions: {said(outcomes)}")


@pytest.mark.long
async def test_a_cut_log_leads_back_to_a_commit(tmp_path: Path, record_property: Says) -> None:
    """What was not moved into the file yet is lost from its end, commit by commit, and nothing else."""
    path = tmp_path / "open.db"
    journal = await fill(path, close=False)
    data, log = path.read_bytes(), path.with_name("open.db-wal").read_bytes()  # noqa: ASYNC240
    await journal.close()
    states: set[tuple[int, ...]] = set()
    lasts = {name: places(log, name) for name in NAMES}
    since = min(last.start for last in lasts.values()) // FRAME * FRAME
    spread = [*range(0, since, 2110), *range(since, len(log), 1 if CAMPAIGN else 2110)]
    cuts = {*spread, len(log), *(at for name in NAMES for at in lasts[name][:: 1 if CAMPAIGN else 5])}
    outcomes: Counter[str] = Counter()
    for length in sorted(cuts):
        found = await look(tmp_path / "copy.db", data, log[:length])
        outcomes.update(kind(name, records) for name, records in found.items())
        states.add(tuple(len(records) for records in found.values() if isinstance(records, tuple)))
    assert states <= {(rounds + (turn > 0), rounds + (turn > 1), rounds) for rounds in range(6) for turn in range(3)}
    assert {(0, 0, 0), (5, 5, 5)} <= states
    assert outcomes.keys() == {"whole", "earlier state"}
    record_property("cuts of the log", f"{len(cuts):,}, sessions: {said(outcomes)}")


@pytest.mark.long
async def test_what_an_older_log_has_left_behind_the_end_of_a_log_is_no_damage(tmp_path: Path) -> None:
    """SQLite begins a log anew over the old one; of a last commit, frames may be there in any order."""
    path, copy = tmp_path / "open.db", tmp_path / "copy.db"
    journal = await fill(path, close=False)
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA wal_checkpoint(RESTART)")
    claim = await journal.claim("a", "another")
    await journal.append(claim, 5, [silent("a", 6)])
    data, log = path.read_bytes(), path.with_name("open.db-wal").read_bytes()  # noqa: ASYNC240
    await journal.close()
    salts = log[16:24]
    frames = [at for at in range(32, len(log), FRAME) if log[at + 8 : at + 16] == salts]
    ends = [at for at in frames if int.from_bytes(log[at + 4 : at + 8])]
    behind = range(frames[-1] + FRAME, len(log), FRAME)
    assert (len(ends), frames[-1]) == (2, ends[-1])
    assert len(behind) > len(frames)
    shorter = {name: records_of(name) for name in NAMES}
    longer = {**shorter, "a": (*records_of("a"), silent("a", 6))}
    assert await look(copy, data, log) == longer
    elsewhere = (bytes(FRAME), b"from a disk".ljust(FRAME, b"\0"), log[behind[0] : behind[0] + FRAME])
    for torn in range(ends[0] + FRAME, ends[1] + FRAME, FRAME):
        for content in elsewhere:
            assert await look(copy, data, log[:torn] + content + log[torn + FRAME :]) == shorter


async def test_a_damaged_snapshot_is_none(tmp_path: Path, whole: bytes) -> None:
    at = whole.rindex(b'"state":{"session_id":"a"')
    path = tmp_path / "damaged.db"
    for index in range(at, at + 40, 1 if CAMPAIGN else 9):
        found = await look(path, flipped(whole, index, 1))
        assert found == {name: stored_of(name) for name in NAMES}
        journal = SqliteJournal(path)
        assert (await journal.latest("a")).snapshot is None
        await journal.close()


async def test_without_any_snapshot_everything_is_as_before(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "without.db"
    path.write_bytes(whole)  # noqa: ASYNC240 - nobody else waits
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("DELETE FROM snapshot")
    found = await look(tmp_path / "copy.db", path.read_bytes())  # noqa: ASYNC240
    assert found == {name: stored_of(name) for name in NAMES}


async def test_a_session_goes_on_in_a_fork_from_before_what_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "agentrail.db"

    @tool
    async def send(to: str) -> str:
        """Send something."""
        return f"sent to {to}"

    calls: list[Element] = [say(calls=[call("send", {"to": to})]) for to in ("ann", "bob")]
    spec = SessionSpec(model=ScriptedModel(["one", *calls, "two"]), tools=[send])
    journal = SqliteJournal(path)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("hi")
        (stored,) = await supervisor.stored()
        await session.ask("send it")
    records = await journal.read("s")
    second = next(record.number for record in records if "bob" in repr(record.events))
    await journal.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("UPDATE record SET body = body || ' ' WHERE number = ?", (second,))
    async with open_supervisor(journal=journal) as supervisor:
        with pytest.raises(BadRecord, match=f"record {second} of session `s`"):
            await supervisor.resume("s", spec)
        fork = await supervisor.fork("s", spec, at=stored.head, id="t")
        (first,) = await journal.read("t", 0, 1)
        (event,) = [envelope.event for envelope in first.events if isinstance(envelope.event, SessionForked)]
        sent, unread = event.left_behind
        assert sent == 'send {"to":"ann"}'
        assert unread.startswith(f"whatever stood from record {second} on: record {second} of session `s`")
        assert [message.text for message in fork.messages()] == ["hi", "one"]
        last = await supervisor.fork("s", spec, at=second - 1, id="u")
        assert "sent to ann" in [message.text for message in last.messages()]
    await journal.close()
