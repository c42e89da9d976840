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

from __future__ import annotations

import math
import random
from itertools import pairwise, product
from types import MappingProxyType

import trio

from agentrail.core.vocabulary.changes import Appended, Change, ChangedTools
from agentrail.core.vocabulary.commands import Accepted, PromptSent
from agentrail.core.vocabulary.inputs import Arrival, TimerFired
from agentrail.core.vocabulary.state import AttachedTool, Phase, Setup, State
from agentrail.errors import AgentrailError, BadRecord, Fenced, JournalUnavailable, SessionBeingDeleted, SessionHeld
from agentrail.ports.journal import (
    ALL_SESSIONS,
    NO_LEASE,
    SLOTS,
    About,
    Claim,
    Journal,
    Latest,
    Lease,
    Record,
    Redaction,
    SessionFilter,
    Snapshot,
    StoredAnswer,
    StoredSession,
    folded,
)
from agentrail.testing.conformance.expected_errors import raised
from agentrail.values.content import Text, ToolCall
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.life import AgentStart, LabelsChanged, SessionEnded
from agentrail.values.json import EMPTY, INT_MAX, INT_MIN, FrozenObject, freeze_object
from agentrail.values.messages import AssistantMessage, History, ToolMessage, UserMessage
from agentrail.values.tools import ToolSpec

# ruff: noqa: PLR2004, S101 - these are tests


def prompted(session_id: str, number: int, text: str = "go on", **more: object) -> Record:
    """Return a record of a prompt with one event; both have the number *number*.

    *more* are other fields of the record.
    """
    events = (Envelope(session_id, number, 0, number, 1, 1, AgentStart(f"p{number}")),)
    arrival = Arrival(PromptSent((Text(text),)), number, 0.5)
    return Record(session_id, number, arrival, events=events).but(**more)


def silent(session_id: str, number: int) -> Record:
    """Return a record without an event."""
    return Record(session_id, number, Arrival(TimerFired("t"), number))


def run_of(session_id: str, first: int, count: int) -> tuple[Record, ...]:
    """Return *count* records of a session, numbered from *first* on."""
    return tuple(prompted(session_id, number) for number in range(first, first + count))


async def opened(journal: Journal, session_id: str, count: int = 3, lease: Lease = NO_LEASE) -> Claim:
    """Claim a session, write its first *count* records, and return the claim."""
    claim = await journal.claim(session_id, "test", lease)
    assert await journal.append(claim, 0, run_of(session_id, 1, count)) == count
    return claim


def with_event(record: Record, event: Event) -> Record:
    """Return *record* with *event* as its only one."""
    return record.but(events=(Envelope(record.session_id, record.number, 0, 0, 0, 0, event),))


def labelled(number: int, title: str, labels: tuple[str, ...]) -> Record:
    """Return the record in which session `s` gets a title and labels."""
    record = with_event(prompted("s", number), LabelsChanged(title, labels))
    return record.but(change=record.change.but(title=title, labels=labels))


NOBODY = ""
"""A holder of no session."""


async def below(journal: Journal, session_id: str, *path: str) -> Claim:
    """Write the first record of a session whose path of parents and calls is *path*; return the claim."""
    claim = await journal.claim(session_id, "test")
    state = State(session_id, Setup(path=path), "demo")
    await journal.append(claim, 0, (prompted(session_id, 1, opening=state),))
    return claim


async def stored(journal: Journal) -> list[str]:
    """Return the ids of all stored sessions."""
    return [session.session_id for session in await journal.sessions()]


NOTE = Redaction(1000, "the desk for privacy")
PRIVATE = "what nobody may know"


def told(session_id: str, number: int, text: str = PRIVATE) -> Record:
    """Return a record of a prompt with a command id; the prompt is in its event and in its change."""
    change = Change(history=Appended((UserMessage((Text(text),)),)), last_seq=number)
    accepted = Accepted(f"p{number}", "started")
    record = prompted(session_id, number, text, change=change, command=f"c{number}", answer=accepted)
    return record.but(opening=State(session_id, Setup(), "demo") if number == 1 else None)


def text_of(record: Record) -> str:
    """Return the text of a record's prompt."""
    assert isinstance(record.arrival.input, PromptSent)
    (part,) = record.arrival.input.parts
    assert isinstance(part, Text)
    return part.text


