"""A copy of a journal has all that the other had, is made once however often it is cut, and harms nothing there."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail import Accepted, State
from agentrail.adapters.journals.archive_reader import open_archive
from agentrail.adapters.journals.archive_writer import IS_FINISHED, ArchiveWriter, open_archive_writer
from agentrail.adapters.journals.session_copy import (
    CopiedSession,
    CopyReport,
    SessionCopier,
    SessionSource,
    SessionTarget,
    SessionTotals,
    totals_of,
)
from agentrail.errors import BadArchive, FileFailed, JournalFailed
from agentrail.journals import (
    NO_LEASE,
    Claim,
    Journal,
    Lease,
    MemoryJournal,
    Record,
    Redaction,
    SqliteJournal,
    export_session,
    import_session,
)
from agentrail.testing import World, sessions
from agentrail.testing.conformance.expected_errors import raised
from tests.insight.stories import records_of_world
from tests.kit import Setup, opened, prompted, run_of
from tests.profiles import CAMPAIGN

T = TypeVar("T")

NOW: Final = 1_000_000


class Report(CopyReport):
    """Keeps what became of each session."""

    def __init__(self) -> None:
        super().__init__()
        self.copied: dict[str, CopiedSession] = {}

    def end_session(self, copied: CopiedSession) -> None:
        super().end_session(copied)
        self.copied[copied.session_id] = copied

    @property
    def problems(self) -> dict[str, str]:
        return {name: copied.problem for name, copied in self.copied.items() if copied.problem}


async def copied(source: SessionSource, target: SessionTarget, at_once: int = 3) -> Report:
    """Copy all sessions; one after the other to a file, as the command does."""
    report = Report()
    copier = SessionCopier(source, target, lambda: NOW, report)
    await copier.copy_all(1 if isinstance(target, ArchiveWriter) else at_once)
    return report


@asynccontextmanager
async def in_sqlite(folder: Path) -> AsyncGenerator[SqliteJournal, None]:
    journal = SqliteJournal(folder / "to.db", sync="normal")
    yield journal
    await journal.close()


@asynccontextmanager
async def in_a_file(folder: Path) -> AsyncGenerator[ArchiveWriter, None]:
    async with open_archive_writer(folder / "to.jsonl") as writer:
        yield writer


Opens: TypeAlias = Callable[[Path], AbstractAsyncContextManager[SqliteJournal | ArchiveWriter]]

TARGETS: Final[tuple[Opens, ...]] = (in_sqlite, in_a_file)
"""What is copied to; a journal in a server is one more."""


async def contents(journal: SessionSource) -> dict[str, tuple[Record, ...]]:
    """Return all records by session."""
    return {stored.session_id: await journal.read(stored.session_id) for stored in await journal.sessions()}


async def check_same(source: Journal, target: Journal) -> None:
    """Compare all that the protocol shows of two journals, beside snapshots."""
    assert await target.sessions() == await source.sessions()
    assert await contents(target) == await contents(source)
    for name, records in (await contents(source)).items():
        for record in records:
            if record.command is not None:
                assert await target.answer(name, record.command) == await source.answer(name, record.command)
        for seq in range(0, len(records) + 1, 9):
            assert await target.record_of_seq(name, seq) == await source.record_of_seq(name, seq)


def child_of(parent: str, name: str, count: int) -> list[Record]:
    """Return the records of a sub-agent."""
    first, *others = run_of(name, 1, count)
    return [first.but(opening=State(name, Setup(path=("s", parent, name)), "demo")), *others]


async def write_records(journal: Journal, name: str, records: Sequence[Record]) -> Claim:
    claim = await journal.claim(name, "test")
    await journal.append(claim, 0, records)
    return claim


async def fill(journal: Journal) -> None:
    """Write sessions of several pages, with sub-agents, command ids, titles, large texts and redacted records."""
    long = prompted("large", 1, "word 🙂 " * 1_000, opening=State("large", Setup("t", owner="o"), "demo", title="T"))
    await write_records(journal, "large", [long, *run_of("large", 2, 109)])
    answered = prompted("a", 1, command="c\0", answer=Accepted("p1", "started"), due=5, at_work=True)
    await write_records(journal, "a", [answered, *run_of("a", 2, 2)])
    await write_records(journal, "kid", child_of("a", "kid", 2))
    await write_records(journal, "kid.of.kid", child_of("kid", "kid.of.kid", 1))
    await write_records(journal, "secret", [prompted("secret", n, f"canary {n}") for n in (1, 2, 3)])
    await journal.redact("secret", 1, 2, Redaction(5, "me"), "test")


@pytest.mark.long
@pytest.mark.parametrize("opens", TARGETS)
async def test_all_is_there_and_a_second_copy_adds_nothing(opens: Opens, tmp_path: Path) -> None:
    source = SqliteJournal(tmp_path / "from.db")
    await fill(source)
    for new in (119, 0):
        async with opens(tmp_path) as target:
            report = await copied(source, target)
            assert (report.problems, report.whole, report.records, report.new) == ({}, 5, 119, new)
            assert await contents(target) == await contents(source)
            assert await totals_of(target) == await totals_of(source) == SessionTotals(5, 119)
    await source.close()


@pytest.mark.long
async def test_a_copy_by_a_file_is_the_journal_again(tmp_path: Path) -> None:
    source = SqliteJournal(tmp_path / "from.db")
    await fill(source)
    async with in_a_file(tmp_path) as file:
        await copied(source, file)
    async with open_archive(tmp_path / "to.jsonl") as file, in_sqlite(tmp_path) as target:
        await copied(file, target)
        await check_same(source, target)
        assert await target.delete("a", "test", NOW) == 3  # with the sub-agents
        assert {stored.session_id for stored in await target.sessions()} == {"large", "secret"}
    await source.close()


async def test_what_was_redacted_stays_so(tmp_path: Path) -> None:
    source = SqliteJournal(tmp_path / "from.db")
    await fill(source)
    for opens in TARGETS:
        async with opens(tmp_path) as target:
            await copied(source, target)
    for file in ("to.db", "to.jsonl"):
        stored = (tmp_path / file).read_bytes()
        assert [canary in stored for canary in (b"canary 1", b"canary 2", b"canary 3")] == [False, False, True]
    async with in_sqlite(tmp_path) as target:
        assert [record.redacted is None for record in await target.read("secret")] == [False, False, True]
        assert await target.redact("secret", 1, 3, Redaction(6, "me"), "test") == 1
    await source.close()


@pytest.mark.long
@settings(max_examples=300 if CAMPAIGN else 8)
@given(sessions(), st.lists(st.tuples(st.integers(1, 250), st.integers(0, 250)), max_size=3))
async def test_any_session_is_the_same_wherever_a_copy_of_it_had_come(
    world: World, others: list[tuple[int, int]]
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        source = SqliteJournal(folder / "from.db", sync="normal")
        await write_records(source, "s", records_of_world(world))
        for number, (count, _) in enumerate(others):
            await opened(source, f"other-{number}", count)
        async with in_sqlite(folder) as target:
            for number, (count, there) in enumerate(others):
                if there:
                    await opened(target, f"other-{number}", min(count, there))
            assert (await copied(source, target)).problems == {}
            await check_same(source, target)
        async with in_a_file(folder) as file:
            assert (await copied(source, file)).problems == {}
        async with open_archive(folder / "to.jsonl") as file:
            memory = MemoryJournal(encode=True)
            assert (await copied(file, memory)).problems == {}
            await check_same(source, memory)
        await source.close()


class Cut:
    """Passes calls on to a target, until the one with this number."""

    def __init__(self, target: SessionTarget, calls: int, *, after: bool) -> None:
        self._target = target
        self._calls = calls
        self._after = after

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        self._calls -= 1
        if self._calls < 0 and not self._after:
            raise JournalFailed("write", "it was cut")
        result = await call()
        if self._calls < 0:
            raise JournalFailed("write", "it was cut")
        return result

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        return await self._target.read(session_id, after, limit)

    async def claim(self, session_id: str, holder: str, lease: Lease = NO_LEASE) -> Claim:
        return await self._call(lambda: self._target.claim(session_id, holder, lease))

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        return await self._call(lambda: self._target.append(claim, expected, records))

    async def release(self, claims: Sequence[Claim]) -> None:
        await self._call(lambda: self._target.release(claims))


@pytest.mark.parametrize("after", [False, True])
async def test_a_copy_that_was_cut_anywhere_goes_on(after: bool) -> None:
    source = MemoryJournal()
    for name, count in (("a", 3), ("b", 250), ("c", 1)):
        await opened(source, name, count)
    for calls in range(11):
        target = MemoryJournal()
        await raised(JournalFailed, copied(source, Cut(target, calls, after=after)))
        report = await copied(source, target)
        assert (report.problems, report.whole, report.records) == ({}, 3, 254)
        await check_same(source, target)
    assert (await copied(source, Cut(MemoryJournal(), 11, after=after))).problems == {}


@pytest.mark.parametrize("calls", [0, 1, 2, 4, 6, 8])
async def test_a_file_that_was_cut_becomes_the_same_file(calls: int, tmp_path: Path) -> None:
    source = MemoryJournal()
    for name, count in (("a", 3), ("b", 150), ("c", 1)):
        await opened(source, name, count)
    for folder in ("whole", "cut"):
        (tmp_path / folder).mkdir()
    async with in_a_file(tmp_path / "whole") as file:
        await copied(source, file)
    with suppress(JournalFailed):
        async with in_a_file(tmp_path / "cut") as file:
            await copied(source, Cut(file, calls, after=True), at_once=1)
    assert [file.name for file in (tmp_path / "cut").iterdir()] == ["to.jsonl.part"]
    async with in_a_file(tmp_path / "cut") as file:
        assert (await copied(source, file)).problems == {}
    assert (tmp_path / "cut" / "to.jsonl").read_bytes() == (tmp_path / "whole" / "to.jsonl").read_bytes()
    assert [file.name for file in (tmp_path / "cut").iterdir()] == ["to.jsonl"]


async def test_each_cut_of_the_unfinished_file_is_gone_on_with(tmp_path: Path) -> None:
    source = MemoryJournal()
    for name in ("a", "b"):
        await opened(source, name, 1)
    async with in_a_file(tmp_path) as file:
        await copied(source, file)
    whole, part = tmp_path / "to.jsonl", tmp_path / "to.jsonl.part"
    data = whole.read_bytes()
    for length in range(0, len(data) + 1, 37):
        whole.unlink()
        part.write_bytes(data[:length])
        async with in_a_file(tmp_path) as file:
            assert (await copied(source, file)).problems == {}
        assert whole.read_bytes() == data
    whole.unlink()
    part.write_text("notes of somebody")
    assert "is not what a copy that was cut has left" in str(await raised(FileFailed, opening(tmp_path)))
    assert part.read_text() == "notes of somebody"


async def opening(folder: Path) -> None:
    async with in_a_file(folder):
        pass


async def test_two_do_not_write_one_file(tmp_path: Path) -> None:
    async with in_a_file(tmp_path):
        assert "another process writes it" in str(await raised(FileFailed, opening(tmp_path)))
    assert (tmp_path / "to.jsonl").read_bytes() == b""


async def test_a_session_that_has_gone_on_is_gone_on_with(tmp_path: Path) -> None:
    source, target = MemoryJournal(), MemoryJournal()
    claim = await opened(source, "a", 3)
    await copied(source, target)
    async with in_a_file(tmp_path) as file:
        await copied(source, file)
    await source.append(claim, 3, run_of("a", 4, 150))
    await opened(source, "b", 1)
    assert (await copied(source, target)).new == 151
    await check_same(source, target)
    before = (tmp_path / "to.jsonl").read_bytes()
    async with in_a_file(tmp_path) as file:
        report = await copied(source, file)
        assert (report.problems, report.records) == ({"a": IS_FINISHED, "b": IS_FINISHED}, 3)
    assert (tmp_path / "to.jsonl").read_bytes() == before


async def test_nothing_that_is_there_is_changed() -> None:
    source, target = MemoryJournal(), MemoryJournal()
    for name in ("differs", "longer", "held", "redacted here", "redacted there", "fine"):
        await opened(source, name, 3)
    await write_records(target, "differs", [*run_of("differs", 1, 1), prompted("differs", 2, "other")])
    await opened(target, "longer", 5)
    await target.claim("held", "host", Lease(NOW, 60_000))
    await opened(target, "redacted here", 2)
    await source.redact("redacted here", 2, 2, Redaction(5, "me"), "test")
    await opened(target, "redacted there", 2)
    await target.redact("redacted there", 1, 2, Redaction(5, "me"), "test")
    before = await contents(target)
    report = await copied(source, target)
    assert await contents(target) == {**before, "fine": run_of("fine", 1, 3)}
    problems = report.problems
    assert "is held by `host`" in problems.pop("held")
    assert problems == {
        "differs": "record 2 is there, and is another one; nothing of the session was changed",
        "redacted here": "record 2 was redacted, and is there with its texts; redact the session there too",
        "redacted there": "record 1 was redacted there, and stays so",
    }
    assert report.copied["longer"] == CopiedSession("longer", 3, 0, "")


class LiveRunner(MemoryJournal):
    """A journal in which a session goes on, or is deleted, whenever another one was read."""

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        if session_id == "a" and after == 0:
            claim = await self.claim("b", "host")
            await self.append(claim, claim.head, run_of("b", claim.head + 1, 1))
            await self.delete("c", "host", NOW)
        return await super().read(session_id, after, limit)


async def test_a_session_that_runs_is_copied_up_to_a_record() -> None:
    source, target = LiveRunner(), MemoryJournal()
    for name in ("a", "b", "c"):
        await opened(source, name, 3)
    report = await copied(source, target)
    assert report.problems == {
        "b": "it went on while it was copied; what follows record 3 is not copied",
        "c": "it was deleted while it was copied",
    }
    assert {name: len(records) for name, records in (await contents(target)).items()} == {"a": 3, "b": 3}


@pytest.mark.long
async def test_what_comes_before_damage_and_all_other_sessions_are_copied(tmp_path: Path) -> None:
    source = SqliteJournal(tmp_path / "from.db")
    for name in ("a", "b", "c"):
        await opened(source, name, 130)
    async with in_a_file(tmp_path) as file:
        await copied(source, file)
    await source.close()
    with closing(sqlite3.connect(tmp_path / "from.db")) as db, db:
        db.execute(
            "UPDATE record SET body = 'no' WHERE number = 117 AND session = (SELECT key FROM session WHERE "
            "id = CAST('b' AS BLOB))"
        )
        db.execute("UPDATE session SET head = 7 WHERE id = CAST('c' AS BLOB)")
    async with in_sqlite(tmp_path) as target:
        report = await copied(source, target)
        assert report.problems == {
            "b": "record 117 cannot be read: it has changed since it was written",
            "c": "record 7 cannot be read: it has changed since it was written",
        }
        assert {stored.session_id: stored.head for stored in await target.sessions()} == {
            "a": 130,
            "b": 116,
            "c": 6,
        }
    await source.close()
    lines = (tmp_path / "to.jsonl").read_bytes().splitlines(keepends=True)
    lines[132 + 117] = lines[132 + 117].replace(b"go on", b"go in")
    lines[264] = b"{\n"  # the head of the third session
    (tmp_path / "to.jsonl").write_bytes(b"".join(lines))
    memory = MemoryJournal()
    async with open_archive(tmp_path / "to.jsonl") as damaged:
        report = await copied(damaged, memory)
    assert {*report.problems} == {"b", "line 265"}
    assert "line 250 of" in report.problems["b"]
    assert {stored.session_id: stored.head for stored in await memory.sessions()} == {"a": 130, "b": 116}


class Forgetful(MemoryJournal):
    """A journal that answers with another record than was written."""

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        records = await super().read(session_id, after, limit)
        return tuple([prompted(session_id, 2, "other") if record.number == 2 else record for record in records])


async def test_what_was_written_is_read_back() -> None:
    source = MemoryJournal()
    await opened(source, "a", 3)
    report = await copied(source, Forgetful())
    assert report.problems == {"a": "record 2 was written, but is another one when it is read"}


async def test_files_one_after_the_other_are_one_file(tmp_path: Path) -> None:
    source, target = MemoryJournal(), MemoryJournal()
    for name in ("b", "a"):
        await opened(source, name, 3)
        await export_session(source, name, tmp_path / name)
    (tmp_path / "both").write_bytes((tmp_path / "b").read_bytes() + (tmp_path / "a").read_bytes())
    async with open_archive(tmp_path / "both") as both:
        assert (await copied(both, target)).problems == {}
    await check_same(source, target)
    error = await raised(BadArchive, import_session(MemoryJournal(), tmp_path / "both"))
    assert "line 6: it begins a second session" in str(error)
    (tmp_path / "both").write_bytes((tmp_path / "b").read_bytes() * 2)
    async with open_archive(tmp_path / "both") as both:
        report = await copied(both, MemoryJournal())
    assert report.copied["b"] == CopiedSession(
        "b", 3, 3, "line 6: it begins a session that was in an earlier line already"
    )
