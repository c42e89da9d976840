"""What a host asks of its journal for each session that it brings back: clients wait for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from agentrail import SessionSpec
from agentrail.journals import NO_LEASE, Claim, Latest, Lease, Record, SqliteJournal
from agentrail.testing import ScriptedModel, stall
from tests.host.hosted import Desk, open_desk
from tests.patience import within

pytestmark = pytest.mark.long

SESSIONS: Final = 8


class Counting(SqliteJournal):
    """A journal that counts the calls about single sessions."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.calls: Counter[str] = Counter()

    def _count(self, call: str, session_id: str) -> None:
        if session_id.startswith("h.acme."):  # a host that starts also tries whether its journal can be used
            self.calls[call] += 1

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        self._count("claim", session_id)
        return await super().claim(session_id, holder, lease, take_over=take_over)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        self._count("append", claim.session_id)
        return await super().append(claim, expected, records)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        self._count("read", session_id)
        return await super().read(session_id, after, limit)

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        self._count("record_of_seq", session_id)
        return await super().record_of_seq(session_id, seq)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        self._count("latest", session_id)
        return await super().latest(session_id, upto, limit)


def stalling_spec() -> SessionSpec:
    return SessionSpec(model=ScriptedModel([stall(after=2)], repeat_last=True))


async def streaming(desk: Desk) -> None:
    """Wait until the responses of all sessions come."""
    tree = desk.serving.supervisor.tree
    with trio.fail_after(within(10.0)):
        while [child.phase for child in tree().children] != ["streaming"] * SESSIONS:  # noqa: ASYNC110 - no event
            await trio.sleep(0.01)


async def test_a_session_is_brought_back_by_one_look_one_claim_and_one_read(tmp_path: Path) -> None:
    async with open_desk(stalling_spec(), journal=SqliteJournal(tmp_path / "kept.db")) as desk:
        for number in range(SESSIONS):
            sent = await desk.ann.post("/v1/sessions", json={"session": f"s{number}"})
            assert sent.status_code == 201
            sent = await desk.ann.post(f"/v1/sessions/s{number}/prompt", json={"message": "hi"})
            assert sent.status_code == 202
        await streaming(desk)
    journal = Counting(tmp_path / "kept.db")
    async with open_desk(stalling_spec(), journal=journal) as desk:
        await streaming(desk)
        await trio.testing.wait_all_tasks_blocked()
        assert journal.calls == {"read": SESSIONS, "claim": SESSIONS, "latest": SESSIONS, "append": SESSIONS}
