"""How well the calls of a run match the expected ones: by names and arguments, never by ids, with partial credit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from agentrail.evals.calls import ExpectedCall, is_same_json
from agentrail.evals.runs import MadeCall

Order: TypeAlias = Literal["any", "in order", "exact", "some"]
"""All expected calls in any order, or in theirs with others between, or these alone; or one of them."""

Arguments: TypeAlias = Literal["named", "all", "none"] | Callable[[Mapping[str, object], Mapping[str, object]], float]
"""Which arguments count: those that are expected, all, none; or a function of expected and actual ones, from 0 to 1."""


def match_share(
    expected: Sequence[ExpectedCall], actual: Sequence[MadeCall], order: Order, arguments: Arguments
) -> float:
    """Return how well the *made* calls match the *expected* ones, of which there are some, from 0 to 1."""
    table = [[_likeness(call, other, arguments) for other in actual] for call in expected]
    match order:
        case "some":
            return max((likeness for row in table for likeness in row), default=0.0)
        case "any":
            return _best_pairs(table) / len(expected)
        case "in order":
            return _best_sequence(table) / len(expected)
        case "exact":
            return _best_sequence(table) / max(len(expected), len(actual))


def _likeness(expected: ExpectedCall, actual: MadeCall, arguments: Arguments) -> float:
    """Return how alike two calls are: 0 if their tools differ, else one part for the tool and one for each argument."""
    if expected.name != actual.name:
        return 0.0
    if callable(arguments):
        return float(arguments(expected.args, actual.args))
    if arguments == "none":
        return 1.0
    names = expected.args.keys() | (actual.args.keys() if arguments == "all" else ())
    equal = sum(
        name in expected.args and name in actual.args and is_same_json(expected.args[name], actual.args[name])
        for name in names
    )
    return (1 + equal) / (1 + len(names))


def _best_pairs(table: Sequence[Sequence[float]]) -> float:
    """Return the sum of the most alike pairs of an expected and an actual one, each call in one pair."""
    pairs = sorted(
        ((likeness, row, column) for row, line in enumerate(table) for column, likeness in enumerate(line)),
        key=lambda pair: (-pair[0], pair[1], pair[2]),
    )
    rows, columns, total = set[int](), set[int](), 0.0
    for likeness, row, column in pairs:
        if row not in rows and column not in columns:
            rows.add(row)
            columns.add(column)
            total += likeness
    return total


def _best_sequence(table: Sequence[Sequence[float]]) -> float:
    """Return the sum of the most alike pairs whose calls are in the same order: a longest common subsequence."""
    best = [0.0] * (len(table[0]) + 1)
    for line in table:
        above, best = best, [0.0]
        for column, likeness in enumerate(line):
            best.append(max(above[column + 1], best[column], above[column] + likeness))
    return best[-1]
