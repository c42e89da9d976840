"""`compare`: whether the results of one experiment are better than those of another, or nobody can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final, Literal, TypeAlias

import msgspec

from agentrail.errors import UsageError
from agentrail.evals.results import Results
from agentrail.evals.sign_flips import flip_p, holm, interval, least_p, least_seen
from agentrail.values.argument_checks import checked

ALPHA: Final = 0.05
"""How often results that are alike may be called different: at most so often, all scorers together."""

FINISHED: Final = "finished"
"""Name under which it is compared how many runs did not fail, if some did."""

RAREST: Final = 0.001
"""The smallest probability that is shown as a number."""

MOST_NAMED: Final = 10
"""The most cases that a note names."""

Verdict: TypeAlias = Literal["better", "worse", "no difference seen", "too few cases"]
"""What a comparison by one scorer comes to."""


class CaseChange(msgspec.Struct, frozen=True):
    """The means of one case, before and after."""

    case: str
    """Name of the case."""
    before: float
    """Mean of its repetitions in the baseline."""
    after: float
    """Mean of its repetitions now."""


class ScorerComparison(msgspec.Struct, frozen=True):
    """What has changed by one scorer."""

    scorer: str
    """Name of the scorer."""
    verdict: Verdict
    """What came of it."""
    before: float
    """Mean of the cases in the baseline."""
    after: float
    """Mean of the same cases now."""
    low: float
    """The lower limit of the difference: it is above this in 97.5 of 100 samples of the cases."""
    high: float
    """The upper limit of the difference."""
    p: float
    """How often chance alone makes such a difference, raised for the number of scorers."""
    unseen: float
    """A difference below this would have been missed more than once in five experiments."""
    cases: tuple[CaseChange, ...]
    """The cases that have scores in both, in their order."""

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        count = len(self.cases)
        means = f"{self.before:.2f} → {self.after:.2f} in {count} {'case' if count == 1 else 'cases'}"
        match self.verdict:
            case "too few cases":
                return f"too few cases: {means}; with so few, no difference could be told from chance"
            case "no difference seen":
                return f"no difference seen: {means}; one below {self.unseen:.2f} would probably be missed"
            case _:
                rare = f"{self.p:.3f}" if self.p >= RAREST else f"less than {RAREST}"
                limits = f"between {self.low:+.2f} and {self.high:+.2f}"
                return f"{self.verdict}: {means}, {limits}; chance alone does this with a probability of {rare}"


class Comparison(msgspec.Struct, frozen=True):
    """What has changed from a baseline to the results of now, by each scorer that both have."""

    baseline: str
    """Name of the experiment that was the baseline."""
    name: str
    """Name of the other experiment."""
    scorers: tuple[ScorerComparison, ...]
    """The comparisons, one for each scorer."""
    notes: tuple[str, ...]
    """What is not in the comparison, in sentences: failed runs, cases and scorers of one side alone."""

    @property
    def is_worse(self) -> bool:
        """Whether something is worse by one of the scorers."""
        return any(scorer.verdict == "worse" for scorer in self.scorers)

    @property
    def verdict(self) -> Verdict:
        """What it comes to by all scorers: `worse` if one is, else `better` if one is."""
        verdicts = [scorer.verdict for scorer in self.scorers]
        order: tuple[Verdict, ...] = ("worse", "better", "no difference seen", "too few cases")
        return next(verdict for verdict in order if verdict in verdicts)

    @property
    def is_better(self) -> bool:
        """Whether something is better by one of the scorers, and nothing is worse."""
        return not self.is_worse and any(scorer.verdict == "better" for scorer in self.scorers)


@checked
def compare(baseline: Results, results: Results) -> Comparison:
    """Compare *results* with those of a *baseline*, case by case, by each scorer that both have.

    Repetitions are averaged inside a case. `better` and `worse` are said only if tossed signs of the differences give
    such a mean at most five times in a hundred, all scorers together.
    """
    names = [name for name in baseline.scorers if name in results.scorers]
    if not names:
        raise UsageError("bad-evaluation", "compare the results", "they have no scorer in common")
    values = {name: (baseline.values(name), results.values(name)) for name in names}
    if baseline.failed or results.failed:
        values[FINISHED] = (_finished(baseline), _finished(results))
    changes = {name: _changes(before, after) for name, (before, after) in values.items()}
    changes = {name: rows for name, rows in changes.items() if rows}
    if not changes:
        raise UsageError("bad-evaluation", "compare the results", "they have no case with scores in common")
    differences = {name: [row.after - row.before for row in rows] for name, rows in changes.items()}
    able = sum(least_p(sum(map(bool, numbers))) <= ALPHA for numbers in differences.values())
    raised = holm([flip_p(numbers) for numbers in differences.values()], able)
    repeats = max(1, min(baseline.repeats, results.repeats))
    compared = tuple(
        _compared(name, changes[name], differences[name], p, max(1, able), 1 / repeats)
        for name, p in zip(changes, raised, strict=True)
    )
    return Comparison(baseline.name, results.name, compared, tuple(_notes(baseline, results)))


def _compared(
    name: str, rows: Sequence[CaseChange], differences: Sequence[float], p: float, scorers: int, step: float
) -> ScorerComparison:
    """Return the comparison by one of so many *scorers* that may differ; its raised p is *p*."""
    low, high = interval(differences)
    verdict: Verdict = "no difference seen"
    if least_p(len(rows)) * scorers > ALPHA:
        verdict = "too few cases"
    elif p <= ALPHA:
        verdict = "better" if sum(differences) > 0 else "worse"
    before, after = fmean([row.before for row in rows]), fmean([row.after for row in rows])
    unseen = least_seen(differences, step)
    return ScorerComparison(name, verdict, before, after, low, high, p, unseen, tuple(rows))


def _changes(before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]) -> list[CaseChange]:
    return [CaseChange(case, fmean(before[case]), fmean(after[case])) for case in before if case in after]


def _finished(results: Results) -> dict[str, list[float]]:
    """Return for each case whether its runs came to an end."""
    values: dict[str, list[float]] = {}
    for run in results.runs:
        values.setdefault(run.case, []).append(float(not run.error))
    return values


def _notes(baseline: Results, results: Results) -> list[str]:
    """Return what is not in the comparison."""
    notes: list[str] = []
    for side, of in (("baseline", baseline), ("results", results)):
        if of.failed:
            notes.append(f"{of.failed} of {len(of.runs)} runs of the {side} failed, and have no score")
        if of.missing:
            notes.append(f"{of.missing} runs of the {side} are missing: {of.stopped or 'they were not made'}")
    for side, only in (
        ("the baseline", [case for case in baseline.cases if case not in results.cases]),
        ("the results", [case for case in results.cases if case not in baseline.cases]),
    ):
        if only:
            more = " …" if len(only) > MOST_NAMED else ""
            notes.append(f"only in {side}, so not compared: {', '.join(only[:MOST_NAMED])}{more}")
    new = [name for name in results.scorers if name not in baseline.scorers]
    return notes + [f"the baseline has no scores of `{name}`" for name in new]
