"""A journal: a session outlives its process, and so does a call that waits for a person.

Both supervisors are in one program here; they could be in two, on either side of a crash.

    before the end: write_file waits
    after the restart: write_file waits
    `write_file` answered: “wrote notes.txt”.
"""

import tempfile
from pathlib import Path

import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.events import AgentEnd
from agentrail.journals import SqliteJournal
from agentrail.plugins import HumanApproval


@tool
async def write_file(path: str, content: str) -> str:
    """Write a file (this one only says so)."""
    return f"wrote {path}" if content else f"emptied {path}"


def desk() -> SessionSpec:
    return SessionSpec(name="desk", model="demo", tools=[write_file], plugins=[HumanApproval(timeout=None)])


async def main() -> None:
    path = Path(tempfile.mkdtemp()) / "desk.db"
    async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
        session = await supervisor.spawn(desk(), "notes")
        (held,) = (await session.ask("write hello to notes.txt")).held
        print("before the end:", held.tool, "waits")
    async with open_supervisor(journal=SqliteJournal(path), specs={"desk": desk}) as supervisor:
        session = await supervisor.resume("notes")
        (held,) = session.status().held
        print("after the restart:", held.tool, "waits")
        async with session.subscribe(types=[AgentEnd]) as events:
            await session.approve(held)
            await anext(events)
        print(session.messages()[-1].text)


trio.run(main)
