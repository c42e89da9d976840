"""Drawn results, and agents that answer by dice: what the tests of evaluations are made of."""

from __future__ import annotations

import random
from collections.abc import Sequence

import trio

from agentrail import SessionSpec, tool
from agentrail.evals import Case, Results, Score, ScoredRun, expect
from agentrail.models import EmitChunk, ModelRequest, Response, UserMessage
from agentrail.testing import call, say


def drawn(right: Sequence[float], seed: int, repeats: int = 5, scorers: int = 1) -> Results:
    """Return results of one case for each number in *right*, which is how often a run of it is right."""
    dice = random.Random(seed)
    names = tuple(f"scorer-{number}" for number in range(scorers))
    runs = [
        ScoredRun(f"case-{index}", repeat, "", scores={name: Score(float(dice.random() < share)) for name in names})
        for index, share in enumerate(right)
        for repeat in range(1, repeats + 1)
    ]
    return Results(f"drawn-{seed}", tuple(f"case-{index}" for index in range(len(right))), names, repeats, tuple(runs))


class Dice:
    """A model that looks at each room, and is then right as often as *right* says."""

    name = "dice"

    def __init__(self, right: float, seed: int = 0) -> None:
        self.requests = 0
        self._right = right
        self._dice = random.Random(seed)

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        await trio.lowlevel.checkpoint()
        self.requests += 1
        last = request.messages[-1]
        if isinstance(last, UserMessage):
            return say(calls=[call("look", {"at": last.text})]).response
        prompt = next(message for message in reversed(request.messages) if isinstance(message, UserMessage))
        return say(f"it is in {prompt.text}" if self._dice.random() < self._right else "I do not know").response


@tool
async def look(at: str) -> str:
    """Look."""
    return f"in {at}"


def agent(right: float = 1.0, seed: int = 0) -> SessionSpec:
    return SessionSpec(model=Dice(right, seed), tools=[look])


def rooms(count: int) -> list[Case]:
    return [
        Case(f"room-{n}", (f"room {n}",), expected=f"it is in room {n}", calls=(expect("look", at=f"room {n}"),))
        for n in range(count)
    ]
