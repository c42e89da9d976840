"""An audit makes the steps of a stored session again: with the code that wrote it, nothing differs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.core.machine import endings
from agentrail.core.machine.draft import StepDraft
from agentrail.errors import BadRecord, SessionNotStored
from agentrail.events import Intervention, PrefixChanged
from agentrail.journals import Journal, MemoryJournal, SqliteJournal, audit
from agentrail.models import History, Message, Text, UserMessage
from agentrail.testing import ScriptedModel
from tests.adapters.journals.sampling import JOURNAL, make
from tests.kit import Phase


def user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    """Return the journal of the sample: with a held call, an abort, a long text and a session stopped at once."""
    await make(tmp_path)
    journal = SqliteJournal(tmp_path / JOURNAL)
    yield journal
    await journal.close()


@pytest.mark.long
async def test_the_code_that_wrote_a_session_does_nothing_otherwise(journal: Journal) -> None:
    assert (await audit(journal, "sample"), await audit(journal, "other")) == ((), ())


async def test_an_event_that_is_not_stored_any_more_is_no_difference() -> None:
    """Records of format 5 have `PrefixChanged` among their events, and its number."""
    journal, older = MemoryJournal(), MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        await (await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"])), "s")).ask("go")
    *before, last = await journal.read("s")
    first, *others = last.events
    told = first.but(event=PrefixChanged("tool", "edit", "Editor", 7))
    moved = [envelope.but(seq=envelope.seq + 1) for envelope in (first, *others)]
    seq = moved[-1].seq
    last = last.but(events=(told, *moved), change=last.change.but(last_seq=seq))
    await older.append(await older.claim("s", "test"), 0, (*before, last))
    assert await audit(older, "s") == ()


async def test_other_code_is_found_by_record_and_field_and_the_session_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fault of the design before: with one event more, no stored session came back."""
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel(["fine", "well"]))
        await (await supervisor.spawn(spec, "s")).ask("go")
    over = endings.turn_over

    def one_event_more(draft: StepDraft) -> None:
        draft.emit(Intervention("new", "after_turn"))
        over(draft)

    monkeypatch.setattr(endings, "turn_over", one_event_more)
    found = await audit(journal, "s")
    assert [one.what for one in found] == ["events", "state.last_seq"]
    assert {one.record for one in found} == {3}
    assert "Intervention" in found[0].now
    assert "Intervention" not in found[0].recorded
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec)
        assert (await session.ask("again")).text == "well"
        assert session.inspect().phase is Phase.IDLE
    assert {one.record for one in await audit(journal, "s")} == {3}


async def test_an_audit_copies_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step that added messages copied all that were there: the cost of an audit grew faster than the session."""
    journal = MemoryJournal(encode=True)
    turns = 20
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"] * turns)), "s")
        for _ in range(turns):
            await session.ask("go")
    append, equal = History.and_, History.__eq__
    copied: list[int] = []

    def watched_append(history: History, *messages: Message) -> History:
        grown = append(history, *messages)
        copied.append(len(history) if grown.added_to(history) is None else 0)
        return grown

    def watched_equal(history: History, other: object) -> bool:
        copied.append(len(history) if isinstance(other, History) and history.added_to(other) is None else 0)
        return equal(history, other)

    monkeypatch.setattr(History, "and_", watched_append)
    monkeypatch.setattr(History, "__eq__", watched_equal)
    assert await audit(journal, "s") == ()
    assert len(copied) >= 4 * turns
    assert sum(copied) <= 2


async def test_after_a_difference_an_audit_goes_on_from_what_the_records_say(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"] * 4)), "s")
        for prompt in ("first", "second", "third"):
            await session.ask(prompt)
    say = StepDraft.append_messages

    def say_otherwise(draft: StepDraft, *messages: Message) -> None:
        say(draft, *[user("2nd") if message == user("second") else message for message in messages])

    monkeypatch.setattr(StepDraft, "append_messages", say_otherwise)
    found = await audit(journal, "s")
    assert [one.what for one in found] == ["state.history"]
    assert "second" in found[0].recorded
    assert "first" not in found[0].recorded
    assert "2nd" in found[0].now


@pytest.mark.long
async def test_a_session_that_is_not_stored_has_no_audit(journal: Journal) -> None:
    with pytest.raises(SessionNotStored):
        await audit(journal, "nobody")


@pytest.mark.long
async def test_a_change_that_does_not_fit_the_session_is_a_damaged_record(journal: Journal) -> None:
    first, second = await journal.read("other")
    odd = MemoryJournal()
    await odd.append(await odd.claim("other", "test"), 0, (first, second.but(change=first.change)))
    with pytest.raises(BadRecord, match="record 2 of session `other`"):
        await audit(odd, "other")
