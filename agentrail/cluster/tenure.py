"""`Tenure`: whether a shard is still the one of its name, or Ray has made another, because it took this one for dead.

The fence of the journal keeps such a zombie from writing to what the other has claimed. But it would claim sessions
again, at the same address, whenever somebody asks for them: so it ends as soon as it knows.
"""

from __future__ import annotations

import secrets
from typing import Final

import trio

from agentrail.errors import AgentrailError, JournalUnavailable
from agentrail.ports.journal import Claim, Journal, Lease
from agentrail.runtime.shared.clock import Clock

PERIOD: Final = 0.5
"""Seconds between two looks."""


class Tenure:
    """The name *name* of a shard, claimed in *journal* by its newest process."""

    def __init__(self, journal: Journal, name: str, lasts: float) -> None:
        self._journal = journal
        self._name = f"-{name}"  # no session can have this id
        self._holder = f"{name}/{secrets.token_hex(8)}"
        self._lasts = int(1000 * lasts)
        self._claim: Claim | None = None

    async def begin(self) -> None:
        """Take the name, from whoever has it."""
        self._claim = await self._journal.claim(self._name, self._holder, self._lease(), take_over=True)

    async def lost(self) -> None:
        """Wait until another process has the name."""
        while True:
            await trio.sleep(PERIOD)
            try:
                if self._claim is None or await self._journal.renew([self._claim], self._lease()):
                    return
            except JournalUnavailable:
                continue  # then nobody else can take it either

    async def end(self) -> None:
        """Give the name up."""
        claim, self._claim = self._claim, None
        if claim is not None:
            try:
                await self._journal.release([claim])
            except AgentrailError:
                return  # its lease ends by itself

    def _lease(self) -> Lease:
        return Lease(Clock().now_ms(), self._lasts)
