"""Compares journals with a simple model of what they keep, from a seed; retention and older formats too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias
from unittest import mock

import trio
from attrs import define, field
from trio.testing import MockClock

from agentrail import Accepted, State, open_supervisor
from agentrail.adapters.journals import packing
from agentrail.adapters.journals.packing import pack, unpack
from agentrail.adapters.journals.redacting import MARK
from agentrail.codec.json_text import from_own_text, to_text
from agentrail.codec.versions import FORMAT, upcast
from agentrail.core.vocabulary.changes import Appended, Change
from agentrail.errors import AgentrailError, Fenced, SessionHeld
from agentrail.events import SessionEnded
from agentrail.journals import (
    NO_LEASE,
    Claim,
    Journal,
    Lease,
    MemoryJournal,
    Record,
    Redaction,
    Retention,
    SessionFilter,
    Snapshot,
    SqliteJournal,
)
from agentrail.models import Json, Text, UserMessage
from agentrail.testing import Choose
from agentrail.testing.conformance.journal_tests import with_event
from tests.kit import Setup, prompted

NAMES: Final = ("a", "b", "c")
HOLDERS: Final = ("one", "two")
LABELS: Final = ((), ("new",), ("new", "vip"), ("vip",))
LONG: Final = 20_000
"""Characters of a text that is stored apart from its record."""
SHARED: Final = "said-by-all " * 2_000
DAY: Final = 24 * 60 * 60 * 1000


@define
class Kept:
    """A simple model of one stored session."""

    epoch: int = -1
    """Which of all claims is the last one; -1: none is valid."""
    holder: str = ""
    is_held: bool = False
    records: list[Record] = field(factory=list)
    marks: dict[int, Redaction] = field(factory=dict)
    labels: tuple[str, ...] = ()
    snapshot: int | None = None
    has_ended: bool = False
    secrets: list[str] = field(factory=list)


@define
class Shelf:
    """A simple model of a journal, and the journal that is compared with it."""

    choose: Choose
    journal: Journal
    now: int = 1
    kept: dict[str, Kept] = field(factory=lambda: {name: Kept() for name in NAMES})
    claims: list[tuple[str, Claim]] = field(factory=list)
    leased: set[int] = field(factory=set)
    """Which claims were made with a lease: no other one is renewed."""
    leases: dict[str, int] = field(factory=dict)
    """When the lease of each holder ends."""
    gone: list[str] = field(factory=list)
    """Texts that must not be found any more."""

    def free(self, name: str, holder: str) -> bool:
        """Whether a holder is refused nothing that is another one's."""
        known = self.kept[name]
        return not known.is_held or known.holder == holder or self.leases[known.holder] <= self.now

    def is_last(self, index: int) -> bool:
        """Whether a claim is the last one of its session."""
        return self.kept[self.claims[index][0]].epoch == index

    async def claim(self) -> str | None:
        """Claim a session, with a lease or without."""
        name, holder = self.choose.pick(NAMES), self.choose.pick(HOLDERS)
        overs: tuple[bool | str, ...] = (False, False, False, True, *HOLDERS)
        over = self.choose.pick(overs)
        lease = self.choose.pick((NO_LEASE, Lease(self.now, 5), Lease(self.now, 50)))
        lease = Lease(self.now, lease.lasts)
        free = over is True or self.free(name, holder) or self.kept[name].holder == over
        claim = await outcome(self.journal.claim(name, holder, lease, take_over=over), SessionHeld)
        if not free:
            return None if isinstance(claim, SessionHeld) else "held"
        if not isinstance(claim, Claim) or claim.head != len(self.kept[name].records):
            return "claimed"
        if any(other.epoch >= claim.epoch for session, other in self.claims if session == name):
            return "epochs"
        known = self.kept[name]
        known.epoch, known.holder, known.is_held = len(self.claims), holder, lease.lasts > 0
        if known.is_held:
            self.leased.add(known.epoch)
            self.leases[holder] = max(self.leases.get(holder, 0), lease.until)
        self.claims.append((name, claim))
        return None

    async def renew(self) -> str | None:
        """Renew some claims that were made with a lease, of whatever age."""
        places = [place for place in range(len(self.claims)) if self.choose.percent(40) and place in self.leased]
        lease = Lease(self.now, 30)
        lost = await self.journal.renew([self.claims[place][1] for place in places], lease)
        for place in filter(self.is_last, places):
            known = self.kept[self.claims[place][0]]
            known.is_held = True
            self.leases[known.holder] = lease.until
        return None if [*lost] == [self.claims[p][1] for p in places if not self.is_last(p)] else "lost"

    async def release(self) -> str | None:
        """Release some claims, of whatever age."""
        places = [place for place in range(len(self.claims)) if self.choose.percent(20)]
        await self.journal.release([self.claims[place][1] for place in places])
        for place in filter(self.is_last, places):
            self.kept[self.claims[place][0]].is_held = False
        return None

    def record(self, name: str, number: int) -> Record:
        """Return a record that nobody has written before."""
        secret = f"{name}-secret-{self.now}-"
        known = self.kept[name]
        known.secrets.append(secret)
        text = self.choose.pick((secret, secret * (LONG // len(secret)), secret + SHARED, SHARED))
        change = Change(history=Appended((UserMessage((Text(secret),)),)), last_seq=number)
        if self.choose.percent(30):
            change = change.but(labels=self.choose.pick(LABELS))
        record = prompted(
            name,
            number,
            text,
            change=change,
            command=f"c{self.now}",
            answer=Accepted(f"p{number}", "started"),
            due=self.choose.pick((None, 5, 2**64 - 1)),
            at_work=self.choose.percent(50),
        )
        if number == 1:
            opening = State(name, Setup(owner=self.choose.pick(("", "ann"))), "demo", labels=self.choose.pick(LABELS))
            return record.but(opening=opening)
        return record

    async def append(self) -> str | None:
        """Write records under a claim, of whatever age, after the last record or another one."""
        if not self.claims:
            return None
        place = len(self.claims) - 1 if self.choose.percent(60) else self.choose.below(len(self.claims))
        name, claim = self.claims[place]
        known = self.kept[name]
        if known.has_ended:  # a session writes nothing after its end
            return None
        expected = len(known.records) if self.choose.percent(90) else self.choose.below(len(known.records) + 2)
        fits = self.is_last(place) and expected == len(known.records)
        before = len(known.secrets)
        records: list[Record] = []
        for number in range(expected + 1, expected + 2 + self.choose.below(3)):
            self.now += 1
            records.append(self.record(name, number))
        ends = self.choose.percent(15)
        if ends:
            records[-1] = with_event(records[-1], SessionEnded("stopped"))
        written = await outcome(self.journal.append(claim, expected, records), Fenced)
        if not fits:
            self.gone += known.secrets[before:]
            del known.secrets[before:]
            return None if isinstance(written, Fenced) else "fenced"
        known.records += records
        known.has_ended = ends
        for record in records:
            if record.opening is not None:
                known.labels = record.opening.labels
            if isinstance(record.change.labels, tuple):
                known.labels = record.change.labels
        return None if written == len(known.records) else "written"

    async def keep(self) -> str | None:
        """Keep a snapshot under the last claim of a session."""
        name = self.choose.pick(NAMES)
        known = self.kept[name]
        if known.epoch < 0 or not known.records:
            return None
        number = self.choose.number(1, len(known.records))
        state = State(name, Setup(), "demo", title="".join(known.secrets[-1:]))
        await self.journal.keep(self.claims[known.epoch][1], Snapshot(name, number, state))
        known.snapshot = number
        return None

    async def delete(self) -> str | None:
        """Delete a session."""
        name, holder = self.choose.pick(NAMES), self.choose.pick(HOLDERS)
        known = self.kept[name]
        count = await outcome(self.journal.delete(name, holder, self.now), SessionHeld)
        if not self.free(name, holder):
            return None if isinstance(count, SessionHeld) else "held"
        self.kept[name] = Kept()
        self.gone += known.secrets
        return None if count == bool(known.records) else "deleted"

    async def redact(self) -> str | None:
        """Redact some records of a session."""
        name, holder = self.choose.pick(NAMES), self.choose.pick(HOLDERS)
        known, note = self.kept[name], Redaction(self.now, "me")
        if not known.records:
            return None
        first = self.choose.number(1, len(known.records))
        last = self.choose.number(first, len(known.records))
        count = await outcome(self.journal.redact(name, first, last, note, holder), SessionHeld)
        if not self.free(name, holder):
            return None if isinstance(count, SessionHeld) else "held"
        new = {number: note for number in range(first, last + 1) if number not in known.marks}
        known.marks |= new
        known.epoch, known.snapshot = -1, None
        if len(known.marks) == len(known.records):
            self.gone += known.secrets
            known.secrets.clear()
        return None if count == len(new) else "redacted"

    async def checked(self) -> str | None:
        """Compare everything that can be read with the model."""
        for name, known in self.kept.items():
            found = await self.journal.read(name, 0, 1000)
            if [record.redacted for record in found] != [known.marks.get(n + 1) for n in range(len(known.records))]:
                return "marks"
            for record, was in zip(found, known.records, strict=True):
                if record.redacted is None and record != was:
                    return "records"
                if record.redacted is not None and (f"{name}-secret" in repr(record) or MARK not in repr(record)):
                    return "redacted"
            commands = [record.command or "" for _, each in self.past for record in each]
            for command in commands:
                answer = await self.journal.answer(name, command)
                if (answer is not None) != (command in {record.command for record in known.records}):
                    return "answers"
            latest = await self.journal.latest(name, None, 1000)
            if latest.snapshot is not None and latest.snapshot.number != known.snapshot:
                return "snapshots"
            after = 0 if latest.snapshot is None else latest.snapshot.number
            if latest.records != found[after:]:
                return "latest"
        return await self.lists()

    @property
    def past(self) -> list[tuple[str, list[Record]]]:
        """The records of all sessions."""
        return [(name, known.records) for name, known in self.kept.items()]

    async def lists(self) -> str | None:
        """Compare lists with the model."""
        stored = await self.journal.sessions()
        wanted = {name: (len(known.records), known.labels) for name, known in self.kept.items() if known.records}
        if {one.session_id: (one.head, one.about.labels) for one in stored} != wanted:
            return "list"
        filters = (
            *(SessionFilter(label=label) for label in ("new", "vip")),
            *(SessionFilter(due_before=due) for due in (5, 6)),
            SessionFilter(at_work=True),
            SessionFilter(ended=False, owner="ann"),
        )
        for each in filters:
            if await self.journal.sessions(each) != tuple(sorted(filter(each.holds, stored), key=each.rank)):
                return "filters"
        return None


Doing: TypeAlias = Callable[[Shelf], Awaitable[str | None]]

DOINGS: Final[Sequence[tuple[int, Doing]]] = (
    (6, Shelf.claim),
    (3, Shelf.renew),
    (2, Shelf.release),
    (12, Shelf.append),
    (3, Shelf.keep),
    (2, Shelf.delete),
    (3, Shelf.redact),
)


async def outcome(call: Awaitable[object], refusal: type[AgentrailError]) -> object:
    """Return what a call returns, or the refusal that it raises."""
    try:
        return await call
    except refusal as error:
        return error


def broken_journal(number: int) -> str | None:
    """Use both journals at random; return how one of them differs from the model, or `None`."""
    with TemporaryDirectory() as folder:
        kept = SqliteJournal(Path(folder) / "agentrail.db", sync="normal")
        broken, gone = trio.run(_used, number, kept)
        content = b"".join(file.read_bytes() for file in Path(folder).iterdir())
    if any(secret.encode() in content for secret in gone):
        return broken or "bytes"
    return broken or trio.run(_used, number, MemoryJournal(encode=True))[0]


async def _used(number: int, journal: Journal) -> tuple[str | None, list[str]]:
    """Use a journal and close it; return how it differs from the model, and texts that must not be found any more."""
    choose = Choose(Random(number).randrange)
    shelf = Shelf(choose, journal)
    broken: str | None = None
    try:
        for _ in range(choose.number(5, 40)):
            shelf.now += choose.pick((1, 1, 10))
            broken = broken or await choose.weighted(DOINGS)(shelf)
        broken = broken or await shelf.checked()
    except AgentrailError as error:
        broken = type(error).__name__
    finally:
        await journal.close()
    return broken, shelf.gone


# Retention


def broken_retention(number: int) -> str | None:
    """Open a supervisor with policies on sessions of any age; return what is wrong with what they leave, or `None`."""
    return trio.run(_retained, Choose(Random(number).randrange), clock=MockClock(autojump_threshold=0))


async def _retained(choose: Choose) -> str | None:
    journal = MemoryJournal()
    days, label = choose.pick((1, 3)), choose.pick((None, "new"))
    today = round(20_000 * DAY)
    stay: list[str] = []
    for index in range(6):
        name, labels = f"s{index}", choose.pick(LABELS)
        opening = State(name, Setup(), "demo", labels=labels)
        age, ended = choose.pick((0, 2, 5)), choose.percent(60)
        record = prompted(name, 1, opening=opening)
        record = record.but(arrival=record.arrival.but(at=today - age * DAY))
        record = with_event(record, SessionEnded("stopped")) if ended else record
        await journal.append(await journal.claim(name, "test"), 0, [record])
        if not ended or age < days or (label is not None and label not in labels):
            stay.append(name)
    with mock.patch("agentrail.runtime.shared.clock.Clock.now_ms", return_value=today):
        async with open_supervisor(journal=journal, retain=[Retention(days, label)]):
            await trio.sleep(10)
    return None if [one.session_id for one in await journal.sessions()] == stay else "retained"


# Older formats


def broken_formats(number: int) -> str | None:
    """Read a record of an older format, through one upcaster for each format since; return what is wrong, or `None`."""
    record = prompted("s", 1, f"text {number}", opening=State("s", Setup(f"brief {number}"), "demo"))
    body: Json = from_own_text(pack(record).body)
    behind = Choose(Random(number).randrange).number(1, 3)

    def newer(step: int, data: Json) -> Json:
        assert isinstance(data, Mapping)
        return data[f"older {step}"]

    for step in range(1, behind + 1):
        body = {f"older {step}": body}
    upcasters = {FORMAT - step: partial(newer, step) for step in range(1, behind + 1)}
    packed = pack(record).but(body=to_text(body).encode(), format=FORMAT - behind)
    with mock.patch.object(packing, "upcast", partial(upcast, upcasters=upcasters)):
        try:
            return None if unpack(packed, "s", 1) == record else "formats"
        except (AgentrailError, packing.UnpackError, KeyError, AssertionError):
            return "formats"


JOURNALS: Final = {
    "journal": broken_journal,
    "retention": broken_retention,
    "formats": broken_formats,
}
"""The checks by name: each takes a seed, and returns what is wrong, or `None`."""
