"""`compare`: it finds what is there, is seldom wrong, and says when it cannot know."""

import random
from statistics import fmean

import pytest

from agentrail.errors import UsageError
from agentrail.evals import Results, Score, ScoredRun, compare
from agentrail.evals.sign_flips import flip_p, holm, interval, mean_range
from tests.evals.drawn import drawn
from tests.profiles import CAMPAIGN

TOLD = {"better", "worse"}


@pytest.mark.long
def test_results_of_the_same_agent_differ_at_most_five_times_in_a_hundred() -> None:
    shares = [0.2, 0.4, 0.5, 0.6, 0.6, 0.6, 0.7, 0.7, 0.8, 0.8, 0.9, 1.0]
    count = 1000 if CAMPAIGN else 200
    verdicts = [compare(drawn(shares, 2 * n), drawn(shares, 2 * n + 1)).scorers[0].verdict for n in range(count)]
    assert sum(verdict in TOLD for verdict in verdicts) <= 0.05 * count


@pytest.mark.long
def test_so_do_results_by_several_scorers() -> None:
    shares = [0.5] * 12
    count = 200 if CAMPAIGN else 100
    pairs = [(drawn(shares, 2 * n, scorers=5), drawn(shares, 2 * n + 1, scorers=5)) for n in range(count)]
    wrong = sum(any(each.verdict in TOLD for each in compare(*pair).scorers) for pair in pairs)
    assert wrong <= 0.05 * count


@pytest.mark.long
def test_a_better_agent_is_found_nine_times_in_ten() -> None:
    verdicts = [compare(drawn([0.6] * 12, 2 * n), drawn([0.95] * 12, 2 * n + 1)).scorers[0].verdict for n in range(100)]
    assert verdicts.count("better") >= 90
    assert "worse" not in verdicts


def test_a_worse_agent_is_worse() -> None:
    comparison = compare(drawn([0.95] * 12, 1), drawn([0.4] * 12, 2))
    assert comparison.is_worse
    assert not comparison.is_better
    assert "chance alone" in comparison.scorers[0].sentence


def test_five_cases_are_too_few_whatever_they_say() -> None:
    (scorer,) = compare(drawn([0.0] * 5, 1), drawn([1.0] * 5, 2)).scorers
    assert scorer.verdict == "too few cases"
    (scorer,) = compare(drawn([0.0] * 6, 1), drawn([1.0] * 6, 2)).scorers
    assert scorer.verdict == "better"


@pytest.mark.long
def test_it_says_which_difference_it_would_have_missed() -> None:
    (scorer,) = compare(drawn([0.6] * 12, 1), drawn([0.6] * 12, 2)).scorers
    assert scorer.verdict == "no difference seen"
    assert f"one below {scorer.unseen:.2f} would probably be missed" in scorer.sentence
    alike = [compare(drawn([0.5] * 12, 2 * n), drawn([0.5] * 12, 2 * n + 1)).scorers[0].unseen for n in range(20)]
    better = [0.5 + fmean(alike)] * 12
    found = [compare(drawn([0.5] * 12, 2 * n), drawn(better, 2 * n + 1)).is_better for n in range(50)]
    assert sum(found) >= 35


def test_scorers_that_say_the_same_of_all_cases_hide_no_difference() -> None:
    def with_constant(results: Results) -> Results:
        runs = [
            ScoredRun(
                run.case,
                run.repeat,
                "",
                scores=run.scores | {f"constant-{n}": Score(1.0) for n in range(9)},
            )
            for run in results.runs
        ]
        names = (*results.scorers, *(f"constant-{n}" for n in range(9)))
        return Results(results.name, results.cases, names, results.repeats, tuple(runs))

    comparison = compare(with_constant(drawn([0.4] * 12, 1)), with_constant(drawn([0.95] * 12, 2)))
    assert [each.verdict for each in comparison.scorers].count("better") == 1
    assert comparison.is_better


def test_failed_runs_are_told_and_compared() -> None:
    good = drawn([1.0] * 8, 1)
    runs = [run if run.repeat > 2 else ScoredRun(run.case, run.repeat, "", error="it crashed") for run in good.runs]
    bad = Results("bad", good.cases, good.scorers, good.repeats, tuple(runs))
    comparison = compare(good, bad)
    assert {each.scorer: each.verdict for each in comparison.scorers} == {
        "scorer-0": "no difference seen",
        "finished": "worse",
    }
    assert comparison.notes == ("16 of 40 runs of the results failed, and have no score",)


