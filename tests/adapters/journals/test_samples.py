"""What each format was written as is read, and leads to the same sessions."""

import shutil
from pathlib import Path

import pytest

from agentrail.adapters.journals.archive import import_session
from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.adapters.journals.sqlite import SqliteJournal
from agentrail.codec.misfit import MisfitError
from agentrail.codec.upcasting import FORMAT, UPCASTERS, upcast
from agentrail.core.vocabulary.state import Phase
from agentrail.values.events.life import AgentAbort
from agentrail.values.json import Json
from agentrail.values.messages import AssistantMessage
from tests.adapters.journals.sampling import FOLDERS, JOURNAL, LONG, SESSION
from tests.runtime.world import rebuilt


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shutil.copytree(request.param, tmp_path / "copy")
    return tmp_path / "copy"


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


async def test_a_stored_session_is_read_and_is_the_one_of_the_journal(folder: Path) -> None:
    journal = SqliteJournal(folder / JOURNAL)
    into = MemoryJournal()
    assert await import_session(into, folder / SESSION) == "sample"
    assert await into.read("sample") == await journal.read("sample")
    await journal.close()


async def test_an_abort_of_any_format_has_its_kind_and_its_words(folder: Path) -> None:
    journal = SqliteJournal(folder / JOURNAL)
    records = await journal.read("sample")
    aborts = [each.event for record in records for each in record.events if isinstance(each.event, AgentAbort)]
    assert aborts == [AgentAbort("p6", "user", "enough")]
    await journal.close()


def test_an_abort_of_a_sub_agent_has_its_kind_too() -> None:
    old: dict[str, Json] = {"$": "AgentAbort", "ref": "p1", "reason": "user", "detail": "enough"}
    new: dict[str, Json] = {"$": "AgentAbort", "ref": "p1", "kind": "user", "reason": "enough"}

    def record(abort: Json) -> Json:
        reported: Json = {"$": "SubagentReported", "child": "s:c1", "events": [abort, {"$": "AgentStart"}]}
        told: Json = {"$": "SubAgentEvent", "call_id": "c1", "child": "s:c1", "event": abort}
        return {"arrival": {"input": reported}, "events": [{"seq": 1, "event": told}]}

    assert upcast(record(old), 2, 3) == record(new)


def test_a_snapshot_of_a_turn_that_was_aborted_tells_the_kind() -> None:
    turn: dict[str, Json] = {"ref": "p1", "ended": "aborted", "abort_reason": "deadline"}
    hook: dict[str, Json] = {"$": "AfterTurn", "outcome": "aborted", "abort_reason": "deadline"}
    old: dict[str, Json] = {"state": {"turn": turn, "suspended": [{"hook": hook}, {"hook": {"$": "BeforeFinish"}}]}}
    kind: dict[str, Json] = {"abort_kind": "deadline", "abort_reason": None}
    suspended: list[Json] = [{"hook": {**hook, **kind}}, {"hook": {"$": "BeforeFinish"}}]
    assert upcast(old, 2, 3) == {"state": {"turn": {**turn, **kind}, "suspended": suspended}}


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
        f"has format {FORMAT + 1}, which is newer than {FORMAT}; use a newer version of agentrail",
        "has format 0, which this version cannot read",
    ]


def test_every_format_leads_to_the_newest() -> None:
    assert UPCASTERS.keys() == set(range(1, FORMAT))
