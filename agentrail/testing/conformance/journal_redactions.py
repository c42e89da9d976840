"""Tests of redacting records, which `JournalConformance` inherits."""

# ruff: noqa: PLR2004, S101 - these are tests

from __future__ import annotations

from types import MappingProxyType

from agentrail.core.vocabulary.changes import Appended, Change, ChangedTools
from agentrail.core.vocabulary.commands import Accepted, PromptSent
from agentrail.core.vocabulary.state import Attached, Setup, State
from agentrail.errors import Fenced, SessionHeld
from agentrail.ports.journal import Journal, Lease, Record, Redaction, Snapshot, folded
from agentrail.testing.conformance.journal_deletions import NOBODY, DeletionConformance
from agentrail.testing.conformance.journal_samples import opened, prompted, refused, run_of
from agentrail.values.content import Text
from agentrail.values.json import EMPTY
from agentrail.values.messages import ToolMessage, UserMessage
from agentrail.values.tools import ToolSpec

NOTE = Redaction(1000, "the desk for privacy")
PRIVATE = "what nobody may know"


def told(session_id: str, number: int, text: str = PRIVATE) -> Record:
    """Return a record of a prompt, which is also in its change and has a command id."""
    change = Change(history=Appended((UserMessage((Text(text),)),)), seq=number)
    accepted = Accepted(f"p{number}", "started")
    record = prompted(session_id, number, text, change=change, command=f"c{number}", answer=accepted)
    return record.but(opening=State(session_id, Setup(), "demo") if number == 1 else None)


def text_of(record: Record) -> str:
    """Return the text of a record's prompt."""
    assert isinstance(record.arrival.input, PromptSent)
    (part,) = record.arrival.input.parts
    assert isinstance(part, Text)
    return part.text


