"""Documents: how fast they are indexed and searched, by words and by meaning, at 10,000 passages and more.

`python -m bench.knowledge [PASSAGES]` prints a row for each way. The texts are the pages of `docs`, again with
other letters; the vectors are drawn, as no model is asked.
"""

from __future__ import annotations

import hashlib
import random
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from agentrail.knowledge import Knowledge

QUERIES: Final = (
    "how do I give each tenant a sandbox",
    "OpenTelemetry spans names",
    "which events are lost after a kill",
    "approve a held call from another terminal",
    "vacuum of a journal",
)
ROUNDS: Final = 40
"""How often each query is asked."""


class DrawnVectors:
    """Draws a vector of 384 numbers for each text from its digest."""

    name = "bench:drawn"

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> list[list[float]]:
        """Return the vectors of *texts*."""
        del is_query
        return [_drawn(text) for text in texts]


def _drawn(text: str) -> list[float]:
    draw = random.Random(hashlib.blake2b(text.encode()).digest())
    return [draw.gauss(0, 1) for _ in range(384)]


async def measure(label: str, embedder: DrawnVectors | None, passages: int) -> None:
    """Print how fast *passages* are indexed and searched."""
    pages = sorted(Path("docs").rglob("*.md"))  # noqa: ASYNC240 - nothing else runs
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        async with Knowledge(Path(folder) / "k.sqlite", embedder=embedder, min_similarity=-1) as knowledge:
            count = salt = 0
            started = time.perf_counter()
            while count < passages:
                for page in pages[: len(pages) if count < passages else 0]:
                    text = page.read_text("utf-8")
                    other = re.sub(r"\b[a-z]{5,}\b", lambda found: found[0][:: 1 if draw.random() > 0.15 else -1], text)
                    count += await knowledge.add(f"{salt}/{page}", other if salt else text)
                    if count >= passages:
                        break
                salt += 1
            indexed = time.perf_counter() - started
            await knowledge.search(QUERIES[0])
            times: list[float] = []
            for _ in range(ROUNDS):
                for query in QUERIES:
                    started = time.perf_counter()
                    await knowledge.search(query)
                    times.append(1000 * (time.perf_counter() - started))
    times.sort()
    sys.stdout.write(
        f"{label:12} {count:,} passages, {count / indexed:,.0f} a second; search p50 {times[len(times) // 2]:.1f} ms, "
        f"p99 {times[len(times) * 99 // 100]:.1f} ms\n"
    )


def main() -> None:
    """Measure both ways."""
    passages = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    trio.run(measure, "by words", None, passages)
    trio.run(measure, "by meaning", DrawnVectors(), passages)


if __name__ == "__main__":
    main()
