"""A journal in memory puts older records into pages, in which they take little."""

import math
import sys

import attrs
import pytest

from agentrail import State
from agentrail.adapters.journals import memory
from agentrail.adapters.journals.record_pages import LONG, Pages
from agentrail.journals import MemoryJournal, Record, Redaction, Snapshot
from tests.kit import Arrival, Ruling, Setup, opened, prompted, run_of


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_UNPAGED", 0)


def paged(*records: Record) -> Pages:
    pages = Pages()
    for record in records:
        pages.newest.append(record)
        assert pages.page_out(1) == 1
    assert pages.newest == []
    return pages


def test_records_in_pages_are_the_same() -> None:
    records = run_of("s", 1, 100)
    pages = paged(*records)
    assert len(pages) == 100
    assert [list(pages.after(number)) for number in range(101)] == [list(records[number:]) for number in range(101)]


def test_what_cannot_be_written_stays_as_it_is() -> None:
    odd = prompted("s", 2).but(arrival=Arrival(prompted("s", 2).arrival.input, 2, math.nan))
    long = prompted("s", 3, "x" * LONG)
    records = (prompted("s", 1), odd, long, prompted("s", 4))
    found = list(paged(*records).after(0))
    assert found[1] is odd
    assert found[2] is long
    assert (found[0], found[3]) == (records[0], records[3])
    assert list(paged(*records).after(3)) == [records[3]]


@attrs.frozen
class Costly:
    """The state of a plugin that cannot be read for want of memory."""

    item: int = 1

    def __getattribute__(self, name: str) -> object:
        if name == "item":
            raise MemoryError
        return object.__getattribute__(self, name)


def test_no_record_is_lost_if_one_cannot_be_written_for_want_of_memory() -> None:
    costly = prompted("s", 4).but(rulings=(Ruling("init", states=((0, Costly()),)),))
    records = (*run_of("s", 1, 3), costly, prompted("s", 5))
    pages = paged(*records[:2])
    pages.newest.extend(records[2:])
    for _ in range(2):
        with pytest.raises(MemoryError):
            pages.page_out(3)
        found = list(pages.after(0))
        assert len(pages) == len(found) == 5
        assert found[:3] == list(records[:3])
        assert found[3] is costly


async def test_a_record_is_in_a_page_once_others_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_UNPAGED", 4)
    journal = MemoryJournal()
    claim = await opened(journal, "a", 3)
    first = (await journal.read("a"))[0]
    assert (await journal.read("a"))[0] is first
    await opened(journal, "b", 3)
    again = (await journal.read("a"))[0]
    assert again == first
    assert again is not first
    await journal.append(claim, 3, run_of("a", 4, 2))
    assert await journal.read("a") == run_of("a", 1, 5)


async def test_a_busy_session_writes_no_page_until_too_many_records_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_IDLE_UNPAGED", 8)
    monkeypatch.setattr(memory, "MAX_UNPAGED", 64)
    journal = MemoryJournal()
    claim = await opened(journal, "s", 64)
    pages = journal._sessions["s"].pages  # noqa: SLF001 - what is kept is the point
    assert len(pages.newest) == 64
    for head in range(64, 200):
        await journal.append(claim, head, run_of("s", head + 1, 1))
        assert len(pages.newest) <= 64
    while journal.should_page_out:
        journal.page_out()
    assert 0 < len(pages.newest) <= 8
    assert await journal.read("s") == run_of("s", 1, 200)


async def test_records_of_a_session_that_is_gone_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_UNPAGED", 4)
    journal = MemoryJournal()
    for number in range(3):
        await opened(journal, f"gone{number}", 3)
        await journal.delete(f"gone{number}", "test", 0)
    await opened(journal, "s", 4)
    assert await journal.read("s") == run_of("s", 1, 4)
    assert (await journal.read("s"))[0] is (await journal.read("s"))[0]


async def test_a_redacted_record_is_taken_out_of_its_page() -> None:
    journal = MemoryJournal()
    claim = await opened(journal, "s", 3)
    pages = journal._sessions["s"].pages  # noqa: SLF001 - what is kept is the point
    await journal.redact("s", 2, 2, Redaction(5, "ann"), "test")
    assert pages._pages == ()  # noqa: SLF001
    found = await journal.read("s")
    assert [record.redacted is not None for record in found] == [False, True, False]
    claim = await journal.claim("s", "test")
    await journal.append(claim, 3, run_of("s", 4, 1))
    assert [record.redacted is not None for record in await journal.read("s")] == [False, True, False, False]


async def test_a_snapshot_is_the_same() -> None:
    journal = MemoryJournal()
    claim = await opened(journal, "s", 3)
    for text in ("short", "x" * LONG):
        snapshot = Snapshot("s", 3, State("s", Setup(text), "demo"))
        await journal.keep(claim, snapshot)
        assert (await journal.latest("s")).snapshot == snapshot


def test_a_record_of_a_short_turn_takes_little() -> None:
    pages = paged(*(prompted("s", number, f"{number:>200}") for number in range(1, 101)))
    assert sum(sys.getsizeof(page) for page in pages._pages) <= 100 * 60  # noqa: SLF001


async def test_a_redaction_of_a_session_without_records_leaves_others_be() -> None:
    journal = MemoryJournal()
    await journal.claim("empty", "test")
    assert await journal.redact("empty", 1, 1, Redaction(5, "ann"), "test") == 0
    claim = await opened(journal, "full", 1)
    await journal.append(claim, 1, run_of("full", 2, 1))
    assert await journal.read("full") == run_of("full", 1, 2)
