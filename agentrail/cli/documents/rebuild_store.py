"""`agentrail knowledge rebuild`: cuts the documents of a store anew, and makes their vectors by another embedder."""

from __future__ import annotations

from pathlib import Path

import trio

from agentrail.cli.documents.existing_store import check_store
from agentrail.cli.output.exit_status import DONE
from agentrail.cli.output.screen import counted
from agentrail.knowledge import Knowledge


def main(store: Path, embedder: str | None) -> int:
    """Make *store* anew, and return the exit status."""
    check_store(store)
    count = trio.run(_rebuild, store, embedder)
    print(f"{counted(count, 'document')} made anew")
    return DONE


async def _rebuild(store: Path, embedder: str | None) -> int:
    async with Knowledge(store, embedder=embedder) as knowledge:
        return await knowledge.rebuild()
