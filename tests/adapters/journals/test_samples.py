"""What is stored in any format since the first is read and goes on, and what is written has the bytes of its format."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
import trio
from attrs import evolve

from agentrail import open_supervisor
from agentrail.adapters.journals import packing
from agentrail.adapters.journals.packing import PackedRecord, UnpackError, pack, unpack, unpack_snapshot
from agentrail.adapters.journals.stored_form import StoredRecord
from agentrail.adapters.journals.text_dedup import share_texts
from agentrail.codec.decode_error import MisfitError
from agentrail.codec.json_text import from_text, to_text
from agentrail.codec.plugin_states import Stored
from agentrail.codec.values import write
from agentrail.codec.versions import FORMAT, UPCASTERS, upcast
from agentrail.events import AgentAbort, AgentEnd
from agentrail.journals import MemoryJournal, Snapshot, SqliteJournal, export_session, import_session
from agentrail.models import AssistantMessage, Json, ToolMessage
from agentrail.plugins import BeforeTool, BudgetGuard
from agentrail.plugins.budget import Spent
from agentrail.values.value import Value
from agentrail.version import __version__
from tests.adapters.journals.sampling import (
    ASKING,
    EQUIPPED,
    JOURNAL,
    LONG,
    NEWEST,
    READ,
    SESSION,
    curious,
    equipped,
    make,
    make_asking,
    make_equipped,
)
from tests.kit import Phase, Verdict
from tests.runtime.world import rebuilt

USE = "use the agentrail that has written it"
AGAIN = "raise `versions.FORMAT` and add an upcaster; until the first release, make the samples anew: see `sampling`"


@pytest.fixture(params=[None, *READ], ids=lambda folder: "new" if folder is None else folder.name)
async def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of a stored sample, or one that is made now."""
    if request.param is None:
        await make(tmp_path)
        await make_asking(tmp_path)
        await make_equipped(tmp_path)
        return tmp_path
    return Path(shutil.copytree(request.param, tmp_path / "copy"))


@pytest.mark.long
async def test_a_stored_journal_is_read_and_goes_on(folder: Path) -> None:
    journal = SqliteJournal(folder / JOURNAL)
    assert [stored.session_id for stored in await journal.sessions()] == ["other", "sample"]
    for stored in await journal.sessions():
        state = await rebuilt(journal, stored.session_id)
        assert (stored.ended, state.phase) == (True, Phase.ENDED)
        claim = await journal.claim(stored.session_id, "test")
        assert claim.head == stored.head
    last = (await rebuilt(journal, "sample")).history[-1]
    assert isinstance(last, AssistantMessage)
    assert last.text == LONG
    assert await journal.answer("sample", "c1") is not None
    await journal.close()


@pytest.mark.long
async def test_a_stored_session_is_read_and_is_the_one_of_the_journal(folder: Path) -> None:
    journal = SqliteJournal(folder / JOURNAL)
    into = MemoryJournal()
    assert await import_session(into, folder / SESSION) == "sample"
    assert await into.read("sample") == await journal.read("sample")
    await journal.close()


@pytest.mark.long
async def test_a_session_that_was_left_while_a_plugin_asked_goes_on(folder: Path) -> None:
    """What was answered is not asked again; the other questions are, unless it is too late, and each call runs."""
    asked: list[Json] = []

    async def oracle(payload: Json) -> Json:
        await trio.lowlevel.checkpoint()
        asked.append(payload)
        return None

    journal = SqliteJournal(folder / ASKING)
    paused = [run.hook for run in (await rebuilt(journal, "sample")).suspended_runs]
    left = [{"about": hook.args} for hook in paused if isinstance(hook, BeforeTool)]
    assert len(left) == 3
    async with open_supervisor(journal=journal, specs={"curious": lambda: curious(oracle, "done")}) as supervisor:
        session = await supervisor.resume("sample")
        async with session.subscribe(since=0) as events:
            async for envelope in events:
                if isinstance(envelope.event, AgentEnd):
                    break
        assert [payload for payload in asked if payload not in left] == []
        results = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
        assert results == [f"noted: number {number}" for number in range(4)]
    for record in await journal.read("sample"):
        assert None not in [ruling.pause for ruling in record.rulings if ruling.verdict is Verdict.ASK]
    await journal.close()


@pytest.mark.long
async def test_a_session_with_plugins_of_older_versions_goes_on_with_what_they_have_counted(folder: Path) -> None:
    journal = SqliteJournal(folder / EQUIPPED)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("sample", equipped())
        spent = session.inspect().plugin_state(BudgetGuard)
        assert isinstance(spent, Spent)
        assert (spent.rounds, spent.calls) == (5, 1)
        assert session.inspect().worked(0) + spent.earlier_ms > 0
        assert (await session.ask("and now?")).text == "done"
        state = session.inspect()
        assert not any(isinstance(one, Stored) for one in state.plugin_states)
        now = state.plugin_state(BudgetGuard)
        assert isinstance(now, Spent)
        assert now.rounds > spent.rounds
        assert now == evolve(spent, rounds=now.rounds, calls=2)
    await journal.close()


