"""A supervisor on a file system that is really full, and then is not.

`python -m tests.adapters.journals.full_disk FOLDER` fills the file system of the folder, which should be small, and
says what happened, as JSON.
"""

import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.errors import JournalFull
from agentrail.events import AbortPending, AgentAbort, AgentEnd, Envelope, MessageDelta
from agentrail.journals import SqliteJournal
from agentrail.testing import ScriptedModel, call, say

LONGEST = 30.0

ran: list[str] = []
heard: dict[str, list[Envelope]] = {}


@tool
async def note(text: str) -> str:
    """Note something."""
    ran.append(text)
    return "noted"


class Noticing(logging.Handler):
    """Notices that the journal cannot be written."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def fill(path: Path) -> None:
    """Write until nothing more fits."""
    opened = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while os.write(opened, bytes(size)):
                    pass
            except OSError:
                continue
    finally:
        os.close(opened)


async def listen(session: SessionHandle, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    async with session.subscribe(since=0) as events:
        task_status.started()
        async for envelope in events:
            heard.setdefault(session.id, []).append(envelope)


def count(session: SessionHandle, kind: type[object]) -> int:
    return sum(isinstance(envelope.event, kind) for envelope in heard.get(session.id, ()))


async def until(holds: Callable[[], object]) -> None:
    while not holds():  # noqa: ASYNC110 - nobody sets an event for it
        await trio.sleep(0.01)


async def until_it_knows(session: SessionHandle) -> None:
    """Wait until the session refuses calls: the log has the error first, and a call in between waits for space."""
    while True:
        with trio.move_on_after(0.1):
            try:
                await session.label(title="full")
            except JournalFull:
                return


async def is_stored(journal: SqliteJournal, name: str) -> bool:
    """Whether all durable events that were heard of a session are in its records."""
    stored = [envelope for record in await journal.read(name) for envelope in record.events]
    durable = [envelope for envelope in heard[name] if envelope.event.durable]
    return durable == stored[: len(durable)]


async def main(folder: Path) -> dict[str, object]:
    """Fill the disk under two sessions: one that talks, and is aborted, and one that is to run a tool."""
    noticing = Noticing()
    logging.getLogger("agentrail").addHandler(noticing)
    journal = SqliteJournal(folder / "agentrail.db")
    facts: dict[str, object] = {}
    with trio.fail_after(LONGEST):
        async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
            talking = ScriptedModel(["one", say("word " * 10_000, delay=0.01), "three"])
            talks = await supervisor.spawn(SessionSpec(model=talking), "talks")
            noting = ScriptedModel([say(calls=[call("note", {"text": "x"})]), "noted"])
            notes = await supervisor.spawn(SessionSpec(model=noting, tools=[note]), "notes")
            for session in (talks, notes):
                await nursery.start(listen, session)
            await talks.ask("one?")
            await talks.prompt("two?")
            await until(lambda: count(talks, MessageDelta) > 5)
            fill(folder / "filler")
            nursery.start_soon(notes.prompt, "note x")
            await until(lambda: noticing.said)
            facts["said"] = noticing.said[0]
            await until_it_knows(notes)
            try:
                await notes.prompt("and y")
            except JournalFull as full:
                facts["refused"] = str(full)
            nursery.start_soon(talks.abort)
            await until(lambda: count(talks, AbortPending))
            deltas = count(talks, MessageDelta)
            await trio.sleep(1.5)
            facts["deltas after the abort"] = count(talks, MessageDelta) - deltas
            facts["while full"] = [ran[:], len(noting.requests), count(talks, AgentAbort)]
            (folder / "filler").unlink()  # noqa: ASYNC240 - nobody else waits
            await until(lambda: count(talks, AgentAbort))
            await until(lambda: count(notes, AgentEnd))
            facts["ran"] = ran[:]
            facts["next"] = (await talks.ask("three?")).text
            nursery.cancel_scope.cancel()
    facts["lines"] = len(noticing.said)
    facts["published and stored"] = [await is_stored(journal, name) for name in ("talks", "notes")]
    await journal.close()
    return facts


if __name__ == "__main__":
    sys.stdout.write(json.dumps(trio.run(main, Path(sys.argv[1]))))
