"""`agentrail knowledge remove`: removes documents from a store, and leaves nothing of them in its file."""

from __future__ import annotations

from pathlib import Path

import trio

from agentrail.cli.documents.existing_store import check_store
from agentrail.cli.output.exit_status import DONE, FAILED, tell
from agentrail.cli.output.screen import counted
from agentrail.knowledge import Knowledge


def main(names: tuple[str, ...], store: Path) -> int:
    """Remove the documents *names* from *store*, and return the exit status."""
    check_store(store)
    count = trio.run(_remove, tuple(dict.fromkeys(names)), store)
    print(f"{count:,} removed")
    missing = len(set(names)) - count
    if missing:
        tell(f"agentrail: not there: {counted(missing, 'document')}; `agentrail knowledge list` shows what there is")
        return FAILED
    return DONE


async def _remove(names: tuple[str, ...], store: Path) -> int:
    async with Knowledge(store) as knowledge:
        return await knowledge.remove(*names)
