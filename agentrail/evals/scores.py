"""`Score` and `Scorer`: what is thought of a run, and who thinks so."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Final, TypeAlias, cast

from agentrail.errors import UsageError
from agentrail.evals.checked_struct import CheckedStruct
from agentrail.evals.runs import Run
from agentrail.values.argument_checks import checked

LARGEST: Final = 1e100
"""The largest value of a score, on both sides of 0: sums of such values, and their squares, are finite, too."""


class Score(CheckedStruct, frozen=True):
    """How good a run is in one respect."""

    value: float
    """From 0 to 1, usually; any number up to 1e100, of which a higher one is better."""
    why: str = ""
    """The reason, for people."""
    usd: float | None = 0.0
    """What the score itself has cost, such as the requests of a judge; `None` if a price is unknown."""


class FailedScoreError(Exception):
    """A scorer could not score a run, and asking has cost money."""

    def __init__(self, text: str, usd: float | None) -> None:
        super().__init__(text)
        self.text = text
        """Why it could not."""
        self.usd = usd
        """What it has cost in US dollars; `None` if a price is unknown."""


Opinion: TypeAlias = bool | float | Score | None
"""What a scorer answers; `None` if it has nothing to say of this case."""

ScoreFunction: TypeAlias = "Callable[[Run], Opinion | Awaitable[Opinion]]"
"""A scorer as a plain function, which may be async."""


class Scorer:
    """A function that scores runs, with a name."""

    @checked
    def __init__(self, name: str, function: Callable[[Run], Opinion | Awaitable[Opinion]]) -> None:
        self.name = name
        """Name under which its scores are reported and compared."""
        self._function = function
        """The function itself."""

    def __call__(self, run: Run) -> Opinion | Awaitable[Opinion]:
        """Score *run* as the function does."""
        return self._function(run)

    def __repr__(self) -> str:
        return f"<Scorer {self.name}>"


@checked
def scorer(function: Callable[[Run], Opinion | Awaitable[Opinion]]) -> Scorer:
    """Make a function that scores a run a `Scorer`, with its name."""
    return Scorer(getattr(function, "__name__", type(function).__name__), function)


def as_scorer(value: object) -> Scorer:
    """Return *value* as a scorer; raise `UsageError` if it is none."""
    if isinstance(value, Scorer):
        return value
    if not callable(value):
        raise UsageError("bad-evaluation", "score", f"a `{type(value).__name__}` is no scorer; use a function of a run")
    return scorer(cast("ScoreFunction", value))


async def scored(judge: Scorer, run: Run) -> Score | None:
    """Return what *judge* says of *run*, `None` if nothing; raise whatever it raises, and for what is no number."""
    answer = judge(run)
    opinion: object = await answer if isawaitable(answer) else answer
    if opinion is None:
        return None
    score = opinion if isinstance(opinion, Score) else Score(_number(opinion))
    _number(score.value)
    return score


def _number(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"it answered {value!r}, which is no finite number, boolean, `Score` or None")
    if abs(value) > LARGEST:
        raise ValueError(f"it answered a number beyond {LARGEST:g}, whose mean with others cannot be told")
    return float(value)
