"""Documents: how fast they are indexed and searched, by words and by meaning, at 10,000 passages and more.

`python -m bench.knowledge [PASSAGES]` prints for each way the passages that a second of CPU indexes, and what a search
takes. The texts are the pages of `docs`, again with other letters; the vectors are drawn, as no model is asked. After
`make peers`, what others offer is measured by turns with it, on the same passages and vectors.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import trio

from agentrail.knowledge import Knowledge
from bench.peers.__main__ import PYTHON, of_others

QUERIES: Final = (
    "how do I give each tenant a sandbox",
    "OpenTelemetry spans names",
    "which events are lost after a kill",
    "approve a held call from another terminal",
    "vacuum of a journal",
)
ROUNDS: Final = 40
"""How often each query is asked."""

TURNS: Final = 3
"""How often each way is measured."""

OTHERS: Final = ("tantivy", "rank_bm25", "chroma", "lance", "numpy")


class Taken(NamedTuple):
    """What one way took."""

    indexed: float
    """Seconds of CPU for the index."""
    cpu: float
    """Milliseconds of CPU of a search, the median."""
    clock: float
    """Milliseconds by the clock of a search, the median."""


class DrawnVectors:
    """Draws a vector of 384 numbers for each text from its digest, once."""

    name = "bench:drawn"

    def __init__(self) -> None:
        self.vectors: dict[str, list[float]] = {}

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> list[list[float]]:
        """Return the vectors of *texts*."""
        del is_query
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        """Return the vector of *text*."""
        if text not in self.vectors:
            draw = random.Random(hashlib.blake2b(text.encode()).digest())
            self.vectors[text] = [draw.gauss(0, 1) for _ in range(384)]
        return self.vectors[text]


def documents(passages: int) -> dict[str, str]:
    """Return documents by name, which have some *passages* together."""
    pages = sorted(Path("docs").rglob("*.md"))
    draw = random.Random(1)
    found: dict[str, str] = {}
    chars = 0
    while chars < 670 * passages:
        for page in pages:
            text = page.read_text("utf-8")
            other = re.sub(r"\b[a-z]{5,}\b", lambda word: word[0][:: 1 if draw.random() > 0.15 else -1], text)
            found[f"{len(found)}/{page}"] = other if len(found) >= len(pages) else text
            chars += len(text)
            if chars >= 670 * passages:
                break
    return found


async def ours(texts: Mapping[str, str], embedder: DrawnVectors | None) -> Taken:
    """Index *texts* and search them, and return what that took."""
    with tempfile.TemporaryDirectory() as folder:
        async with Knowledge(Path(folder) / "k.sqlite", embedder=embedder, min_similarity=-1) as knowledge:
            began = time.process_time()
            for name, text in texts.items():
                await knowledge.add(name, text)
            indexed = time.process_time() - began
            cpu: list[float] = []
            clock: list[float] = []
            for number in range(ROUNDS + 1):
                for query in QUERIES:
                    on_cpu, on_clock = time.process_time(), time.perf_counter()
                    await knowledge.search(query)
                    if number:  # the first of each query warms up
                        cpu.append(1_000 * (time.process_time() - on_cpu))
                        clock.append(1_000 * (time.perf_counter() - on_clock))
    return Taken(indexed, statistics.median(cpu), statistics.median(clock))


def theirs(engine: str, folder: Path) -> Taken:
    """Index the passages in *folder* by *engine* and search them, and return what that took."""
    return Taken(*of_others("of_search.py", engine, folder, ROUNDS))


async def passages_of(texts: Mapping[str, str], folder: Path, embedder: DrawnVectors) -> int:
    """Write the passages of *texts*, the queries and their vectors to *folder*, and return how many passages."""
    passages: list[str] = []
    async with Knowledge(folder / "k.sqlite", embedder=embedder) as knowledge:
        for name, text in texts.items():
            await knowledge.add(name, text)
            count = (await knowledge.document(name)).passages
            for first in range(0, count, 50):
                passages += [passage.text for passage in await knowledge.read(name, first, 50)]
    for name, rows in (("passages", passages), ("queries", [*QUERIES])):
        (folder / f"{name}.json").write_text(json.dumps(rows))  # noqa: ASYNC240 - nothing else runs
        vectors = np.array([embedder.vector(row) for row in rows], dtype=np.float32)
        np.save(folder / f"{name}.npy", vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    return len(passages)


def main() -> None:
    """Measure all ways by turns, and print the median of each."""
    texts = documents(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
    drawn = DrawnVectors()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = trio.run(passages_of, texts, folder, drawn)
        ways: dict[str, Callable[[], Taken]] = {
            "agentrail, by words": lambda: trio.run(ours, texts, None),
            "agentrail, by words and meaning": lambda: trio.run(ours, texts, drawn),
        }
        for engine in OTHERS if PYTHON.exists() else ():
            ways[engine] = partial(theirs, engine, folder)
        taken: dict[str, list[Taken]] = {way: [] for way in ways}
        for _ in range(TURNS):
            for way, measure in ways.items():
                taken[way].append(measure())
    print(f"{count:,} passages; load {os.getloadavg()[0]:.1f}; passages a second of CPU, ms of CPU, ms by the clock")
    for way, figures in taken.items():
        indexed, cpu, clock = (statistics.median(each) for each in zip(*figures, strict=True))
        print(f"{way:34}{count / indexed:>10,.0f}{cpu:>10.1f}{clock:>10.1f}")


if __name__ == "__main__":
    main()
