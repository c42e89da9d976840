"""Tests of what every journal must do. Inherit the class, and give it a `journal` fixture that returns an empty one.

    class TestMine(JournalConformance):
        @pytest.fixture
        async def journal(self) -> AsyncIterator[Journal]:
            journal = MyJournal(...)
            yield journal
            await journal.close()

The tests are async functions for pytest-trio. For a journal that outlives its process, override `again` too, so that
records are written with one object and read with another.
"""

# ruff: noqa: PLR2004, S101 - these are tests

from __future__ import annotations

import math
import random

import trio

from agentrail.core.vocabulary.changes import Appended, Change
from agentrail.core.vocabulary.commands import Accepted, PromptSent
from agentrail.core.vocabulary.inputs import Arrival, TimerFired
from agentrail.core.vocabulary.state import Phase, Setup, State
from agentrail.errors import AgentrailError, BadRecord, Fenced
from agentrail.ports.journal import Journal, Latest, Record, Snapshot, StoredAnswer
from agentrail.testing.conformance.journal_redactions import RedactionConformance
from agentrail.testing.conformance.journal_samples import opened, prompted, refused, run_of, silent
from agentrail.values.content import Text, ToolCall
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.life import AgentStart
from agentrail.values.json import FrozenObject, freeze_object
from agentrail.values.messages import AssistantMessage, History, UserMessage


