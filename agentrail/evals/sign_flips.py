"""Statistics of paired differences: is their mean more than chance, between which limits is it, what went unseen.

All of it is drawn with a fixed seed, so that the same results always give the same verdict.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Final

MOST_EXACT: Final = 14
"""Up to so many differences all choices of signs are tried: 16,384."""

DRAWS: Final = 4_999
"""How many choices of signs are drawn if there are more differences."""

RESAMPLES: Final = 2_000
"""How many samples of the cases are drawn for the interval."""

TAIL: Final = 0.025
"""Share of the samples that is left out at each end of the interval."""

NORMAL: Final = 1.96
"""How many standard errors are on each side of a mean in its 95 % range, of many cases."""

POWER: Final = 2.8
"""How many standard errors a difference must have to be seen in four of five experiments: 1.96 + 0.84."""

POWER_OF_FEW: Final = 1.3
"""By this, shared by the number of cases, it must have more: their spread is an estimate, as in Student's t."""

SEED: Final = 20_261_129
"""Seed of all draws: any number, but always the same."""


def flip_p(differences: Sequence[float]) -> float:
    """Return how often a mean at least as far from 0 comes about if the sign of each difference is tossed."""
    changed = [difference for difference in differences if difference]
    if not changed:
        return 1.0
    observed = abs(sum(changed)) * (1 - 1e-9)  # sums of the same numbers in another order differ in the last bits
    if len(changed) <= MOST_EXACT:
        sums = [changed[0]]  # with the other sign of the first, all sums are the same but for their sign
        for difference in changed[1:]:
            sums = [total + sign * difference for total in sums for sign in (1, -1)]
        return sum(abs(total) >= observed for total in sums) / len(sums)
    rng, count = random.Random(SEED), 0  # noqa: S311 - statistics, no secret
    for _ in range(DRAWS):
        signs = rng.getrandbits(len(changed))
        total = sum(difference if signs >> index & 1 else -difference for index, difference in enumerate(changed))
        count += abs(total) >= observed
    return (1 + count) / (1 + DRAWS)


def least_p(cases: int) -> float:
    """Return the smallest p that so many *cases* can have."""
    return 2 / 2**cases if cases <= MOST_EXACT else 1 / (1 + DRAWS)


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Return the limits between which the mean is in 95 of 100 samples of the cases: a bootstrap over cases."""
    rng = random.Random(SEED)  # noqa: S311 - as above
    count = len(differences)
    sums = sorted(sum(rng.choices(differences, k=count)) for _ in range(RESAMPLES))
    cut = round(RESAMPLES * TAIL)
    return sums[cut] / count, sums[-cut - 1] / count


def mean_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the limits of the 95 % range of the mean of two *values* or more, by their spread."""
    count, mean = len(values), fmean(values)
    most = NORMAL * (1 + POWER_OF_FEW / count) * stdev(values) / sqrt(count)
    return mean - most, mean + most


def least_seen(differences: Sequence[float], step: float) -> float:
    """Return the mean difference that would be seen in four of five experiments like this one.

    *step* is by how much one repetition changes the mean of a case. Six changed cases are the fewest that can be told
    from chance, so that a smaller difference is not seen even if all else is equal.
    """
    count = len(differences)
    error = stdev(differences) / sqrt(count) if count > 1 else 1.0
    return max(POWER * (1 + POWER_OF_FEW / count) * error, 6 * step / count)


def holm(values: Sequence[float], able: int) -> list[float]:
    """Return the p of several comparisons, each raised so that one of them by chance is as rare as of a single one.

    Only so many of them as are *able* to differ count: one in which too few cases have changed never does (Tarone).
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    raised, highest = [0.0] * len(values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, values[index] * max(1, able - rank)))
        raised[index] = highest
    return raised
