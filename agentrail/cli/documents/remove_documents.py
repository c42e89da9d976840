"""`agentrail knowledge remove`: removes documents from a store, and leaves nothing of them in its file."""

from __future__ import annotations

from pathlib import Path

import trio

from agentrail.cli.documents.existing_store import check_store
from agentrail.cli.output.exit_status import DONE, FAILED, tell
from agentrail.cli.output.listed_names import listed_names
from agentrail.errors import UsageError
from agentrail.knowledge import Knowledge


def main(names: tuple[str, ...], store: Path) -> int:
    """Remove the documents *names* from *store*, and return the exit status."""
    check_store(store)
    count, missing = trio.run(_remove, tuple(dict.fromkeys(names)), store)
    print(f"{count:,} removed")
    if missing:
        advice = f"`agentrail knowledge list --store {store}` shows what there is"
        tell(f"agentrail: {store} has no {listed_names(missing)}; {advice}")
        return FAILED
    return DONE


async def _remove(names: tuple[str, ...], store: Path) -> tuple[int, list[str]]:
    """Remove the documents *names*; return how many there were, and which were not there."""
    async with Knowledge(store) as knowledge:
        missing = [name for name in names if not await _is_there(knowledge, name)]
        return await knowledge.remove(*names), missing


async def _is_there(knowledge: Knowledge, name: str) -> bool:
    try:
        await knowledge.document(name)
    except UsageError as error:
        if error.code != "unknown-document":
            raise
        return False
    return True
