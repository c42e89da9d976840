"""`--shuffle SEED`: another order of the tests, in which those of a file stay together, for its fixtures."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.runner.pieces import Piece


def place_of(node_id: str, seed: int) -> tuple[float, str, float]:
    """Return what sorts the test among all others: its file comes first.

    Two tests have the same order whatever else runs, so that a failure can be repeated with few of the others.
    """
    file = node_id.partition("::")[0]
    return Random(f"{seed} {file}").random(), file, Random(f"{seed} {node_id}").random()


def shuffled(pieces: Sequence[Piece], seed: int) -> list[Piece]:
    """Return *pieces* in the order in which they are handed out."""
    return Random(seed).sample(pieces, len(pieces))
