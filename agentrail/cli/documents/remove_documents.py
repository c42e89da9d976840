"""`agentrail knowledge remove`: removes documents from a store, and leaves nothing of them in its file."""

from __future__ import annotations

from pathlib import Path

import trio

from agentrail.cli.documents.existing_store import check_store
from agentrail.cli.output.exit_status import DONE, FAILED, tell
from agentrail.cli.output.listed_names import listed_names
from agentrail.knowledge import Knowledge


def main(names: tuple[str, ...], store: Path) -> int:
    """Remove the documents *names* from *store*, and return the exit status."""
    check_store(store)
    removed = frozenset(trio.run(_remove, names, store))
    print(f"{len(removed):,} removed")
    if missing := [name for name in dict.fromkeys(names) if name not in removed]:
        advice = f"`agentrail knowledge list --store {store}` shows what there is"
        tell(f"agentrail: {store} has no {listed_names(missing)}; {advice}")
        return FAILED
    return DONE


async def _remove(names: tuple[str, ...], store: Path) -> tuple[str, ...]:
    async with Knowledge(store) as knowledge:
        return await knowledge.remove(*names)
