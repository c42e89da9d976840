"""A session that is killed while its context is compacted: `python -m tests.recovery.summarised FOLDER PLACE …`.

For each place, two processes are forked, one after the other, that work with a journal in a folder of that name. The
first one talks with tools until its context is compacted, and kills itself with SIGKILL at the place: `asked` and
`words` (the model is asked for the summary, and has begun to write it), or a failpoint. The second one comes back, and
writes to the file `end` what it finds. Each request for a summary is a line of the file `asked`, as it would be on a
bill. The statuses are written to standard output.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Final

import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.events import AgentEnd, CompactEnd
from agentrail.journals import SqliteJournal
from agentrail.models import EmitChunk, ModelRequest, Response, StopReason, Text, TextChunk, Usage, UserMessage
from agentrail.testing import call
from agentrail.values.messages import why_unfit
from tests.kit import Failpoint, watching

USED: Final = Usage(100_000, 7)
"""What each summary uses; nothing else uses so much."""

LONG: Final = "word " * 110


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def note_request(position: str) -> None:
    with Path("asked").open("a", encoding="utf-8") as file:
        file.write(f"{position}\n")


class Clerk:
    """Calls a tool for each prompt; notes each request for a summary, and dies in it at its place."""

    name = "scripted"

    def __init__(self, position: str) -> None:
        self._place = position

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        await trio.lowlevel.checkpoint()
        if "write summaries" in request.system:
            note_request(self._place)
            if self._place == "asked":
                kill()
            emit(TextChunk("a summary"))
            if self._place == "words":
                kill()
            return Response((Text("a summary"),), usage=USED)
        if isinstance(request.messages[-1], UserMessage):
            return Response((), (call("look", {"text": LONG}),), StopReason.TOOL_CALLS)
        return Response((Text("done"),))


@tool(effect="pure")
async def look(text: str) -> str:
    """Look something up."""
    return text


def spec(position: str) -> SessionSpec:
    return SessionSpec(model=Clerk(position), tools=[look], context_window=1_000)


async def talk(position: str) -> None:
    """Talk until the context is compacted, in the third turn."""
    async with open_supervisor(journal=SqliteJournal("agentrail.db")) as supervisor:
        session = await supervisor.spawn(spec(position), "s")
        for number in range(3):
            await session.ask(f"number {number}")


async def come_back() -> str:
    """Wait until the open turn has ended, and return what is there."""
    journal = SqliteJournal("agentrail.db")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec("back"), take_over=True)
        with trio.fail_after(60):
            while session.inspect().turn is not None or session.inspect().has_running_work:  # noqa: ASYNC110 - nobody sets one
                await trio.sleep(0.02)
        events = [envelope.event for record in await journal.read("s", 0, 1_000) for envelope in record.events]
        actual = {
            "unfit": why_unfit(session.messages()),
            "texts": [message.text[:20] for message in session.messages()],
            "notes": [event.note for event in events if isinstance(event, CompactEnd)],
            "ends": sum(isinstance(event, AgentEnd) for event in events),
            "used": session.status().usage.input_tokens,
            "compacting": session.status().compacting is not None,
        }
        return json.dumps(actual)


def live(position: str) -> None:
    def watch(point: Failpoint) -> None:
        if point.name == position:
            kill()

    with watching(watch):
        trio.run(talk, position)


def forked(position: str, *, back: bool) -> int:
    """Return the exit status of a process that lives, or comes back, in the folder of *position*."""
    child = os.fork()
    if not child:
        os.chdir(position)
        if back:
            Path("end").write_text(trio.run(come_back))
        else:
            live(position)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    os.chdir(sys.argv[1])
    for index in sys.argv[2:]:
        Path(index).mkdir()
        sys.stdout.write(f"{index} {forked(index, back=False)} {forked(index, back=True)}\n")


if __name__ == "__main__":
    main()