def test_cases_and_runs_of_one_side_alone_are_told() -> None:
    all_of_it = drawn([1.0] * 8, 1)
    part = Results("part", all_of_it.cases[:7], ("scorer-0",), 5, all_of_it.runs[:30], "2 USD are spent")
    comparison = compare(all_of_it, part)
    assert len(comparison.scorers[0].cases) == 6
    assert comparison.notes == (
        "5 runs of the results are missing: 2 USD are spent",
        "only in the baseline, so not compared: case-7",
    )


def test_results_with_nothing_in_common_are_refused() -> None:
    with pytest.raises(UsageError, match="no scorer in common"):
        compare(drawn([1.0], 1), Results("x", ("case-0",), ("other",), 5, ()))


def test_the_same_results_give_the_same_comparison() -> None:
    pair = drawn([0.5] * 20, 1), drawn([0.6] * 20, 2)
    assert compare(*pair) == compare(*pair)


@pytest.mark.long
@pytest.mark.parametrize("count", [7, 14, 30])
def test_p_and_interval_are_those_of_scipy(count: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    dice = random.Random(count)
    differences = [dice.gauss(0.2, 0.5) for _ in range(count)]
    theirs = stats.permutation_test(
        (differences,), fmean, permutation_type="samples", n_resamples=100_000 if count > 14 else 2**count, rng=0
    )
    assert flip_p(differences) == pytest.approx(theirs.pvalue, abs=1e-9 if count <= 14 else 0.02)
    limits = stats.bootstrap((differences,), fmean, vectorized=False, n_resamples=2000, method="percentile", rng=0)
    assert interval(differences) == pytest.approx(tuple(limits.confidence_interval), abs=0.03)


def by_values(**scorers: list[float]) -> Results:
    """Return results with one run of each case, by the values that each scorer gave."""
    count = len(next(iter(scorers.values())))
    names = tuple(f"case-{index}" for index in range(count))
    runs = [
        ScoredRun(name, 1, "", scores={scorer: Score(values[index]) for scorer, values in scorers.items()})
        for index, name in enumerate(names)
    ]
    return Results("now", names, tuple(scorers), 1, tuple(runs))


def test_with_more_scorers_a_difference_has_to_be_larger() -> None:
    nothing, change, noise = [0.0] * 7, [1.0] * 6 + [-0.1], [1.0, -1.0] * 3 + [1.0]
    assert compare(by_values(a=nothing), by_values(a=change)).verdict == "better"
    first, _ = compare(by_values(a=nothing, b=nothing), by_values(a=change, b=noise)).scorers
    assert first.verdict == "no difference seen"


def test_what_is_worse_by_one_scorer_is_worse() -> None:
    nothing, better, worse = [0.0] * 10, [1.0] * 10, [-1.0] * 10
    comparison = compare(by_values(a=nothing, b=nothing), by_values(a=better, b=worse))
    assert [scorer.verdict for scorer in comparison.scorers] == ["better", "worse"]
    assert (comparison.verdict, comparison.is_worse, comparison.is_better) == ("worse", True, False)


def test_failures_that_are_no_more_are_compared_too() -> None:
    dead = [ScoredRun(f"case-{index}", 2, "", error="dead") for index in range(8)]
    good = by_values(a=[1.0] * 8)
    baseline = Results("then", good.cases, good.scorers, 2, (*good.runs, *dead))
    verdicts = {scorer.scorer: scorer.verdict for scorer in compare(baseline, good).scorers}
    assert verdicts == {"a": "no difference seen", "finished": "better"}


def test_of_two_comparisons_the_rarer_one_has_the_smaller_p() -> None:
    assert holm([0.011, 0.01], 2) == [0.02, 0.02]


@pytest.mark.long
def test_the_range_of_a_mean_has_the_true_one_in_95_of_100_samples() -> None:
    dice = random.Random(1)
    for count in (5, 12, 40):
        ranges = [mean_range([dice.gauss(0.5, 0.2) for _ in range(count)]) for _ in range(1000)]
        assert sum(low <= 0.5 <= high for low, high in ranges) / 1000 == pytest.approx(0.95, abs=0.025), count
    low, high = mean_range([0.5, 0.5])
    assert (low, high) == (0.5, 0.5)