class JournalConformance(RedactionConformance):
    """Tests of claims, records, answers, lists and snapshots, with concurrent and cancelled calls."""

    # Records

    async def test_what_is_written_is_read(self, journal: Journal) -> None:
        """`read` returns records in order, from any number on, up to the limit."""
        claim = await opened(journal, "s")
        assert await journal.append(claim, 3, run_of("s", 4, 300)) == 303
        journal = await self.again(journal)
        assert await journal.read("s", 0, 1000) == run_of("s", 1, 303)
        assert await journal.read("s", 3, 2) == run_of("s", 4, 2)
        assert await journal.read("s", 302) == run_of("s", 303, 1)
        assert await journal.read("s", 150, 120) == run_of("s", 151, 120)
        assert await journal.read("s", 303) == ()
        assert await journal.read("s", 0, 0) == ()

    async def test_of_a_session_that_is_not_there_nothing_is_read(self, journal: Journal) -> None:
        """Reading a session without records is no error, and a claim alone stores no session."""
        for _ in range(2):
            assert await journal.read("s") == ()
            assert await journal.place("s", 5) == 0
            assert await journal.answer("s", "c") is None
            assert (await journal.latest("s")).snapshot is None
            assert await journal.sessions() == ()
            assert (await journal.claim("s", "test")).head == 0

    async def test_all_fields_of_a_record_are_kept(self, journal: Journal) -> None:
        """Each field of a record is read as it was written, also the state in the first record."""
        setup = Setup("be brief", user_data=FrozenObject({"tenant": "é"}))
        more: dict[str, object] = {
            "effects": ("SetTimer", "StartCall"),
            "change": Change(phase=Phase.IDLE, history=Appended((UserMessage((Text("é"),)),)), stopping=None),
            "due": 5,
            "began": "r1",
            "command": "c",
            "answer": Accepted("p1", "started"),
            "opening": State("s", setup, "demo"),
            "at_work": True,
        }
        record = prompted("s", 1, "go on", **more)
        await journal.append(await journal.claim("s", "test"), 0, [record])
        journal = await self.again(journal)
        assert await journal.read("s") == (record,)

    async def test_any_text_of_any_size_is_kept(self, journal: Journal) -> None:
        """Odd, long and equal texts are kept, also those that look like the journal's own format."""
        long = "word 🙂 " * 50_000
        args = freeze_object({"$blob": "x", "$blob.": {"$blob": long, "$": "y"}, "plain": [long, long]})
        message = AssistantMessage((Text(long), Text("\0\u2028\x7f\\ud800\"'")), (ToolCall("c1", "tool", args),))
        state = State("s", Setup(long), "demo", history=History((UserMessage((Text("x"),)), message)))
        records = (
            prompted("s", 1, "first", opening=state),
            prompted("s", 2, long),
            prompted("s", 3, "$blob"),
            prompted("s", 4, long),
        )
        claim = await journal.claim("s", "test")
        await journal.append(claim, 0, records)
        await journal.keep(claim, Snapshot("s", 4, state))
        journal = await self.again(journal)
        assert await journal.read("s") == records
        assert (await journal.latest("s")).snapshot == Snapshot("s", 4, state)

    async def test_records_are_written_all_or_none(self, journal: Journal) -> None:
        """If one record of an `append` is refused, none of them is written."""
        claim = await opened(journal, "s")
        for wrong in (prompted("s", 6), prompted("s", 4), prompted("other", 5)):
            await refused(BadRecord, journal.append(claim, 3, (prompted("s", 4), wrong)))
        assert await journal.append(claim, 3, ()) == 3
        assert await journal.read("s") == run_of("s", 1, 3)
        assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4

    # Many at a time

    async def test_what_many_sessions_write_at_the_same_time_stays_apart(self, journal: Journal) -> None:
        """Concurrent writes of many sessions do not mix, and a refused one does not harm the others."""
        names = [f"s{number}" for number in range(20)]
        claims = {name: await journal.claim(name, "test") for name in names}
        await journal.claim("s7", "another")

        async def write(name: str) -> None:
            for head in range(10):
                if name == "s7":
                    await refused(Fenced, journal.append(claims[name], 0, run_of(name, 1, 1)))
                else:
                    assert await journal.append(claims[name], head, run_of(name, head + 1, 1)) == head + 1

        async with trio.open_nursery() as nursery:  # noqa: TID251 - a test
            for name in names:
                nursery.start_soon(write, name)
        journal = await self.again(journal)
        for name in names:
            assert await journal.read(name) == (() if name == "s7" else run_of(name, 1, 10))

    async def test_whatever_order_writers_come_in_no_number_is_missing_or_doubled(self, journal: Journal) -> None:
        """Three writers claim and append to two sessions at random; the records stay numbered without gaps."""
        chance = random.Random(1)  # noqa: S311 - a test
        heads = {"a": 0, "b": 0}

        async def write() -> None:
            for _ in range(20):
                name = chance.choice("ab")
                claim = await journal.claim(name, "test")
                head = claim.head
                for _ in range(chance.randrange(4)):
                    count = chance.randrange(3)
                    try:
                        head = await journal.append(claim, head, run_of(name, head + 1, count))
                    except Fenced:
                        break
                    heads[name] = max(heads[name], head)

        async with trio.open_nursery() as nursery:  # noqa: TID251 - a test
            for _ in range(3):
                nursery.start_soon(write)
        for name, head in heads.items():
            assert await journal.read(name) == run_of(name, 1, head)

    async def test_whoever_is_cancelled_knows_what_has_happened(self, journal: Journal) -> None:
        """A call that is cancelled has written nothing; one that returns has written everything."""
        claim = await journal.claim("s", "test")
        head = 0
        for number in range(60):
            returned = None
            with trio.CancelScope() as scope:
                if number % 3 == 0:
                    scope.cancel()

                async def cancel(passes: int = number % 5, scope: trio.CancelScope = scope) -> None:
                    for _ in range(passes):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()

                async with trio.open_nursery() as nursery:  # noqa: TID251 - a test
                    nursery.start_soon(cancel)
                    returned = await journal.append(claim, head, run_of("s", head + 1, 1))
            assert len(await journal.read("s")) == (head if returned is None else head + 1)
            head = head if returned is None else returned

    # Answers and lists

    async def test_what_a_command_was_answered_is_known(self, journal: Journal) -> None:
        """`answer` returns the stored command and answer, for each session separately."""
        for name, ref in (("s", "p1"), ("t", "p9")):
            claim = await opened(journal, name)
            answered = prompted(name, 4, f"to {name}", command="c", answer=Accepted(ref, "started"))
            await journal.append(claim, 3, (answered, prompted(name, 5, command="d")))
        journal = await self.again(journal)
        for name, ref in (("s", "p1"), ("t", "p9")):
            asked = PromptSent((Text(f"to {name}"),))
            assert await journal.answer(name, "c") == StoredAnswer(asked, Accepted(ref, "started"))
            assert await journal.answer(name, "d") is None
            assert await journal.answer(name, "e") is None

    async def test_an_answer_is_known_as_long_as_its_session_is(self, journal: Journal) -> None:
        """An answer is found after a thousand others, and after the journal was opened again."""
        claim = await opened(journal, "s", 0)
        records = [prompted("s", n, command=f"c{n}", answer=Accepted(f"p{n}", "started")) for n in range(1, 1202)]
        await journal.append(claim, 0, records)
        journal = await self.again(journal)
        for number in (1, 2, 600, 1201):
            known = await journal.answer("s", f"c{number}")
            assert known is not None
            assert known.answer == Accepted(f"p{number}", "started")
        assert await journal.answer("s", "c1202") is None

    async def test_the_place_of_an_event_is_found(self, journal: Journal) -> None:
        """`place` returns the number of the last record whose events all come up to the given event."""
        seqs = ((1,), (), (2, 3, 4), (), (), (5,), (6, 7), ())
        claim = await journal.claim("s", "test")
        records: list[Record] = []
        for number, each in enumerate(seqs, 1):
            envelopes = tuple(Envelope("s", seq, 0, 0, 1, 1, AgentStart("p1")) for seq in each)
            records.append(silent("s", number).but(events=envelopes))
        await journal.append(claim, 0, records)
        found = [await journal.place("s", seq) for seq in range(10)]
        assert found == [0, 2, 2, 2, 5, 6, 6, 8, 8, 8]

    # Snapshots

    async def test_the_last_snapshot_is_found(self, journal: Journal) -> None:
        """`latest` returns the last snapshot of its session, and none of another session."""
        claim = await opened(journal, "s")
        await opened(journal, "t")
        await journal.keep(claim, Snapshot("s", 1, State("s", Setup(), "demo")))
        kept = Snapshot("s", 2, State("s", Setup(), "demo", phase=Phase.IDLE, serial=7))
        await journal.keep(claim, kept)
        journal = await self.again(journal)
        assert (await journal.latest("s")).snapshot == kept
        assert (await journal.latest("t")).snapshot is None

    async def test_a_snapshot_and_the_records_after_it_are_read_together(self, journal: Journal) -> None:
        """`latest` returns the records after the snapshot, up to the given one; of no session, it returns nothing."""
        claim = await opened(journal, "s", 300)
        assert await journal.latest("s", 4, 3) == Latest(None, run_of("s", 1, 3))
        kept = Snapshot("s", 20, State("s", Setup(), "demo"))
        await journal.keep(claim, kept)
        journal = await self.again(journal)
        assert await journal.latest("s") == Latest(kept, run_of("s", 21, 280))
        assert await journal.latest("s", 300, 100) == Latest(kept, run_of("s", 21, 100))
        assert await journal.latest("s", 300, 120) == Latest(kept, run_of("s", 21, 120))
        assert await journal.latest("s", 23) == Latest(kept, run_of("s", 21, 3))
        assert await journal.latest("s", 123, 1000) == Latest(kept, run_of("s", 21, 103))
        assert await journal.latest("s", 20) == Latest(kept, ())
        assert await journal.latest("s", 19) == Latest(None, run_of("s", 1, 19))
        assert await journal.latest("s", 301, 0) == Latest(kept, ())
        assert await journal.latest("t") == Latest(None, ())

    async def test_a_snapshot_of_no_record_is_refused(self, journal: Journal) -> None:
        """A snapshot of a missing record, or of another session, is refused."""
        claim = await opened(journal, "s")
        state = State("s", Setup(), "demo")
        for wrong in (Snapshot("s", 4, state), Snapshot("s", 0, state), Snapshot("t", 3, state)):
            await refused(BadRecord, journal.keep(claim, wrong))

    # The end

    async def test_a_closed_journal_opens_again(self, journal: Journal) -> None:
        """`close` loses no records, may be called twice, and the next call opens the journal again."""
        claim = await opened(journal, "s")
        for head in range(3, 6):
            await journal.close()
            await journal.close()
            assert await journal.append(claim, head, run_of("s", head + 1, 1)) == head + 1
        assert await journal.read("s") == run_of("s", 1, 6)


class StrictConformance:
    """Test for journals that serialise: a value that JSON cannot hold is refused before anything is written."""

    async def test_what_json_cannot_hold_is_refused(self, journal: Journal) -> None:
        """An `append` with a value that JSON cannot hold raises and writes nothing; the next one works."""
        claim = await opened(journal, "s")
        good = prompted("s", 4)
        for bad in (
            prompted("s", 5, "half a pair: \ud800"),
            good.but(number=5, arrival=Arrival(TimerFired("t"), 1, math.nan)),
            good.but(number=5, arrival=Arrival(TimerFired("t"), 2**64)),
            good.but(number=5, effects=(7,)),
            good.but(number=5, change=Change(crashed="half a pair: \ud800")),
        ):
            await refused(AgentrailError, journal.append(claim, 3, (good, bad)))
        assert await journal.append(claim, 3, [good]) == 4
        assert await journal.read("s", 3) == (good,)
