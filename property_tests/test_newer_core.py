"""Sessions come back under newer code: each of forty changes of `core` is made between writing and coming back."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import NamedTuple, Self

import pytest
import trio
import trio.testing

from agentrail import SessionHandle, State
from agentrail.adapters.journals import packing
from agentrail.adapters.journals.message_index import MessageReferences
from agentrail.adapters.journals.packing import PackedRecord
from agentrail.codec.json_text import to_text
from agentrail.codec.plugin_states import data_of
from agentrail.errors import AgentrailError
from agentrail.journals import MemoryJournal, Record
from agentrail.ports.journal import folded, opening_of
from agentrail.testing.simulator.virtual import ClockWatch, run
from agentrail.values.messages import why_unfit
from property_tests.newer_core import CHANGES, Newer
from property_tests.test_crash_anywhere import Doing, Saying, check_runs, lived, rested, spec
from property_tests.volume import profile
from tests.kit import Phase
from tests.recovery.mortal import SESSION, World, live

SESSIONS = {"ci": 20, "campaign": 50}
AT_EACH = {"ci": 1, "campaign": len(CHANGES)}
"""Under how many changes each session comes back at each of its records; 20 sessions have 277 records."""
TOGETHER = 3
"""After how many records in a row a session comes back under the same change: its records are written once for each."""
TOOLS = ("pure", "idempotent", "checkable", "unsafe", "risky")


def drawn(seed: int) -> tuple[list[Saying], list[Doing]]:
    """Return the answers of a model and the actions of a caller."""
    chance = random.Random(seed)
    sayings = [
        Saying(
            chance.randint(0, 3),
            chance.choice(("well", "well", "well", "stalls", "fails")),
            tuple(chance.choices(TOOLS, k=chance.randint(0, 3))),
        )
        for _ in range(chance.randint(1, 6))
    ]
    what = ("prompt", "prompt", "steer", "steer now", "abort", "approve", "reject", "label")
    doings = [Doing(chance.choice((0.0, 0.15, 0.3, 0.7, 1.5)), chance.choice(what)) for _ in range(6)]
    return sayings, [Doing(0.0, "prompt"), *doings]


class Written(NamedTuple):
    """A session that was written by today's code."""

    seed: int
    sayings: Sequence[Saying]
    records: Sequence[Record]
    states: Sequence[State]
    """The states before the first record and after each."""

    @classmethod
    async def by(cls, seed: int) -> Self:
        """Let the session of a seed live until it rests."""
        sayings, doings = drawn(seed)
        records = (await lived(sayings, doings)).records
        return cls(seed, sayings, records, [*accumulate(records, folded, initial=opening_of(records[0]))])

    def packed(self) -> list[PackedRecord]:
        """Return the records as the journal writes them now."""
        places = MessageReferences()
        return [packing.pack(record, places) for record in self.records]


class Kept(MemoryJournal):
    """Has the first records of a session, as the code of then has written them."""

    def __init__(self) -> None:
        super().__init__()

    async def take(self, records: Sequence[Record], packed: Sequence[PackedRecord]) -> None:
        await self.append(await self.claim(SESSION, "test"), 0, records)
        self._sessions[SESSION].stored[:] = packed
        self._encode = True

    def starts_with(self, packed: Sequence[PackedRecord]) -> bool:
        return self._sessions[SESSION].stored[: len(packed)] == [*packed]


async def comes_back(written: Written, cut: int, packed: Sequence[PackedRecord]) -> None:
    """Bring the session back from its first *cut* records; it goes on, and rests again."""
    kept, ran = written.records[:cut], list[str]()
    journal = Kept()
    await journal.take(kept, packed)
    before = [envelope for record in kept for envelope in record.events]

    async def script(_: World, session: SessionHandle) -> None:
        await rested(session, 0.5)
        with suppress(AgentrailError):
            await session.prompt("and now?")
        await rested(session, 0.5)

    session = await live(World(journal, heard=before[-1:], is_known=True), spec(written.sayings, ran), script)
    assert session is not None
    assert journal.starts_with(packed)
    records = await journal.read(SESSION, cut, 10_000)
    assert records
    seqs = [envelope.seq for record in records for envelope in record.events]
    assert seqs == list(range(len(before) + 1, len(before) + len(seqs) + 1))
    state = session.inspect()
    assert state.phase in (Phase.IDLE, Phase.EXECUTING_TOOLS, Phase.ENDED)
    assert why_unfit(state.history, open_end=state.batch is not None) is None
    check_runs(ran, kept, (*kept, *records))
    check_fold(written.states[cut], records, state)


def check_fold(state: State, records: Sequence[Record], live: State) -> None:
    """Check that *records*, which follow *state*, add up to the live state."""
    for record in records:
        state = folded(state, record)
    assert [to_text(data_of(s)) for s in state.plugin_states] == [to_text(data_of(s)) for s in live.plugin_states]
    assert state.but(plugin_states=live.plugin_states) == live


async def under_newer_code(newer: Newer, returns: Sequence[tuple[Written, int]]) -> None:
    """Let each session come back from so many of its records under *newer* code."""
    with newer.before():
        packed = {
            written.seed: written.packed() for written in {id(written): written for written, _ in returns}.values()
        }
    with newer.planted():
        for written, cut in returns:
            try:
                await comes_back(written, cut, packed[written.seed][:cut])
            except BaseException as error:
                note = f"seed {written.seed}, record {cut} of {len(written.records)}, under: {newer.name}"
                error.add_note(note)
                raise


def test_there_are_forty_changes() -> None:
    assert len({newer.name for newer in CHANGES}) == len(CHANGES) >= 40


@pytest.mark.long
def test_sessions_come_back_under_newer_code_at_any_record() -> None:
    returns: dict[str, list[tuple[Written, int]]] = {newer.name: [] for newer in CHANGES}
    begin = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)

    async def write(seed: int, _: trio.testing.MockClock) -> None:
        written = await Written.by(seed)
        for cut in range(1, len(written.records) + 1):
            for nth in range(AT_EACH[profile()]):
                newer = CHANGES[(7 * seed + cut // TOGETHER + 13 * nth) % len(CHANGES)]
                returns[newer.name].append((written, cut))

    async def come_back(newer: Newer, _: trio.testing.MockClock) -> None:
        await under_newer_code(newer, returns[newer.name])

    for seed in range(begin, begin + SESSIONS[profile()]):
        run(0, ClockWatch(), partial(write, seed))
    for newer in CHANGES:
        run(0, ClockWatch(), partial(come_back, newer))
    assert min(map(len, returns.values())) > 2 * AT_EACH[profile()]
    assert sum(map(len, returns.values())) > 10 * SESSIONS[profile()] * AT_EACH[profile()]


@pytest.mark.parametrize("newer", CHANGES, ids=lambda newer: newer.name)
def test_each_change_is_one(newer: Newer) -> None:
    """A change that changes nothing would prove nothing: it must alter the code, or what is stored."""
    with newer.planted() as planting:
        assert planting._undo._exit_callbacks or newer.older is not None  # type: ignore[attr-defined]  # noqa: SLF001
