"""`evaluate_case`: runs a case of an evaluation, and fails the test if its scores are too low."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import pytest
import trio

from agentrail.app.spec import SessionSpec
from agentrail.evals.cases import Case
from agentrail.evals.datasets import Dataset
from agentrail.evals.experiments import experiment
from agentrail.evals.reports import text_report
from agentrail.evals.results import Results
from agentrail.evals.scores import ScoreFunction, Scorer


class Evaluate(Protocol):
    """What the fixture `evaluate` is."""

    def __call__(
        self,
        case: Case,
        spec: SessionSpec | Callable[[Case], SessionSpec],
        scorers: Iterable[Scorer | ScoreFunction],
        *,
        repeats: int = 1,
        at_least: float = 1.0,
        folder: str = ".",
    ) -> Results:
        """Run *case* so often; fail the test if a run fails, or if a mean is not *at_least* so high."""
        ...


def evaluate_case(
    case: Case,
    spec: SessionSpec | Callable[[Case], SessionSpec],
    scorers: Iterable[Scorer | ScoreFunction],
    *,
    repeats: int = 1,
    at_least: float = 1.0,
    folder: str = ".",
) -> Results:
    """Run *case* as the fixture `evaluate` does, see `Evaluate`."""
    run = partial(experiment, Dataset([case], folder), spec, tuple(scorers), repeats=repeats)
    results = trio.run(run)
    means = [mean for scorer in results.scorers if (mean := results.mean(scorer)) is not None]
    if not means or min(means) < at_least or list(results.problems()):
        pytest.fail(
            f"at least {at_least:g} was wanted of each scorer, without a problem:\n{text_report(results)}",
            pytrace=False,
        )
    return results
