"""Print how memory goes on over many turns: sessions come and go, and each request leaves a cycle behind.

`AGENTRAIL_BENCH=small` takes fewer turns. Exits with 1 if memory grows.
"""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections import deque
from typing import Final, NamedTuple

import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.models import EmitChunk, ModelRequest, Response
from bench.rig import answer

TURNS_OF_ONE: Final = 10
"""After so many turns a session is stopped, and another one takes its place."""

LINKS: Final = 1_000
"""Objects of the cycle that a request leaves behind."""

GROWTH: Final = 1.1
"""How much more the second half of the run may take than the first: what waits for the collector goes up and down."""

MOST_CYCLES: Final = 1_000
"""How many cycles that a request has left behind may be there at a time."""


class Link:
    """A part of a cycle."""

    __slots__ = ("__weakref__", "after")

    after: Link


class Careless:
    """Answers at once, and leaves a cycle of `LINKS` objects behind, as code of users may."""

    name = "scripted:careless"

    def __init__(self) -> None:
        self.left: deque[weakref.ref[Link]] = deque()

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer."""
        await trio.lowlevel.checkpoint()
        links = [Link() for _ in range(LINKS)]
        for link, after in zip(links, (*links[1:], links[0]), strict=True):
            link.after = after
        self.left.append(weakref.ref(links[0]))
        return answer(1)

    def cycles(self) -> int:
        """Return how many cycles are still there."""
        while self.left and self.left[0]() is None:
            self.left.popleft()
        return sum(link() is not None for link in self.left)


class Seen(NamedTuple):
    """What was seen at a moment of the run."""

    blocks: int
    """Blocks of memory that objects have."""
    bytes: int
    """Bytes of the process that are in memory."""
    cycles: int
    """Cycles that are still there."""


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def run(sessions: int, turns: int, *, looks: int = 100, collected: bool = False) -> list[Seen]:
    """Return what is seen, so many times, while so many sessions at a time have so many turns together.

    If *collected*, a full collection comes before each look, and what is seen is what is in use.
    """
    model = Careless()
    spec = SessionSpec(model=model)
    seen: list[Seen] = []
    async with open_supervisor() as supervisor:
        there: deque[tuple[SessionHandle, int]] = deque()
        for number in range(sessions):
            there.append((await supervisor.spawn(spec), number % TURNS_OF_ONE))
        for turn in range(turns):
            session, had = there.popleft()
            await session.ask("go on")
            if had == TURNS_OF_ONE:
                await session.stop()
                session, had = await supervisor.spawn(spec), 0
            there.append((session, had + 1))
            if turn % (turns // looks) == 0:
                if collected:
                    gc.collect()
                seen.append(Seen(sys.getallocatedblocks(), _resident(), model.cycles()))
    return seen


def growth(seen: list[int]) -> float:
    """Return by which factor the most of the second half is more than the most of the first, without its beginning."""
    half = len(seen) // 2
    return max(seen[half:]) / max(seen[half // 2 : half])


def main() -> int:
    """Print the table, and say whether memory grows."""
    full = os.environ.get("AGENTRAIL_BENCH", "full") == "full"
    sessions, turns = (1_000, 100_000) if full else (20, 2_000)
    seen = trio.run(lambda: run(sessions, turns))
    blocks, resident = growth([each.blocks for each in seen]), growth([each.bytes for each in seen])
    cycles = max(each.cycles for each in seen)
    print(f"{turns:,} turns of {sessions:,} sessions at a time")
    missed = False
    for name, found, limit in (
        ("blocks of memory, growth", blocks, GROWTH),
        ("memory of the process, growth", resident, GROWTH),
        ("most cycles at a time", cycles, MOST_CYCLES),
    ):
        missed |= found > limit
        print(f"{name:46}{found:>10,.2f}{limit:>10,.2f}{'  MISSED' if found > limit else ''}")
    print(f"{'at the end, MB':46}{seen[-1].bytes / 1e6:>10,.0f}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
