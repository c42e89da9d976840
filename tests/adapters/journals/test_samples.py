"""What each format was written as is read, and leads to the same sessions."""

import shutil
from pathlib import Path

import pytest

from agentrail.adapters.journals.archive import import_session
from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.adapters.journals.sqlite import SqliteJournal
from agentrail.codec.misfit import MisfitError
from agentrail.codec.upcasting import FORMAT, UPCASTERS, upcast
from agentrail.core.state import Phase
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
        "has format 0, which nothing here can read",
    ]


def test_every_format_leads_to_the_newest() -> None:
    assert UPCASTERS.keys() == set(range(1, FORMAT))
