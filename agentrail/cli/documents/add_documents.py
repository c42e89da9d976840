"""`agentrail knowledge add`: adds files, and the files of folders, to a store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from agentrail.cli.documents.document_files import document_files
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import DONE, FAILED, tell
from agentrail.cli.output.progress_bar import ProgressBar
from agentrail.cli.output.screen import clean, counted, shortened
from agentrail.errors import UsageError
from agentrail.knowledge import Knowledge

_OF_ONE_FILE = frozenset({"bad-document-name", "document-too-large", "document-unreadable"})
"""Codes of errors that concern one document: the others are added all the same."""


def main(files: Sequence[Path], store: Path, embedder: str | None) -> int:
    """Add *files* to *store*, and return the exit status."""
    for file in files:
        if not file.exists():
            problem = f"there is no file or folder {file}"
            raise BadInputError(problem)
    return trio.run(_add, files, store, embedder)


async def _add(files: Sequence[Path], store: Path, embedder: str | None) -> int:
    documents = list(document_files(files))
    added = passages = failed = 0
    bar = ProgressBar(sys.stderr)
    async with Knowledge(store, embedder=embedder) as knowledge:
        for index, document in enumerate(documents):
            name = shortened(clean(document.name), 60)
            bar.show(index / len(documents), "documents", f": {index:,} of {len(documents):,}, {name}")
            try:
                count = await knowledge.add(document.name, await trio.to_thread.run_sync(document.read))
            except (UsageError, OSError) as error:
                if isinstance(error, UsageError) and error.code not in _OF_ONE_FILE:
                    bar.wipe()
                    raise
                bar.wipe()
                tell(f"agentrail: {error}")
                failed += 1
            else:
                added += bool(count)
                passages += count
        await knowledge.erase()
        bar.wipe()
        total = await knowledge.count()
    same = len(documents) - added - failed
    print(
        f"{added:,} added ({counted(passages, 'passage')}), {same:,} unchanged, {failed:,} left out; "
        f"{counted(total, 'document')} in the store"
    )
    return FAILED if failed else DONE
