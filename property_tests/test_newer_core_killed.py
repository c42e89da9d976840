"""A process is killed with SIGKILL while it writes sessions; another one with newer code brings each of them back.

`AGENTRAIL_PROFILE=campaign` kills `AGENTRAIL_KILLS` processes (2,000 if not set), and prints a table with `-s`.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio

from property_tests.newer_core import CHANGES
from tests.kit import Phase
from tests.patience import within
from tests.profiles import CAMPAIGN
from tests.recovery.client import SESSIONS, Connection, Log, User, Victim
from tests.recovery.oracle import Found, added_up, checked, fates
from tests.recovery.witness import runs

KILLS = int(os.environ.get("AGENTRAIL_KILLS", "2000")) if CAMPAIGN else 5
TOGETHER = 4

HEARD = range(5, 150)
"""After how many events, heard from all sessions together, a process is killed."""

SETTLED_WITHIN = within(30.0)
"""Seconds in which sessions that come back must come to rest."""

MAY_BE = {
    "pure": {"done", "taken back"},
    "idempotent": {"done", "taken back"},
    "checkable": {"done", "not started", "unknown", "taken back"},
    "unsafe": {"unknown"},
    "risky": {"unknown"},
}
"""What may become of a call that was in flight, by the effect class of its tool."""

READING = trio.Lock()
"""This process reads the records of one change at a time: to convert them, its code is changed too."""


class Change:
    """One process that is killed, and the next one, whose code has the change at *place*."""

    def __init__(self, victim: Victim, number: int, seed: int) -> None:
        self.place = number % len(CHANGES)
        self._victim = victim
        self._name = str(number)
        self._folder = victim.folder / self._name
        self._chance = random.Random(seed)
        self._log = victim.log = Log()
        self._users = [User(victim, session, random.Random(f"{seed} {session}")) for session in SESSIONS]

    async def killed(self) -> dict[str, Found]:
        """Kill the process before the change, with sessions at work; return what it has written."""
        until = self._chance.choice(HEARD)
        async with trio.open_nursery() as nursery, self._life("before") as (connection, _):
            for user in self._users:
                nursery.start_soon(user.use, connection)
            with trio.fail_after(SETTLED_WITHIN):
                while sum(self._log.kinds.values()) < until:  # noqa: ASYNC110 - nobody sets an event for it
                    await trio.sleep(0.001)
        assert self._victim.status == -9, "it ended by itself"
        return await self._checked()

    async def back(self, left: dict[str, Found]) -> Counter[str]:
        """Bring all sessions back by the process after the change; return what became of calls in flight."""
        log = self._log
        doubtful = {f"{session}/{call.call_id}": call.name for session, k in left.items() for call in k.in_flight}
        async with self._life("after") as (connection, _):
            with trio.fail_after(SETTLED_WITHIN):
                for user, session in zip(self._users, SESSIONS, strict=True):
                    await connection.open(session)
                    await user.repeat(connection)
                for session in SESSIONS:
                    await connection.rest(session)
                    told = await connection.ask(
                        do="prompt", session=session, text="pure unsafe", command=f"on {session}"
                    )
                    assert told.get("ref"), told
                    await connection.rest(session)
        found = await self._checked()
        for session, known in found.items():
            assert known.state.phase is Phase.IDLE
            assert [message.text for message in known.state.history].count("pure unsafe") == 1
            before = left[session].records if session in left else ()
            assert known.records[: len(before)] == before
            assert len(known.records) > len(before)
        assert [call for known in found.values() for call in known.in_flight] == []
        became = fates(found, doubtful)
        for key in became:
            name, _, fate = key.partition(": ")
            assert fate in MAY_BE[name], key
        figures = Counter(kills=1, sessions=len(left))
        figures["commands given again"] = sum(sent.again for sent in log.sent.values())
        figures["events heard"] = sum(map(len, log.heard.values()))
        figures["records before"] = sum(len(known.records) for known in left.values())
        figures["records after"] = sum(len(known.records) for known in found.values()) - figures["records before"]
        figures["tools run"] = len(runs(self._folder / "witness"))
        return figures + became

    def _life(self, when: str) -> AbstractAsyncContextManager[tuple[Connection, int]]:
        return self._victim.life(arm=f"{self._name} {when} {self.place}")

    async def _checked(self) -> dict[str, Found]:
        async with READING:
            with CHANGES[self.place].planted():
                return await checked(self._folder, self._log, added_up)


@pytest.mark.long
async def test_every_session_comes_back_under_newer_code_after_its_process_was_killed(tmp_path: Path) -> None:
    numbers, figures = iter(range(KILLS)), Counter[str]()
    first = random.SystemRandom().randrange(1 << 30) if CAMPAIGN else 0

    async def work(name: int) -> None:
        (tmp_path / f"{name}").mkdir()
        with Victim(tmp_path / f"{name}", "property_tests.newer_victim") as victim:
            for number in numbers:
                change = Change(victim, number, first + number)
                try:
                    figures.update(await change.back(await change.killed()))
                except BaseException as error:
                    error.add_note(f"seed {first + number}, under: {CHANGES[change.place].name}")
                    raise

    async with trio.open_nursery() as nursery:
        for name in range(TOGETHER):
            nursery.start_soon(work, name)
    print("\n" + "\n".join(f"{name:<26}{count:>8}" for name, count in sorted(figures.items())))  # noqa: T201
    assert figures["kills"] == KILLS
    settled = {key.partition(": ")[0] for key in figures if ": " in key}
    assert settled == MAY_BE.keys() if CAMPAIGN else settled, "no call was in flight when a process was killed"
