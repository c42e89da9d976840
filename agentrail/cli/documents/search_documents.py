"""`agentrail knowledge search`: prints the passages that fit a query, each with its citation and its place."""

from __future__ import annotations

from pathlib import Path

import trio

from agentrail.cli.documents.existing_store import check_store
from agentrail.cli.output.exit_status import DONE, FAILED, json_line, tell
from agentrail.cli.output.screen import clean
from agentrail.knowledge import Found, Knowledge


def main(query: tuple[str, ...], store: Path, embedder: str | None, limit: int, *, as_json: bool) -> int:
    """Print what is found in *store* for *query*, and return the exit status."""
    check_store(store)
    passages = trio.run(_search, " ".join(query), store, embedder, limit)
    for passage in passages:
        print(json_line(_json(passage)) if as_json else _text(passage))
    if not passages:
        tell("agentrail: nothing was found")
        return FAILED
    return DONE


async def _search(query: str, store: Path, embedder: str | None, limit: int) -> tuple[Found, ...]:
    async with Knowledge(store, embedder=embedder) as knowledge:
        return await knowledge.search(query, limit)


def _json(passage: Found) -> dict[str, str | int | float]:
    return {
        "citation": passage.citation,
        "document": passage.document,
        "number": passage.number,
        "heading": passage.heading,
        "start": passage.start,
        "end": passage.end,
        "score": round(passage.score, 6),
        "text": passage.text,
    }


def _text(passage: Found) -> str:
    heading = f"  {clean(passage.heading)}" if passage.heading else ""
    lines = [f"    {clean(line)}".rstrip() for line in passage.text.strip().split("\n")]
    place = f"characters {passage.start:,} to {passage.end:,}"
    return "\n".join([f"[[{clean(passage.citation)}]]  {place}{heading}", *lines, ""])