class RedactionConformance(DeletionConformance):
    """Tests of `redact`."""

    async def test_texts_are_replaced_and_nothing_else(self, journal: Journal) -> None:
        """A mark stands for each text of the range; the records say when and by whom, and others are as they were."""
        claim = await journal.claim("s", "test")
        records = [told("s", number) for number in range(1, 101)]
        await journal.append(claim, 0, records)
        assert await journal.redact("s", 20, 60, NOTE, NOBODY) == 41
        for _ in range(2):
            found = await journal.read("s")
            assert [record.number for record in found] == list(range(1, 101))
            for was, now in zip(records, found, strict=True):
                if 20 <= was.number <= 60:
                    assert (now.redacted, PRIVATE in repr(now)) == (NOTE, False)
                    assert (now.events, now.command, now.answer) == (was.events, was.command, was.answer)
                else:
                    assert now == was
            journal = await self.again(journal)

    async def test_a_redacted_session_comes_back_by_its_changes(self, journal: Journal) -> None:
        """The changes of redacted records can be folded, and lead to a history of the same length."""
        claim = await journal.claim("s", "test")
        await journal.append(claim, 0, [told("s", number) for number in range(1, 31)])
        await journal.redact("s", 1, 30, NOTE, NOBODY)
        first, *others = await journal.read("s")
        assert first.opening is not None
        state = folded(first.opening, first)
        for record in others:
            state = folded(state, record)
        assert len(state.history) == 30
        assert PRIVATE not in repr(list(state.history))

    async def test_who_wrote_before_is_refused_and_the_session_goes_on(self, journal: Journal) -> None:
        """After a redaction, an earlier claim is refused, snapshots are gone, and a new claim goes on at the head."""
        claim = await opened(journal, "s", lease=Lease(1000, 500))
        await journal.keep(claim, Snapshot("s", 3, State("s", Setup(PRIVATE), "demo")))
        assert await journal.redact("s", 1, 2, NOTE, "test") == 2
        assert (await journal.latest("s")).snapshot is None
        assert await journal.renew([claim], Lease(1100, 500)) == (claim,)
        await refused(Fenced, journal.append(claim, 3, run_of("s", 4, 1)))
        await refused(Fenced, journal.keep(claim, Snapshot("s", 3, State("s", Setup(PRIVATE), "demo"))))
        claim = await journal.claim("s", "test")
        assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4
        journal = await self.again(journal)
        assert (await journal.read("s"))[2:] == run_of("s", 3, 2)

    async def test_a_redaction_can_be_repeated(self, journal: Journal) -> None:
        """Records that were redacted keep their note; a range may reach beyond the last record, or be empty."""
        await opened(journal, "s")
        assert await journal.redact("s", 0, 2, NOTE, NOBODY) == 2
        later = Redaction(2000, "another")
        assert await journal.redact("s", 1, 1000, later, NOBODY) == 1
        assert [record.redacted for record in await journal.read("s")] == [NOTE, NOTE, later]
        assert await journal.redact("s", 4, 9, later, NOBODY) == 0
        assert await journal.redact("s", 3, 1, later, NOBODY) == 0
        assert await journal.redact("none", 1, 9, later, NOBODY) == 0
        assert [one.session_id for one in await journal.sessions()] == ["s"]

    async def test_names_of_tools_stay_if_a_tool_of_the_session_has_had_them(self, journal: Journal) -> None:
        """A call by another name is one that the model made up; tools may come and go outside of the range."""
        claim = await journal.claim("s", "test")
        tools = MappingProxyType({"first": Attached(ToolSpec("first", "", EMPTY), 1)})
        later = Change(tools=ChangedTools((), MappingProxyType({"second": Attached(ToolSpec("second", "", EMPTY), 2)})))
        called = tuple(ToolMessage(f"c{name}", name, ()) for name in ("first", "second", PRIVATE))
        records = [
            told("s", 1).but(opening=State("s", Setup(), "demo", tools=tools)),
            told("s", 2).but(change=Change(tools=ChangedTools(("first",), MappingProxyType({})))),
            told("s", 3).but(change=Change(history=Appended(called))),
            told("s", 4).but(change=later),
        ]
        await journal.append(claim, 0, records)
        await journal.redact("s", 3, 3, NOTE, NOBODY)
        (found,) = await journal.read("s", 2, 1)
        assert isinstance(found.change.history, Appended)
        assert [one.name for one in found.change.history.messages if isinstance(one, ToolMessage)] == [
            "first",
            "second",
            "[redacted]",
        ]

    async def test_a_title_is_redacted_with_the_record_that_gave_it(self, journal: Journal) -> None:
        """The list of sessions shows a mark for the title, if a record of the range has given it; labels stay."""
        for name in ("s", "t"):
            opening = State(name, Setup(), "demo", title=PRIVATE, labels=("urgent",))
            first = prompted(name, 1, opening=opening)
            await journal.append(await journal.claim(name, "test"), 0, (first, prompted(name, 2)))
        await journal.redact("s", 1, 1, NOTE, NOBODY)
        await journal.redact("t", 2, 2, NOTE, NOBODY)
        journal = await self.again(journal)
        one, other = await journal.sessions()
        assert (PRIVATE in one.about.title, one.about.labels) == (False, ("urgent",))
        assert (other.about.title, other.about.labels) == (PRIVATE, ("urgent",))

    async def test_what_somebody_holds_is_not_redacted(self, journal: Journal) -> None:
        """While a session is held, another holder's call is refused, and nothing is changed."""
        claim = await opened(journal, "s", lease=Lease(900, 500))
        error = await refused(SessionHeld, journal.redact("s", 1, 3, NOTE, "another"))
        assert error.args == ("s", "test", 1400)
        assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4
        assert await journal.read("s") == run_of("s", 1, 4)

    async def test_what_another_session_says_too_stays(self, journal: Journal) -> None:
        """A long text that is replaced in one session is still read in another, and in the rest of its own."""
        long = "word " * 50_000
        for name in ("s", "t"):
            await journal.append(await journal.claim(name, "test"), 0, [told(name, n, long) for n in (1, 2)])
        await journal.redact("s", 1, 1, NOTE, NOBODY)
        journal = await self.again(journal)
        assert [text_of(record) == long for record in await journal.read("s")] == [False, True]
        assert [text_of(record) == long for record in await journal.read("t")] == [True, True]
        await journal.redact("s", 2, 2, NOTE, NOBODY)
        await journal.delete("s", NOBODY, 0)
        assert [text_of(record) == long for record in await journal.read("t")] == [True, True]

    async def test_commands_of_redacted_records_are_known(self, journal: Journal) -> None:
        """An answer is still found by its command id, so that no command is carried out twice."""
        claim = await journal.claim("s", "test")
        await journal.append(claim, 0, [told("s", 1), told("s", 2)])
        await journal.redact("s", 1, 2, NOTE, NOBODY)
        journal = await self.again(journal)
        known = await journal.answer("s", "c2")
        assert known is not None
        assert known.answer == Accepted("p2", "started")
        assert PRIVATE not in repr(known)
