"""`agentrail knowledge list`: prints the documents of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import trio

from agentrail.cli.documents.existing_store import check_store
from agentrail.cli.output.exit_status import DONE, json_line
from agentrail.cli.output.text_table import aligned
from agentrail.knowledge import Document, Knowledge

WIDTH: Final = 160
PAGE: Final = 1_000
"""How many documents are read at once."""


def main(store: Path, *, as_json: bool) -> int:
    """Print the documents of *store*, and return the exit status."""
    check_store(store)
    documents = trio.run(_documents, store)
    if as_json:
        for row in documents:
            print(json_line(msgspec.structs.asdict(row)))
        return DONE
    rows = [(row.name, f"{row.passages:,}", f"{row.chars:,}") for row in documents]
    for text in aligned([("document", "passages", "characters"), *rows], WIDTH, right=(1, 2)):
        print(text)
    return DONE


async def _documents(store: Path) -> list[Document]:
    documents: list[Document] = []
    async with Knowledge(store) as knowledge:
        while page := await knowledge.documents(documents[-1].name if documents else "", PAGE):
            documents += page
    return documents