class JournalConformance:
    """Tests of claims, records, answers, lists and snapshots, with concurrent and cancelled calls."""

    async def again(self, journal: Journal) -> Journal:
        """Return the journal as another process would open it, after closing it; override this.

        Here it is the same object.
        """
        await journal.close()
        return journal

    async def set_clock(self, journal: Journal, now_ms: int) -> None:
        """Let the clock of the journal show *now_ms* until the next call; override this if it has a clock of its own.

        No-op here: the journal uses the times that it is given.
        """

    async def lose_answer(self, journal: Journal) -> bool:  # noqa: ARG002 - for those who override it
        """Let the answer to the next commit be lost, and return true; override this for a journal on a server.

        Here there is no line that could be cut, so it returns false.
        """
        return False

    # Claims

    async def test_whoever_claims_last_is_the_only_writer(self, journal: Journal) -> None:
        """A writer with an old epoch is refused, and has written nothing."""
        first = await opened(journal, "s")
        second = await journal.claim("s", "another")
        assert (second.epoch > first.epoch, second.head) == (True, 3)
        await raised(Fenced, journal.append(first, 3, run_of("s", 4, 1)))
        await raised(Fenced, journal.keep(first, Snapshot("s", 3, State("s", Setup(), "demo"))))
        assert await journal.append(second, 3, run_of("s", 4, 1)) == 4
        journal = await self.again(journal)
        await raised(Fenced, journal.append(first, 4, run_of("s", 5, 1)))
        third = await journal.claim("s", "a third")
        assert (third.epoch > second.epoch, third.head) == (True, 4)
        assert await journal.read("s") == run_of("s", 1, 4)

    async def test_what_somebody_holds_is_not_claimed_by_others(self, journal: Journal) -> None:
        """While a lease lasts, another holder's claim is refused, changes nothing, and names the holder."""
        await self.set_clock(journal, 1000)
        first = await opened(journal, "s", lease=Lease(1000, 500))
        for now_ms in (0, 1000, 1499):
            await self.set_clock(journal, now_ms)
            error = await raised(SessionHeld, journal.claim("s", "another", Lease(now_ms, 500)))
            assert error.args == ("s", "test", 1500 - now_ms)
        await raised(SessionHeld, journal.claim("s", "another"))
        assert await journal.append(first, 3, run_of("s", 4, 1)) == 4
        await self.set_clock(journal, 1500)
        second = await journal.claim("s", "another", Lease(1500, 500))
        assert (second.epoch > first.epoch, second.head) == (True, 4)
        await raised(Fenced, journal.append(first, 4, run_of("s", 5, 1)))
        await self.set_clock(journal, 1999)
        await raised(SessionHeld, journal.claim("s", "test", Lease(1999, 500)))

    async def test_a_session_is_taken_over_from_whoever_holds_it(self, journal: Journal) -> None:
        """With `take_over`, a claim is granted at once; the earlier holder can write no more, and gets an error."""
        await self.set_clock(journal, 1000)
        first = await opened(journal, "s", lease=Lease(1000, 500))
        second = await journal.claim("s", "another", Lease(1100, 500), take_over=True)
        await raised(Fenced, journal.append(first, 3, run_of("s", 4, 1)))
        assert await journal.renew([first], Lease(1200, 500)) == (first,)
        assert await journal.append(second, 3, run_of("s", 4, 1)) == 4

    async def test_a_session_is_taken_over_from_the_holder_that_is_named_alone(self, journal: Journal) -> None:
        """With an address as `take_over`, of several that take a session from a dead holder one gets it."""
        await self.set_clock(journal, 1000)
        first = await opened(journal, "s", lease=Lease(1000, 500))
        error = await raised(SessionHeld, journal.claim("s", "another", Lease(1000, 500), take_over="a third"))
        assert error.args == ("s", "test", 500)
        assert await journal.append(first, 3, run_of("s", 4, 1)) == 4
        second = await journal.claim("s", "another", Lease(1000, 500), take_over="test")
        await raised(Fenced, journal.append(first, 4, run_of("s", 5, 1)))
        error = await raised(SessionHeld, journal.claim("s", "a third", Lease(1000, 500), take_over="test"))
        assert error.args == ("s", "another", 500)
        assert await journal.append(second, 4, run_of("s", 5, 1)) == 5
        assert (await journal.claim("new", "another", take_over="test")).head == 0

    async def test_a_holder_claims_its_own_sessions_again(self, journal: Journal) -> None:
        """A lease does not keep its own holder away: it may have started anew at the same address."""
        await self.set_clock(journal, 1000)
        first = await opened(journal, "s", lease=Lease(1000, 500))
        second = await journal.claim("s", "test", Lease(1001, 500))
        await raised(Fenced, journal.append(first, 3, run_of("s", 4, 1)))
        assert await journal.append(second, 3, run_of("s", 4, 1)) == 4

    async def test_leases_are_renewed_together(self, journal: Journal) -> None:
        """`renew` makes a holder's lease last longer for all its sessions, also after the lease has ended."""
        await self.set_clock(journal, 1000)
        claims = [await opened(journal, name, lease=Lease(1000, 500)) for name in ("a", "b", "c")]
        others = await journal.claim("d", "a third", Lease(1000, 500))
        await self.set_clock(journal, 2000)
        assert await journal.renew(claims[:2], Lease(2000, 500)) == ()
        await self.set_clock(journal, 2499)
        for name in ("a", "b", "c"):
            await raised(SessionHeld, journal.claim(name, "another", Lease(2499, 500)))
        assert (await journal.claim("d", "another", Lease(2499, 500))).epoch > others.epoch
        await self.set_clock(journal, 2500)
        assert (await journal.claim("c", "another", Lease(2500, 500))).head == 3
        assert await journal.renew([], Lease(2000, 500)) == ()

    async def test_a_lease_that_was_lost_is_not_renewed(self, journal: Journal) -> None:
        """`renew` returns the claims of sessions that were claimed since, and leaves the leases of other holders."""
        await self.set_clock(journal, 1000)
        lost = [await opened(journal, name, lease=Lease(1000, 500)) for name in ("a", "b")]
        valid = await opened(journal, "c", lease=Lease(1000, 500))
        await self.set_clock(journal, 1600)
        other = await journal.claim("b", "another", Lease(1600, 500))
        again = await journal.claim("a", "test", Lease(1600, 500))
        await self.set_clock(journal, 2000)
        assert set(await journal.renew([*lost, valid], Lease(2000, 500))) == set(lost)
        await self.set_clock(journal, 2099)
        await raised(SessionHeld, journal.claim("b", "a third", Lease(2099, 500)))
        await self.set_clock(journal, 2100)
        assert (await journal.claim("b", "a third", Lease(2100, 500))).epoch > other.epoch
        assert await journal.renew([again, valid], Lease(9000, 500)) == ()
        assert await journal.renew([Claim("nobody", 1, 0)], Lease(9000, 500)) == (Claim("nobody", 1, 0),)

    async def test_what_is_released_is_free(self, journal: Journal) -> None:
        """After `release`, others claim a session at once; an earlier holder's `release` ends no later lease."""
        await self.set_clock(journal, 1000)
        first = await opened(journal, "s", lease=Lease(1000, 500))
        await journal.release([first, Claim("nobody", 1, 0)])
        second = await journal.claim("s", "another", Lease(1001, 500))
        await journal.release([first])
        await raised(SessionHeld, journal.claim("s", "test", Lease(1002, 500)))
        assert await journal.append(second, 3, run_of("s", 4, 1)) == 4
        await journal.release([second])
        assert await journal.renew([second], Lease(1003, 500)) == ()
        refusal = await raised(SessionHeld, journal.claim("s", "test", Lease(1004, 500)))
        assert refusal.args[1] == "another"

    async def test_a_claim_can_be_renewed_after_the_journal_was_closed(self, journal: Journal) -> None:
        """A claim is not lost because the journal was closed and opened again."""
        await self.set_clock(journal, 1000)
        claim = await opened(journal, "s", lease=Lease(1000, 500))
        await journal.close()
        await self.set_clock(journal, 1200)
        assert await journal.renew([claim], Lease(1200, 500)) == ()
        await self.set_clock(journal, 1699)
        await raised(SessionHeld, journal.claim("s", "another", Lease(1699, 500)))

    async def test_nobody_writes_without_a_claim(self, journal: Journal) -> None:
        """An `append` without a valid claim is refused, to a stored session and to an unknown one."""
        await opened(journal, "s")
        for session_id, head in (("s", 3), ("t", 0)):
            for epoch in (0, 7, 2**40):
                claim = Claim(session_id, epoch, head)
                await raised(Fenced, journal.append(claim, head, run_of(session_id, head + 1, 1)))
        assert [stored.session_id for stored in await journal.sessions()] == ["s"]

    async def test_a_wrong_head_is_refused(self, journal: Journal) -> None:
        """An `append` with a wrong number of the last record is refused."""
        claim = await opened(journal, "s")
        for expected in (0, 2, 4):
            await raised(Fenced, journal.append(claim, expected, run_of("s", expected + 1, 1)))
        assert await journal.read("s") == run_of("s", 1, 3)

    async def test_claims_at_the_same_time_have_different_epochs(self, journal: Journal) -> None:
        """Concurrent claims get different epochs, and only the highest can write."""
        claims: list[Claim] = []

        async def claim() -> None:
            claims.append(await journal.claim("s", "test"))

        async with trio.open_nursery() as nursery:  # noqa: TID251 - a test
            for _ in range(20):
                nursery.start_soon(claim)
        claims.sort(key=lambda item: item.epoch)
        assert all(old.epoch < new.epoch for old, new in pairwise(claims))
        for claim_ in claims[:-1]:
            await raised(Fenced, journal.append(claim_, 0, run_of("s", 1, 1)))
        assert await journal.append(claims[-1], 0, run_of("s", 1, 1)) == 1

    # Lists

    async def test_stored_sessions_are_listed_in_order(self, journal: Journal) -> None:
        """`sessions` returns pages of summaries in order, with all that a supervisor needs before it reads records.

        `summary` returns the one of a session.
        """
        records = {
            "a": prompted("a", 1, due=4, at_work=True),
            "B": with_event(prompted("B", 1), SessionEnded("stopped")),
            "a-1": prompted("a-1", 1),
        }
        for name, record in records.items():
            await journal.append(await journal.claim(name, "test"), 0, [record])
        await journal.claim("claimed", "test")
        journal = await self.again(journal)
        new = About(created=1)
        listed = (
            StoredSession("B", 1, ended=True, about=new, active=1),
            StoredSession("a", 1, due=4, at_work=True, about=new, active=1),
            StoredSession("a-1", 1, about=new, active=1),
        )
        assert await journal.sessions() == listed
        for stored_ in listed:
            assert await journal.summary(stored_.session_id) == stored_
        for name in ("claimed", "none", "A", "b", "a-"):
            assert await journal.summary(name) is None
        assert await journal.sessions(ALL_SESSIONS, listed[0], 1) == listed[1:2]
        assert await journal.sessions(after=listed[2]) == ()
        assert await journal.sessions(limit=0) == ()
        await journal.append(await journal.claim("a", "test"), 1, [silent("a", 2)])
        assert await journal.sessions(after=listed[0], limit=1) == (StoredSession("a", 2, about=new, active=2),)

    async def test_a_list_tells_whose_a_session_is_and_what_it_is_called_last(self, journal: Journal) -> None:
        """Tenant, owner and specification come from the first record, title and labels from the last that has them."""
        setup = Setup(tenant="acme", owner="ann", spec="helper")
        state = State("s", setup, "demo", title="a trip", labels=("new", "vip"))
        claim = await journal.claim("s", "test")
        await journal.append(claim, 0, [prompted("s", 1, opening=state), prompted("s", 2)])
        about = About("acme", "ann", "helper", "a trip", ("new", "vip"), 1)
        assert await journal.sessions() == (StoredSession("s", 2, about=about, active=2),)
        await journal.append(claim, 2, [labelled(3, "trip \U0001f642", ("é", "vip"))])
        journal = await self.again(journal)
        about = about.but(title="trip \U0001f642", labels=("é", "vip"))
        assert await journal.sessions(SessionFilter(label="é")) == (StoredSession("s", 3, about=about, active=3),)
        assert await journal.sessions(SessionFilter(label="new")) == ()
        await journal.append(claim, 3, [labelled(4, "", ("vip",)), prompted("s", 5)])
        about = about.but(title="", labels=("vip",))
        for session_filter in (ALL_SESSIONS, SessionFilter(label="vip", owner="ann"), SessionFilter(tenant="acme")):
            assert await journal.sessions(session_filter) == (StoredSession("s", 5, about=about, active=5),)
        assert await journal.summary("s") == StoredSession("s", 5, about=about, active=5)
        assert await journal.sessions(SessionFilter(label="é")) == ()

    async def test_each_filter_finds_what_it_asks_for_page_by_page(self, journal: Journal) -> None:
        """All pairs of conditions, in pages of three, find the sessions that fulfil them, in order."""
        kinds = tuple(
            product(("", "acme", "bolt"), ("", "ann"), ((), ("new",), ("new", "vip")), (None, 5, 7), (0, 1, 2))
        )
        for number, (tenant, owner, labels, due, kind) in enumerate(kinds):
            name = f"s{(number * 37) % len(kinds)}"
            state = State(name, Setup(tenant=tenant, owner=owner), "demo", labels=labels)
            record = prompted(name, 1, opening=state, due=due, at_work=kind == 1)
            record = with_event(record, SessionEnded("stopped")) if kind == 2 else record
            await journal.append(await journal.claim(name, "test"), 0, [record])
        journal = await self.again(journal)
        stored = await journal.sessions()
        assert len(stored) == len(kinds)
        conditions: dict[str, tuple[object, ...]] = {
            "tenant": ("", "acme", "cut"),
            "owner": ("", "ann"),
            "label": ("new", "vip", "none"),
            "due_before": (INT_MIN, 0, 6, 100, INT_MAX),
            "at_work": (False, True),
            "ended": (False, True),
            "slots": (frozenset(), frozenset({0, 7}), frozenset(range(SLOTS))),
        }
        single = [{name: value} for name, values in conditions.items() for value in values]
        for first_fields, second_fields in product(single, single):
            session_filter = SessionFilter().but(
                **first_fields, **{key: value for key, value in second_fields.items() if key not in first_fields}
            )
            listed: list[StoredSession] = []
            while page := await journal.sessions(session_filter, listed[-1] if listed else None, 30):
                listed.extend(page)
            assert listed == sorted(filter(session_filter.holds, stored), key=session_filter.rank)
            assert await journal.sessions(session_filter, listed[2] if listed[2:] else None, 3) == tuple(
                listed[3:6] if listed[2:] else listed
            )

    # Deletions

    async def test_of_a_deleted_session_nothing_is_left(self, journal: Journal) -> None:
        """After `delete`, records, answers and snapshot are gone, also after reopening; other sessions are whole."""
        for name in ("s", "t"):
            claim = await opened(journal, name)
            await journal.append(claim, 3, (prompted(name, 4, command="c", answer=Accepted("p4", "started")),))
            await journal.keep(claim, Snapshot(name, 4, State(name, Setup(), "demo")))
        assert await journal.delete("s", NOBODY, 0) == 1
        for _ in range(2):
            assert await journal.read("s") == ()
            assert await journal.answer("s", "c") is None
            assert await journal.record_of_seq("s", 2) == 0
            assert (await journal.latest("s")).snapshot is None
            assert await journal.summary("s") is None
            assert await stored(journal) == ["t"]
            journal = await self.again(journal)
        assert len(await journal.read("t")) == 4
        assert await journal.answer("t", "c") is not None
        assert (await journal.latest("t")).snapshot is not None

    async def test_what_is_not_stored_is_not_deleted(self, journal: Journal) -> None:
        """`delete` returns 0 for an id without records, and 1 once for a session."""
        assert await journal.delete("s", NOBODY, 0) == 0
        await journal.claim("s", "test")
        assert await journal.delete("s", NOBODY, 0) == 0
        await opened(journal, "s")
        assert await journal.delete("s", NOBODY, 0) == 1
        assert await journal.delete("s", NOBODY, 0) == 0

    async def test_an_id_can_be_used_again(self, journal: Journal) -> None:
        """A new session with the id of a deleted one begins with nothing, and earlier claims of it are refused."""
        old = await opened(journal, "s", 0)
        opening = State("s", Setup(tenant="acme", owner="ann"), "demo", title="a trip", labels=("vip",))
        await journal.append(old, 0, (prompted("s", 1, opening=opening), *run_of("s", 2, 2)))
        await journal.append(old, 3, (prompted("s", 4, command="c", answer=Accepted("p4", "started")),))
        await journal.delete("s", NOBODY, 0)
        await raised(Fenced, journal.append(old, 4, run_of("s", 5, 1)))
        journal = await self.again(journal)
        assert await journal.sessions(SessionFilter(label="vip")) == ()
        new = await opened(journal, "s")
        assert await journal.sessions() == (StoredSession("s", 3, about=About(created=1), active=3),)
        assert (new.epoch > old.epoch, new.head) == (True, 0)
        await raised(Fenced, journal.append(old, 3, run_of("s", 4, 1)))
        await raised(Fenced, journal.keep(old, Snapshot("s", 3, State("s", Setup(), "demo"))))
        assert await journal.renew([old], Lease(0, 500)) == (old,)
        assert await journal.answer("s", "c") is None
        assert await journal.read("s") == run_of("s", 1, 3)

    async def test_sub_agents_are_deleted_with_their_session(self, journal: Journal) -> None:
        """`delete` also deletes sub-agents at any depth, but no session whose id only looks like a sub-agent's."""
        await opened(journal, "s")
        await below(journal, "s.c1", "s", "c1")
        await below(journal, "shortened", "s", "c2")
        await below(journal, "s.c1.c9", "s", "c1", "s.c1", "c9")
        await opened(journal, "s.c3")
        await below(journal, "t.c1", "t", "c1")
        journal = await self.again(journal)
        assert await journal.delete("s", NOBODY, 0) == 4
        assert await stored(journal) == ["s.c3", "t.c1"]

    async def test_a_sub_agent_alone_can_be_deleted(self, journal: Journal) -> None:
        """After a sub-agent's deletion, parent and siblings stay; a new session under its id is not its child."""
        await opened(journal, "s")
        for child in ("s.c1", "s.c2"):
            await below(journal, child, "s", child[2:])
        assert await journal.delete("s.c1", NOBODY, 0) == 1
        assert await stored(journal) == ["s", "s.c2"]
        await opened(journal, "s.c1")
        assert await journal.delete("s", NOBODY, 0) == 2
        assert await stored(journal) == ["s.c1"]

    async def test_what_somebody_holds_is_not_deleted(self, journal: Journal) -> None:
        """While a session or one of its sub-agents is held, none of them is deleted, and the error names the holder."""
        await opened(journal, "s")
        claim = await below(journal, "s.c1", "s", "c1")
        await self.set_clock(journal, 1000)
        await journal.claim("s.c1", "test", Lease(1000, 500))
        for now_ms in (0, 1499):
            await self.set_clock(journal, now_ms)
            error = await raised(SessionHeld, journal.delete("s", "another", now_ms))
            assert error.args == ("s.c1", "test", 1500 - now_ms)
        assert await stored(journal) == ["s", "s.c1"]
        assert len(await journal.read("s.c1")) == claim.head + 1
        await self.set_clock(journal, 1500)
        assert await journal.delete("s", "another", 1500) == 2

    async def test_a_holder_deletes_its_own_sessions(self, journal: Journal) -> None:
        """The holder of a lease can delete its own session, which also ends the lease."""
        await self.set_clock(journal, 1000)
        claim = await opened(journal, "s", lease=Lease(1000, 500))
        assert await journal.delete("s", "test", 1001) == 1
        await raised(Fenced, journal.append(claim, 3, run_of("s", 4, 1)))
        assert (await journal.claim("s", "another", Lease(1002, 500))).head == 0

    async def test_what_another_session_needs_too_stays(self, journal: Journal) -> None:
        """A text that two sessions have is kept until both are deleted, however long it is."""
        long = "word " * 50_000
        for name in ("s", "t", "u"):
            await journal.append(await journal.claim(name, "test"), 0, (prompted(name, 1, long),))
        assert await journal.delete("s", NOBODY, 0) == 1
        journal = await self.again(journal)
        assert await journal.read("t") == (prompted("t", 1, long),)
        assert await journal.delete("t", NOBODY, 0) == 1
        assert await journal.read("u") == (prompted("u", 1, long),)

    async def test_others_write_while_sessions_are_deleted(self, journal: Journal) -> None:
        """Writes to other sessions during a deletion are not affected by it."""
        for number in range(10):
            await opened(journal, f"old-{number}", 70)
        claims = {f"s{number}": await journal.claim(f"s{number}", "test") for number in range(5)}

        async def write(name: str) -> None:
            for head in range(10):
                await journal.append(claims[name], head, run_of(name, head + 1, 1))

        async def delete(name: str) -> None:
            assert await journal.delete(name, NOBODY, 0) == 1

        async with trio.open_nursery() as nursery:  # noqa: TID251 - a test
            for number in range(10):
                nursery.start_soon(delete, f"old-{number}")
            for name in claims:
                nursery.start_soon(write, name)
        assert await stored(journal) == sorted(claims)
        for name in claims:
            assert await journal.read(name) == run_of(name, 1, 10)

    async def test_a_deletion_that_is_cancelled_is_whole_or_goes_on(self, journal: Journal) -> None:
        """After a cancelled `delete` the session is whole, refused or gone; the next `delete` finishes."""
        for passes in range(12):
            await opened(journal, "s", 150)
            with trio.CancelScope() as scope:

                async def cancel(scope: trio.CancelScope = scope, passes: int = passes) -> None:
                    for _ in range(passes * passes):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()

                async with trio.open_nursery() as nursery:  # noqa: TID251 - a test
                    nursery.start_soon(cancel)
                    await journal.delete("s", NOBODY, 0)
            try:
                assert len(await journal.read("s")) in (0, 150)
            except SessionBeingDeleted:
                await raised(SessionBeingDeleted, journal.claim("s", "test"))
                assert await stored(journal) == []
            await journal.delete("s", NOBODY, 0)
            assert await journal.read("s") == ()

    # Redactions

    async def test_texts_are_replaced_and_nothing_else(self, journal: Journal) -> None:
        """Each text in the range is replaced by a mark; its records say when and by whom.

        All other records are unchanged.
        """
        claim = await journal.claim("s", "test")
        records = [told("s", number) for number in range(1, 101)]
        await journal.append(claim, 0, records)
        assert await journal.redact("s", 20, 60, NOTE, NOBODY) == 41
        for _ in range(2):
            redacted = await journal.read("s")
            assert [record.number for record in redacted] == list(range(1, 101))
            for was, now in zip(records, redacted, strict=True):
                if 20 <= was.number <= 60:
                    assert (now.redacted, PRIVATE in repr(now)) == (NOTE, False)
                    assert (now.events, now.command, now.answer) == (was.events, was.command, was.answer)
                else:
                    assert now == was
            journal = await self.again(journal)

    async def test_a_redacted_session_comes_back_by_its_changes(self, journal: Journal) -> None:
        """The changes of redacted records can be folded, into a history of the same length."""
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
        """After a redaction, an earlier claim is refused and snapshots are gone; a new claim continues at the head."""
        await self.set_clock(journal, 1000)
        claim = await opened(journal, "s", lease=Lease(1000, 500))
        await journal.keep(claim, Snapshot("s", 3, State("s", Setup(PRIVATE), "demo")))
        assert await journal.redact("s", 1, 2, NOTE, "test") == 2
        assert (await journal.latest("s")).snapshot is None
        assert await journal.renew([claim], Lease(1100, 500)) == (claim,)
        await raised(Fenced, journal.append(claim, 3, run_of("s", 4, 1)))
        await raised(Fenced, journal.keep(claim, Snapshot("s", 3, State("s", Setup(PRIVATE), "demo"))))
        claim = await journal.claim("s", "test")
        assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4
        journal = await self.again(journal)
        assert (await journal.read("s"))[2:] == run_of("s", 3, 2)

    async def test_a_redaction_can_be_repeated(self, journal: Journal) -> None:
        """Records that are redacted again keep their first note; a range may end after the last record, or be empty."""
        await opened(journal, "s")
        assert await journal.redact("s", 0, 2, NOTE, NOBODY) == 2
        later = Redaction(2000, "another")
        assert await journal.redact("s", 1, 1000, later, NOBODY) == 1
        assert [record.redacted for record in await journal.read("s")] == [NOTE, NOTE, later]
        assert await journal.redact("s", 4, 9, later, NOBODY) == 0
        assert await journal.redact("s", 3, 1, later, NOBODY) == 0
        assert await journal.redact("none", 1, 9, later, NOBODY) == 0
        assert [session.session_id for session in await journal.sessions()] == ["s"]

    async def test_names_of_tools_stay_if_a_tool_of_the_session_has_had_them(self, journal: Journal) -> None:
        """The name of a tool is kept if the session has had the tool; a name that the model made up is redacted."""
        claim = await journal.claim("s", "test")
        tools = MappingProxyType({"first": AttachedTool(ToolSpec("first", "", EMPTY), 1)})
        later = Change(
            tools=ChangedTools((), MappingProxyType({"second": AttachedTool(ToolSpec("second", "", EMPTY), 2)}))
        )
        called = tuple(ToolMessage(f"c{name}", name, ()) for name in ("first", "second", PRIVATE))
        records = [
            told("s", 1).but(opening=State("s", Setup(), "demo", tools=tools)),
            told("s", 2).but(change=Change(tools=ChangedTools(("first",), MappingProxyType({})))),
            told("s", 3).but(change=Change(history=Appended(called))),
            told("s", 4).but(change=later),
        ]
        await journal.append(claim, 0, records)
        await journal.redact("s", 3, 3, NOTE, NOBODY)
        (record,) = await journal.read("s", 2, 1)
        assert isinstance(record.change.history, Appended)
        assert [message.name for message in record.change.history.messages if isinstance(message, ToolMessage)] == [
            "first",
            "second",
            "[redacted]",
        ]

    async def test_a_title_is_redacted_with_the_record_that_gave_it(self, journal: Journal) -> None:
        """A title from a record in the range is shown as a mark in the list of sessions; labels stay."""
        for name in ("s", "t"):
            opening = State(name, Setup(), "demo", title=PRIVATE, labels=("urgent",))
            first = prompted(name, 1, opening=opening)
            await journal.append(await journal.claim(name, "test"), 0, (first, prompted(name, 2)))
        await journal.redact("s", 1, 1, NOTE, NOBODY)
        await journal.redact("t", 2, 2, NOTE, NOBODY)
        journal = await self.again(journal)
        redacted, second = await journal.sessions()
        assert (PRIVATE in redacted.about.title, redacted.about.labels) == (False, ("urgent",))
        assert (second.about.title, second.about.labels) == (PRIVATE, ("urgent",))

    async def test_what_somebody_holds_is_not_redacted(self, journal: Journal) -> None:
        """While a session is held, another holder's call is refused, and nothing is changed."""
        await self.set_clock(journal, 900)
        claim = await opened(journal, "s", lease=Lease(900, 500))
        await self.set_clock(journal, NOTE.at)
        error = await raised(SessionHeld, journal.redact("s", 1, 3, NOTE, "another"))
        assert error.args == ("s", "test", 400)
        assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4
        assert await journal.read("s") == run_of("s", 1, 4)

    async def test_what_another_session_says_too_stays(self, journal: Journal) -> None:
        """A long text that is redacted in one session stays in other sessions, and in other records of the same one."""
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
        """The answer to a command is still found after its record was redacted, so no command is carried out twice."""
        claim = await journal.claim("s", "test")
        await journal.append(claim, 0, [told("s", 1), told("s", 2)])
        await journal.redact("s", 1, 2, NOTE, NOBODY)
        journal = await self.again(journal)
        stored = await journal.answer("s", "c2")
        assert stored is not None
        assert stored.answer == Accepted("p2", "started")
        assert PRIVATE not in repr(stored)

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
            assert await journal.record_of_seq("s", 5) == 0
            assert await journal.answer("s", "c") is None
            assert (await journal.latest("s")).snapshot is None
            assert await journal.sessions() == ()
            assert (await journal.claim("s", "test")).head == 0

    async def test_all_fields_of_a_record_are_kept(self, journal: Journal) -> None:
        """Each field of a record is read as it was written, including the state in the first record."""
        setup = Setup("be brief", user_data=FrozenObject({"tenant": "é"}))
        more: dict[str, object] = {
            "effects": ("SetTimer", "StartCall"),
            "change": Change(phase=Phase.IDLE, history=Appended((UserMessage((Text("é"),)),)), stop_reason=None),
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
        """Odd, long and equal texts are kept, including texts that look like the journal's own format."""
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

    async def test_any_short_text_is_kept(self, journal: Journal) -> None:
        """What a session is found by is kept whatever characters it has, also those that C ends texts with."""
        odd = "a\0b\x01\u2028\U0001f642'\"\\%"
        setup = Setup(tenant=f"t{odd}", owner=f"o{odd}", spec=f"s{odd}")
        state = State("s", setup, "demo", title=odd, labels=(odd, "vip"))
        claim = await journal.claim("s", f"h{odd}", Lease(0, 500))
        answered = prompted("s", 1, odd, opening=state, command=odd, answer=Accepted("p1", "started"))
        await journal.append(claim, 0, [answered])
        error = await raised(SessionHeld, journal.claim("s", "another", Lease(0, 500)))
        assert error.args[1] == f"h{odd}"
        journal = await self.again(journal)
        (stored,) = await journal.sessions(SessionFilter(tenant=f"t{odd}", owner=f"o{odd}", label=odd))
        assert stored.about == About(f"t{odd}", f"o{odd}", f"s{odd}", odd, (odd, "vip"), 1)
        assert await journal.answer("s", odd) is not None
        assert await journal.answer("s", odd[:1]) is None
        await journal.append(claim, 1, [labelled(2, f"{odd}!", (f"{odd}!",))])
        assert await journal.sessions(SessionFilter(label=odd)) == ()
        assert [stored.about.title for stored in await journal.sessions(SessionFilter(label=f"{odd}!"))] == [f"{odd}!"]

    async def test_a_commit_whose_answer_is_lost_is_accepted_once(self, journal: Journal) -> None:
        """If a commit's answer is lost, the call returns all the same, or its records are found by reading.

        The claim stays valid.
        """
        claim = await opened(journal, "s", lease=Lease(0, 500))
        if not await self.lose_answer(journal):
            return
        head = 3
        while head < 6:
            try:
                head = await journal.append(claim, head, run_of("s", head + 1, 1))
            except JournalUnavailable:
                head = len(await journal.read("s"))
        assert await journal.read("s") == run_of("s", 1, 6)
        assert await journal.renew([claim], Lease(0, 500)) == ()

    async def test_records_are_written_all_or_none(self, journal: Journal) -> None:
        """If one record of an `append` is refused, none of them is written."""
        claim = await opened(journal, "s")
        for wrong in (prompted("s", 6), prompted("s", 4), prompted("other", 5)):
            await raised(BadRecord, journal.append(claim, 3, (prompted("s", 4), wrong)))
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
            """Write the records of one session."""
            for head in range(10):
                if name == "s7":
                    await raised(Fenced, journal.append(claims[name], 0, run_of(name, 1, 1)))
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
        """A cancelled call has written nothing, and a call that returns has written everything."""
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
        """`answer` returns the stored command and its answer, separately for each session."""
        for name, ref in (("s", "p1"), ("t", "p9")):
            claim = await opened(journal, name)
            answered = prompted(name, 4, f"to {name}", command="c", answer=Accepted(ref, "started"))
            await journal.append(claim, 3, (answered, prompted(name, 5, command="d")))
        journal = await self.again(journal)
        for name, ref in (("s", "p1"), ("t", "p9")):
            prompt = PromptSent((Text(f"to {name}"),))
            assert await journal.answer(name, "c") == StoredAnswer(prompt, Accepted(ref, "started"))
            assert await journal.answer(name, "d") is None
            assert await journal.answer(name, "e") is None

    async def test_an_answer_is_known_as_long_as_its_session_is(self, journal: Journal) -> None:
        """An answer is found after a thousand later ones, and after the journal was reopened."""
        claim = await opened(journal, "s", 0)
        records = [prompted("s", n, command=f"c{n}", answer=Accepted(f"p{n}", "started")) for n in range(1, 1202)]
        await journal.append(claim, 0, records)
        journal = await self.again(journal)
        for number in (1, 2, 600, 1201):
            stored = await journal.answer("s", f"c{number}")
            assert stored is not None
            assert stored.answer == Accepted(f"p{number}", "started")
        assert await journal.answer("s", "c1202") is None

    async def test_the_record_of_an_event_is_found(self, journal: Journal) -> None:
        """`record_of_seq` returns the number of the last record without events after the given one."""
        seqs = ((1,), (), (2, 3, 4), (), (), (5,), (6, 7), ())
        claim = await journal.claim("s", "test")
        records: list[Record] = []
        for number, seqs_ in enumerate(seqs, 1):
            envelopes = tuple(Envelope("s", seq, 0, 0, 1, 1, AgentStart("p1")) for seq in seqs_)
            records.append(silent("s", number).but(events=envelopes))
        await journal.append(claim, 0, records)
        numbers = [await journal.record_of_seq("s", seq) for seq in range(10)]
        assert numbers == [0, 2, 2, 2, 5, 6, 6, 8, 8, 8]

    # Snapshots

    async def test_the_last_snapshot_is_found(self, journal: Journal) -> None:
        """`latest` returns the last snapshot of its session, and none of another session."""
        claim = await opened(journal, "s")
        await opened(journal, "t")
        await journal.keep(claim, Snapshot("s", 1, State("s", Setup(), "demo")))
        snapshot = Snapshot("s", 2, State("s", Setup(), "demo", phase=Phase.IDLE, last_id=7))
        await journal.keep(claim, snapshot)
        journal = await self.again(journal)
        assert (await journal.latest("s")).snapshot == snapshot
        assert (await journal.latest("t")).snapshot is None

    async def test_a_snapshot_and_the_records_after_it_are_read_together(self, journal: Journal) -> None:
        """`latest` returns the snapshot with the records after it, up to a given one; nothing of an unknown one."""
        claim = await opened(journal, "s", 300)
        assert await journal.latest("s", 4, 3) == Latest(None, run_of("s", 1, 3))
        snapshot = Snapshot("s", 20, State("s", Setup(), "demo"))
        await journal.keep(claim, snapshot)
        journal = await self.again(journal)
        assert await journal.latest("s") == Latest(snapshot, run_of("s", 21, 280))
        assert await journal.latest("s", 300, 100) == Latest(snapshot, run_of("s", 21, 100))
        assert await journal.latest("s", 300, 120) == Latest(snapshot, run_of("s", 21, 120))
        assert await journal.latest("s", 23) == Latest(snapshot, run_of("s", 21, 3))
        assert await journal.latest("s", 123, 1000) == Latest(snapshot, run_of("s", 21, 103))
        assert await journal.latest("s", 20) == Latest(snapshot, ())
        assert await journal.latest("s", 19) == Latest(None, run_of("s", 1, 19))
        assert await journal.latest("s", 301, 0) == Latest(snapshot, ())
        assert await journal.latest("t") == Latest(None, ())

    async def test_a_snapshot_of_no_record_is_refused(self, journal: Journal) -> None:
        """A snapshot of a missing record, or of another session, is refused."""
        claim = await opened(journal, "s")
        state = State("s", Setup(), "demo")
        for wrong in (Snapshot("s", 4, state), Snapshot("s", 0, state), Snapshot("t", 3, state)):
            await raised(BadRecord, journal.keep(claim, wrong))

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
            good.but(number=5, change=Change(quarantine_cause="half a pair: \ud800")),
        ):
            await raised(AgentrailError, journal.append(claim, 3, (good, bad)))
        assert await journal.append(claim, 3, [good]) == 4
        assert await journal.read("s", 3) == (good,)