@pytest.mark.long
async def test_an_abort_has_its_kind_and_its_words(folder: Path) -> None:
    journal = SqliteJournal(folder / JOURNAL)
    records = await journal.read("sample")
    aborts = [each.event for record in records for each in record.events if isinstance(each.event, AgentAbort)]
    assert aborts == [AgentAbort("p6", "user", "enough")]
    await journal.close()


def stored(path: Path) -> list[tuple[type[StoredRecord | Snapshot], PackedRecord]]:
    """Return the records and snapshots in the journal *path*, with their classes."""
    with closing(sqlite3.connect(path)) as db:
        blobs = dict(db.execute("SELECT digest, content FROM blob").fetchall())
        return [
            (cls, PackedRecord(body, {name: blobs[name] for name in names.split()}, form))
            for cls, table in ((StoredRecord, "record"), (Snapshot, "snapshot"))
            for body, names, form in db.execute(f"SELECT body, blobs, format FROM {table}")  # noqa: S608
        ]


def in_order(value: object) -> object:
    """Return JSON with the texts of each array sorted: those of a set have no order."""
    if isinstance(value, dict):
        return [(name, in_order(inner)) for name, inner in cast("dict[str, object]", value).items()]
    if isinstance(value, list):
        items = [in_order(item) for item in cast("list[object]", value)]
        return sorted(items, key=str) if all(isinstance(item, str) for item in items) else items
    return value


def as_value(cls: type[StoredRecord | Snapshot], packed: PackedRecord) -> Value:
    """Return what *packed* holds, in its stored form."""
    return packing._unpack(cls, packed)  # type: ignore[type-var]  # noqa: SLF001


def check_same(now: bytes, sample: bytes) -> None:
    """Check that today's body has each key of the sample at its place, and each value."""
    assert in_order(json.loads(now)) == in_order(json.loads(sample)), AGAIN


@pytest.mark.parametrize("name", [JOURNAL, ASKING, EQUIPPED])
def test_what_a_sample_holds_is_what_is_written_today(name: str, tmp_path: Path) -> None:
    values = stored(Path(shutil.copytree(NEWEST, tmp_path / "sample")) / name)
    assert {packed.format for _, packed in values} == {FORMAT}
    for cls, packed in values:
        now = pack(cast("Snapshot", as_value(cls, packed)))
        assert (now.format, now.blobs) == (packed.format, packed.blobs), AGAIN
        check_same(now.body, packed.body)


async def test_an_exported_sample_is_what_is_exported_today(tmp_path: Path) -> None:
    journal = MemoryJournal()
    await import_session(journal, NEWEST / SESSION)
    await export_session(journal, "sample", tmp_path / SESSION)
    head, *records, end = (NEWEST / SESSION).read_bytes().splitlines()  # noqa: ASYNC240 - nobody else waits
    now, *_, last = (tmp_path / SESSION).read_bytes().splitlines()  # noqa: ASYNC240
    assert now == head, AGAIN
    assert json.loads(last).keys() == json.loads(end).keys(), AGAIN
    assert len(records) == json.loads(last)["end"]
    for line in records:
        body = line.partition(b',"record":')[2].removesuffix(b"}")
        assert b'"format":%d,"record":' % FORMAT in line, AGAIN
        check_same(share_texts(write(as_value(StoredRecord, PackedRecord(body, {})))), body)


@pytest.mark.parametrize("read", [lambda packed: unpack(packed, "s", 1), unpack_snapshot], ids=["record", "snapshot"])
@pytest.mark.parametrize("form", [0, FORMAT + 1], ids=["older", "newer"])
def test_a_value_of_another_format_is_refused_whatever_it_says(
    read: Callable[[PackedRecord], object], form: int
) -> None:
    with pytest.raises(UnpackError, match=f"has format {form}, and agentrail {__version__}"):
        read(PackedRecord(to_text(from_text("{}")).encode(), {}, form))


def test_older_formats_are_made_newer_step_by_step() -> None:
    upcasters = {1: lambda data: [data, "two"], 2: lambda data: [data, "three"]}
    assert upcast("one", 1, 3, upcasters) == [["one", "two"], "three"]
    assert upcast("two", 2, 3, upcasters) == ["two", "three"]
    assert upcast("three", 3, 3, upcasters) == "three"


def test_a_format_that_nothing_here_reads_says_so() -> None:
    problems = []
    for found in (FORMAT + 1, 0):
        try:
            upcast("?", found)
        except MisfitError as error:
            problems.append(error.problem)
    assert problems == [
        f"has format {FORMAT + 1}, and agentrail {__version__} knows formats up to {FORMAT}; use a newer agentrail",
        f"has format 0, and agentrail {__version__} reads formats from 1 on; {USE}",
    ]


def test_every_format_since_the_first_leads_to_the_newest() -> None:
    assert UPCASTERS.keys() == set(range(1, FORMAT))
