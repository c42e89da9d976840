"""Tests of lists of sessions, which `JournalConformance` inherits."""

# ruff: noqa: PLR2004, S101 - these are tests

from __future__ import annotations

from itertools import product

from agentrail.core.vocabulary.state import Setup, State
from agentrail.ports.journal import ALL_SESSIONS, About, Journal, Record, SessionFilter, StoredSession
from agentrail.testing.conformance.journal_claims import ClaimConformance
from agentrail.testing.conformance.journal_samples import prompted, silent
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.life import LabelsChanged, SessionEnded
from agentrail.values.json import INT_MAX, INT_MIN


def with_event(record: Record, event: Event) -> Record:
    """Return *record* with *event* as its only one."""
    return record.but(events=(Envelope(record.session_id, record.number, 0, 0, 0, 0, event),))


def labelled(number: int, title: str, labels: tuple[str, ...]) -> Record:
    """Return the record in which session `s` gets a title and labels."""
    record = with_event(prompted("s", number), LabelsChanged(title, labels))
    return record.but(change=record.change.but(title=title, labels=labels))


class ListConformance(ClaimConformance):
    """Tests of what a list tells of sessions, and of its filters and pages."""

    async def test_stored_sessions_are_listed_in_order(self, journal: Journal) -> None:
        """`sessions` lists page by page, with what a supervisor needs to know before it reads the records."""
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
        for wanted in (ALL_SESSIONS, SessionFilter(label="vip", owner="ann"), SessionFilter(tenant="acme")):
            assert await journal.sessions(wanted) == (StoredSession("s", 5, about=about, active=5),)
        assert await journal.sessions(SessionFilter(label="é")) == ()

    async def test_each_filter_finds_what_it_asks_for_page_by_page(self, journal: Journal) -> None:
        """All pairs of conditions, in pages of three, find the sessions for which they hold, in their order."""
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
        }
        each = [{name: value} for name, values in conditions.items() for value in values]
        for one, other in product(each, each):
            wanted = SessionFilter().but(**one, **{key: value for key, value in other.items() if key not in one})
            listed: list[StoredSession] = []
            while page := await journal.sessions(wanted, listed[-1] if listed else None, 30):
                listed.extend(page)
            assert listed == sorted(filter(wanted.holds, stored), key=wanted.rank)
            assert await journal.sessions(wanted, listed[2] if listed[2:] else None, 3) == tuple(
                listed[3:6] or listed[:3]
            )
