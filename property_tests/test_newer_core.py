"""Sessions come back under newer code: each of forty changes of `core` is made between writing and coming back."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import cast
from unittest import mock

import pytest
import trio
import trio.testing

from agentrail import SessionHandle
from agentrail.adapters.journals import packing
from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.adapters.journals.packing import Packed, pack
from agentrail.codec import FORMAT, data_of, to_text, upcast
from agentrail.codec.upcasting import Upcaster
from agentrail.core.vocabulary.state import Phase, State
from agentrail.errors import AgentrailError
from agentrail.ports.journal import Record, folded, opening_of
from agentrail.testing.simulator.virtual import ClockWatch, run
from agentrail.values.messages import why_unfit
from property_tests.newer_core import CHANGES, Newer
from property_tests.planted import Planting
from property_tests.test_crash_anywhere import Doing, Past, Saying, check_runs, lived, rested, spec
from property_tests.volume import profile
from tests.recovery.mortal import SESSION, World, live

SESSIONS = 50
AT_EACH = {"ci": 3, "campaign": len(CHANGES)}
"""Under how many changes each session comes back at each of its records; the 50 sessions have 677 records."""
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
    what = ("prompt", "prompt", "steer", "steer now", "abort", "approve", "reject")
    doings = [Doing(chance.choice((0.0, 0.15, 0.3, 0.7, 1.5)), chance.choice(what)) for _ in range(5)]
    return sayings, [Doing(0.0, "prompt"), *doings]


class Older(MemoryJournal):
    """Has the records that code before a change has written, in an older format if that is another one."""

    def put_older(self, records: Sequence[Record], newer: Newer) -> None:
        shelf = self._shelves[SESSION]
        assert newer.older is not None
        for place, record in enumerate(records):
            data = newer.older(json.loads(pack(record).body))
            shelf.records[place] = Packed(json.dumps(data, separators=(",", ":")).encode(), {}, FORMAT - 1)


async def comes_back(past: Past, cut: int, sayings: Sequence[Saying], newer: Newer) -> None:
    """Bring the session back from its first *cut* records under newer code; it goes on, and rests again."""
    kept, ran = past.records[:cut], list[str]()
    journal = Older(encode=True)
    await journal.append(await journal.claim(SESSION, "test"), 0, kept)
    if newer.older is not None:
        journal.put_older(kept, newer)

    async def script(_: World, session: SessionHandle) -> None:
        await rested(session)
        with suppress(AgentrailError):
            await session.prompt("and now?")
        await rested(session)

    session = await live(World(journal), spec(sayings, ran), script)
    assert session is not None
    records = await journal.read(SESSION, 0, 10_000)
    assert len(records) > cut
    assert records[:cut] == kept or newer.older is not None
    seqs = [envelope.seq for record in records for envelope in record.events]
    assert seqs == list(range(1, len(seqs) + 1))
    state = session.inspect()
    assert state.phase in (Phase.IDLE, Phase.EXECUTING_TOOLS, Phase.ENDED)
    assert why_unfit(state.history, open_end=state.batch is not None) is None
    check_runs(ran, kept, records)
    check_fold(records, state)


def check_fold(records: Sequence[Record], live: State) -> None:
    """Check that the records add up to the live state."""
    state = opening_of(records[0])
    for record in records:
        state = folded(state, record)
    assert [to_text(data_of(s)) for s in state.plugin_states] == [to_text(data_of(s)) for s in live.plugin_states]
    assert state.but(plugin_states=live.plugin_states) == live


async def under_newer_code(seed: int) -> int:
    """Let a session of *seed* come back at each of its records, each time under other changes; return how often."""
    sayings, doings = drawn(seed)
    past = await lived(sayings, doings)
    returns = [(cut, nth) for cut in range(1, len(past.records) + 1) for nth in range(AT_EACH[profile()])]
    for cut, nth in returns:
        newer = CHANGES[(7 * seed + cut + 13 * nth) % len(CHANGES)]
        planting = Planting()
        upcasters = {FORMAT - 1: cast("Upcaster", newer.upcast)}
        try:
            newer.apply(planting)
            with mock.patch.object(packing, "upcast", partial(upcast, upcasters=upcasters)):
                await comes_back(past, cut, sayings, newer)
        except BaseException as error:
            error.add_note(f"seed {seed}, record {cut} of {len(past.records)}, under: {newer.name}")
            raise
        finally:
            planting.remove()
    return len(returns)


def test_there_are_forty_changes() -> None:
    assert len({newer.name for newer in CHANGES}) == len(CHANGES) >= 40


def test_sessions_come_back_under_newer_code_at_any_record() -> None:
    done = 0

    async def main(seed: int, _: trio.testing.MockClock) -> None:
        nonlocal done
        done += await under_newer_code(seed)

    begin = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
    for seed in range(begin, begin + SESSIONS):
        run(0, ClockWatch(), partial(main, seed))
    assert done > 200 * AT_EACH[profile()]


@pytest.mark.parametrize("newer", CHANGES, ids=lambda newer: newer.name)
def test_each_change_is_one(newer: Newer) -> None:
    """A change that changes nothing would prove nothing: it must alter the code, or what is stored."""
    planting = Planting()
    newer.apply(planting)
    planted = bool(planting._undo._exit_callbacks)  # type: ignore[attr-defined]  # noqa: SLF001
    planting.remove()
    assert planted or newer.older is not None
