"""Cuts the list of all tests into pieces, the longest first: a worker has one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from attrs import frozen

MOST_TESTS: Final = 60
"""Tests in a piece, at most: fixtures of a module are made once for each piece."""

MOST_SECONDS: Final = 60.0
"""Seconds of a piece with more than one test, at most, as far as they are known.

Each piece makes the fixtures of its module anew, and a browser with a host takes 3 s of CPU.
"""


@frozen
class Piece:
    """Tests of one file, or of one package with fixtures of its own, that one worker runs, one after the other."""

    indexes: tuple[int, ...]
    """Their places in the list of all tests."""
    seconds: float
    """How long they take, as far as that is known."""


def function_of(node_id: str) -> str:
    """Return the id without the parameters."""
    return node_id.partition("[")[0]


def pieces_of(ids: Sequence[str], seconds: Sequence[float], packages: Sequence[str]) -> list[Piece]:
    """Cut the tests with these *ids* into pieces; *seconds* has the time of each of them.

    *packages* has the package of each test that uses a fixture of one, else an empty text: those of one are a piece,
    so that its fixtures are made once.
    """
    by_package: dict[str, list[int]] = {}
    for index, package in enumerate(packages):
        by_package.setdefault(package, []).append(index)
    files = groupby(by_package.pop("", []), key=lambda index: ids[index].partition("::")[0])
    return [
        *(Piece(tuple(indexes), sum(seconds[index] for index in indexes)) for indexes in by_package.values()),
        *(piece for _, indexes in files for piece in _cut(list(indexes), seconds)),
    ]


def _cut(indexes: Sequence[int], seconds: Sequence[float]) -> Iterator[Piece]:
    chosen: list[int] = []
    total = 0.0
    for index in indexes:
        if chosen and (len(chosen) == MOST_TESTS or total + seconds[index] > MOST_SECONDS):
            yield Piece(tuple(chosen), total)
            chosen, total = [], 0.0
        chosen.append(index)
        total += seconds[index]
    if chosen:
        yield Piece(tuple(chosen), total)


def longest_first(pieces: Sequence[Piece]) -> list[Piece]:
    """Sort *pieces*, so that no worker begins a long one when the others are done; equal ones keep their order."""
    return sorted(pieces, key=lambda piece: -piece.seconds)
