"""A program that replaces, or removes, a document, and is killed before each statement of SQLite in turn.

`python -m tests.knowledge.killed FOLDER [create|replace|remove|rebuild …]` prints, for each, which text the store has
afterwards: `old`, `new` or `none`.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from pathlib import Path

import trio

from agentrail.knowledge import Knowledge
from tests.knowledge.hashing import HashEmbedder

OLD = "# Old\n\n" + "An old sentence of the first text. " * 80
NEW = "# New\n\n" + "Another sentence of the second text. " * 80


async def work(path: Path, doing: str) -> None:
    async with Knowledge(path, embedder=HashEmbedder()) as knowledge:
        if doing == "create":
            await knowledge.add("a.md", OLD)
        elif doing == "replace":
            await knowledge.add("a.md", NEW)
        elif doing == "remove":
            await knowledge.remove("a.md")
        else:
            await knowledge.rebuild()


async def state(path: Path) -> str:
    async with Knowledge(path, embedder=HashEmbedder()) as knowledge:
        if not await knowledge.count():
            return "none"
        text = await knowledge.text("a.md")
        word = "second" if text == NEW else "first"
        assert text in {OLD, NEW}
        assert {found.document for found in await knowledge.search(f"{word} sentence")} == {"a.md"}
        other = "first" if text == NEW else "second"
        assert not [found for found in await knowledge.search(other) if other in found.text]
        await knowledge.add("b.md", "it can be written")
        await knowledge.remove("b.md")
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.execute("INSERT INTO words(words) VALUES('integrity-check')")
    db.close()
    return "new" if text == NEW else "old"


def killed_at(number: int, path: Path, doing: str) -> bool:
    """Carry out *doing* in a child that is killed before statement *number*; return whether it was killed."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    connect, count = sqlite3.connect, [0]

    def traced(*args: object, **options: object) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*args, **options)  # type: ignore[call-overload]
        db.set_trace_callback(before)
        return db

    def before(_: str) -> None:
        count[0] += 1
        if count[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sqlite3.connect = traced  # type: ignore[assignment]
    trio.run(work, path, doing)
    os._exit(0)


def main(folder: Path, *names: str) -> None:
    for doing in names or ("create", "replace", "remove", "rebuild"):
        number, states, was_killed = 0, list[str](), True
        while was_killed:
            number += 1
            path = folder / f"{doing}{number}" / "k.sqlite"
            path.parent.mkdir()
            if doing != "create":
                trio.run(work, path, "create")
            was_killed = killed_at(number, path, doing)
            states.append(trio.run(state, path))
        sys.stdout.write(f"{doing} {' '.join(states)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
