"""A process under load is killed with SIGKILL at random moments; then its client checks what is left.

`AGENTRAIL_PROFILE=campaign` kills it `AGENTRAIL_KILLS` times (1,000 if not set), and prints a table with `-s`.
"""

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest
import trio

from tests.patience import PATIENCE, within
from tests.profiles import CAMPAIGN
from tests.recovery.client import SESSIONS, Eraser, User, Victim
from tests.recovery.oracle import checked, fates
from tests.recovery.victim import EFFECTS
from tests.recovery.witness import runs

pytestmark = pytest.mark.long

LIVES = 20 if CAMPAIGN else 10
KILLS = int(os.environ.get("AGENTRAIL_KILLS", "1000")) if CAMPAIGN else 30
TOGETHER = 4

SOON = 0.15
"""A quarter of the lives end within these seconds, often while the process starts."""

LATER = 1.0
"""The other lives end within these seconds, or when they have got `WORK` done."""

WORK = 10
"""Commands that are answered in each of the other lives: on a busy machine, a second may not see one."""

SETTLED_WITHIN = within(10.0)
"""Seconds after which no call that was in flight may be in doubt."""


class Tale:
    """What happened to one victim in all its lives, and to its calls in flight."""

    def __init__(self, folder: Path, seed: int) -> None:
        folder.mkdir()
        self.victim = Victim(folder)
        self.chance = random.Random(seed)
        self.users = [User(self.victim, session, random.Random(f"{seed} {session}")) for session in SESSIONS]
        self.eraser = Eraser(self.victim, random.Random(f"{seed} eraser"))
        self.doubtful: dict[str, str] = {}
        self.kills = 0
        self.halfway = 0
        self.settled_in = 0.0
        self.figures: Counter[str] = Counter()

    @property
    def answered(self) -> int:
        """How many commands have been answered."""
        return sum(sent.answered for sent in self.victim.log.sent.values())

    async def begin(self) -> None:
        """Write sessions that are to be erased."""
        async with self.victim.life() as (connection, _):
            await self.eraser.prepare(connection, LIVES)

    async def live_and_die(self) -> None:
        """Live for a random time under load, be killed, and be checked."""
        async with trio.open_nursery() as nursery, self.victim.life() as (connection, _):
            for user in self.users:
                nursery.start_soon(user.use, connection)
            nursery.start_soon(self.eraser.use, connection)
            longest, work = (SOON, 0) if self.chance.random() < 0.25 else (LATER, WORK)
            old_answered = self.answered
            await trio.sleep(self.chance.random() * longest)
            with trio.fail_after(2 * PATIENCE):
                while self.answered < old_answered + work:  # noqa: ASYNC110 - no event tells of it
                    await trio.sleep(0.01)
        assert self.victim.status == -9, "it ended by itself"
        self.kills += 1
        self.halfway += sum(bool(doomed.asked) and not doomed.is_done for doomed in self.victim.log.doomed.values())
        for session, entry in (await checked(self.victim.folder, self.victim.log)).items():
            self.doubtful |= {f"{session}/{call.call_id}": call.name for call in entry.in_flight}

    async def come_to_rest(self) -> None:
        """Start once more, without a kill, until no work is under way."""
        async with self.victim.life() as (connection, _):
            began = time.monotonic()
            with trio.fail_after(SETTLED_WITHIN):
                for session in SESSIONS:
                    await connection.open(session)
                for session in SESSIONS:
                    await connection.rest(session)
                await self.eraser.repeat(connection)
            self.settled_in = time.monotonic() - began
        actual = await checked(self.victim.folder, self.victim.log)
        assert [call for entry in actual.values() for call in entry.in_flight] == []
        log = self.victim.log
        self.figures = fates(actual, self.doubtful)
        self.figures["records"] = sum(len(known_value.records) for known_value in actual.values())
        self.figures["events heard"] = sum(map(len, log.heard.values()))
        self.figures["commands acknowledged"] = sum(sent.acknowledged for sent in log.sent.values())
        self.figures["commands given again"] = sum(sent.again for sent in log.sent.values())
        self.figures["prompts dropped"] = sum(sent.refused == "PromptWasDropped" for sent in log.sent.values())
        for doomed in log.doomed.values():
            assert doomed.is_done or not doomed.asked
            self.figures[f"sessions to {doomed.asked or 'keep'}"] += 1
        self.figures["killed while erasing"] = self.halfway
        self.figures["tools run"] = len(runs(self.victim.folder / "witness"))


async def tell(folder: Path, seed: int, kills: int) -> Tale:
    """Kill one victim *kills* times."""
    tale = Tale(folder, seed)
    with tale.victim:
        await tale.begin()
        for _ in range(kills):
            await tale.live_and_die()
        await tale.come_to_rest()
    return tale


def table_of(tales: list[Tale]) -> str:
    """Return the totals of all victims, one per line."""
    figures = sum((tale.figures for tale in tales), Counter(kills=sum(tale.kills for tale in tales)))
    lines = [f"{name:<26}{count:>8}" for name, count in sorted(figures.items())]
    return "\n".join([*lines, f"settled within {max(tale.settled_in for tale in tales):.2f} s"])


async def test_nothing_is_lost_and_nothing_happens_twice_when_the_process_is_killed(tmp_path: Path) -> None:
    tales: list[Tale] = []
    seeds = iter(range(KILLS // LIVES))
    first = random.SystemRandom().randrange(1 << 30) if CAMPAIGN else 0

    async def work() -> None:
        tales.extend([await tell(tmp_path / f"{seed}", first + seed, LIVES) for seed in seeds])

    async with trio.open_nursery() as nursery:
        for _ in range(TOGETHER):
            nursery.start_soon(work)
    table = table_of(tales)
    print(f"\n{table}")  # noqa: T201 - the campaign is about the figures
    hit = {name for name in EFFECTS for tale in tales if any(key.startswith(f"{name}:") for key in tale.figures)}
    assert hit == set(EFFECTS) if CAMPAIGN else hit, "no call was in flight when a process was killed"
    assert "commands given again" in table
    assert {"sessions to delete", "sessions to redact"} <= {key for tale in tales for key in tale.figures}
    assert "killed while erasing" in table or not CAMPAIGN
    assert "prompts dropped" in table, "no abort has cleared anything"
