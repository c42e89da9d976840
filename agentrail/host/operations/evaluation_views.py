"""What experiments came to, as clients see it. Imported at the first request: most hosts have no experiments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final

from agentrail.api.views import (
    CaseScoreView,
    CaseView,
    EvaluationRunView,
    EvaluationView,
    ExperimentView,
    ScorerComparisonView,
    ScorerMeanView,
    ScoreView,
)
from agentrail.errors import UsageError
from agentrail.evals.comparisons import Comparison, compare
from agentrail.evals.results import Results, ScoredRun
from agentrail.evals.results_folder import ResultsFolder
from agentrail.evals.sign_flips import mean_range

LONGEST: Final = 2_000
"""The most characters of a reply that are shown; its session has all."""


def experiment_view(file: str, at_ms: int, results: Results) -> ExperimentView:
    """Return what the *results* in *file* came to, which was written *at_ms*, without their cases."""
    return ExperimentView(
        file,
        results.name,
        results.dataset,
        at_ms,
        len(results.cases),
        results.repeats,
        len(results.runs),
        results.failed,
        results.missing,
        results.stopped,
        results.usd,
        tuple([_scorer_mean_view(results, scorer) for scorer in results.scorers]),
        results.baseline,
        results.verdict,
    )


def _scorer_mean_view(results: Results, scorer: str) -> ScorerMeanView:
    means = [fmean(values) for values in results.values(scorer).values()]
    low, high = mean_range(means) if len(means) > 1 else (None, None)
    return ScorerMeanView(scorer, results.mean(scorer), low, high)


def evaluation_view(
    folder: ResultsFolder[ExperimentView], experiment: ExperimentView, baseline: ExperimentView | None, case: str | None
) -> EvaluationView:
    """Return an *experiment* of *folder* beside its *baseline*, with the runs of *case* in both."""
    results = folder.results(experiment.file)
    before = None if baseline is None else folder.results(baseline.file)
    comparison, problem = None, ""
    if before is not None:
        try:
            comparison = compare(before, results)
        except UsageError as error:
            problem = str(error)
    runs = [*_runs(results, case, is_baseline=False), *_runs(before, case, is_baseline=True)]
    return EvaluationView(
        experiment,
        baseline,
        _scorer_views(comparison),
        tuple(_case_views(results, before)),
        tuple(runs),
        (*([problem] if problem else []), *(comparison.notes if comparison else ()), *results.notes),
    )


def _scorer_views(comparison: Comparison | None) -> tuple[ScorerComparisonView, ...]:
    scorers = () if comparison is None else comparison.scorers
    return tuple(
        [
            ScorerComparisonView(
                scorer.scorer,
                scorer.verdict,
                scorer.before,
                scorer.after,
                scorer.low,
                scorer.high,
                scorer.unseen,
                len(scorer.cases),
                scorer.sentence,
            )
            for scorer in scorers
        ]
    )


def _case_views(results: Results, before: Results | None) -> Iterator[CaseView]:
    """Yield the cases of *results*, with their means there and *before*."""
    now = {scorer: results.values(scorer) for scorer in results.scorers}
    old = {scorer: before.values(scorer) if before is not None else {} for scorer in results.scorers}
    runs_by_case: dict[str, list[ScoredRun]] = {case: [] for case in results.cases}
    for run in results.runs:
        runs_by_case[run.case].append(run)
    for case, runs in runs_by_case.items():
        errors = [run.error for run in runs if run.error]
        scores = [
            CaseScoreView(scorer, _mean(old[scorer].get(case)), _mean(now[scorer].get(case)))
            for scorer in results.scorers
        ]
        yield CaseView(case, len(runs), len(errors), errors[0] if errors else "", tuple(scores))


def _mean(values: Sequence[float] | None) -> float | None:
    return fmean(values) if values else None


def _runs(results: Results | None, case: str | None, *, is_baseline: bool) -> Iterator[EvaluationRunView]:
    """Yield the runs of *case*."""
    for run in () if results is None else results.runs:
        if run.case == case:
            scores = [ScoreView(name, score.value, score.why) for name, score in run.scores.items()]
            errors = [ScoreView(name, None, why) for name, why in run.errors.items()]
            yield EvaluationRunView(
                is_baseline, run.repeat, run.session, run.reply[:LONGEST], run.error, run.seconds, run.usd,
                (*scores, *errors),
            )  # fmt: skip
