"""A session that is killed while a typed answer is checked: `python -m tests.recovery.answered FOLDER PLACE …`.

A place is `WHO:ANSWER:POINT`. The first answer does not fit, the second one does; the process kills itself with SIGKILL
at the point after one of them has come: a failpoint, or `class`, within the check of the class. `WHO` gave the class:
`spec` (the specification), `caller`, who brings it again before the session goes on, or `late`, who brings it again
when the turn is over.

For each place, two processes are forked, one after the other, that work with a journal in a folder of that name. The
second one writes to the file `end` what it finds. Each request to the model is a line of the file `asked`, and each
check a line of `checked`. The statuses are written to standard output.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio
from attrs import field, frozen

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.errors import AnswerUnfit
from agentrail.events import AgentEnd, AnswerRejected, PromptReceived
from agentrail.journals import Record, SqliteJournal
from agentrail.models import EmitChunk, ModelRequest, Response, Text, UserMessage
from agentrail.values.content import text_of
from agentrail.values.messages import why_unfit
from tests.kit import Failpoint, watching

ODD: Final = '{"number": 3}'
EVEN: Final = '{"number": 4}'


class Life:
    """What this process is told: where it dies, and that its caller is there."""

    def __init__(self, position: str) -> None:
        self.who, answer, self.point = position.split(":")
        self.answer = int(answer)
        self.answers = 0
        self.ready = trio.Event()

    def reach(self, point: str) -> None:
        """Die, if this is the place."""
        if self.answers == self.answer and point == self.point:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, point: Failpoint) -> None:
        self.answers += point is Failpoint.RESPONSE
        self.reach(point.name)


LIVES: Final[list[Life]] = []
"""The life of this process, which the class of answers knows too."""


def note(name: str) -> None:
    with Path(name).open("a", encoding="utf-8") as file:
        file.write("once\n")


def lines_of(name: str) -> int:
    return len(Path(name).read_text().splitlines()) if Path(name).exists() else 0


def even(_: object, __: object, number: int) -> None:
    note("checked")
    LIVES[0].reach("class")
    if number % 2:
        raise ValueError(f"{number} is odd")


@frozen
class Even:
    """A number."""

    number: int = field(validator=even)


class Clerk:
    """Gives an answer that does not fit, and one that does when it is told so."""

    name = "scripted"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        await LIVES[0].ready.wait()
        note("asked")
        prompts = [message for message in request.messages if isinstance(message, UserMessage)]
        return Response((Text(EVEN if "is odd" in text_of(prompts[-1].parts) else ODD),))


def spec() -> SessionSpec:
    session_spec = SessionSpec(model=Clerk())
    return session_spec.but(returns=Even) if LIVES[0].who == "spec" else session_spec


async def answer_or_error(session: SessionHandle) -> str:
    """Return what the caller gets: the number, or that it is a typed error."""
    if LIVES[0].who == "spec":
        reply = await session.ask("a number", command="one")
        return str(None if reply.answer is None else reply.answer["number"])
    try:
        found_reply = await session.ask("a number", returns=Even, command="one")
    except AnswerUnfit:
        return "unfit"
    return str(found_reply.number)


async def live() -> None:
    LIVES[0].ready.set()
    async with open_supervisor(journal=SqliteJournal("agentrail.db")) as supervisor:
        await answer_or_error(await supervisor.spawn(spec(), "s"))


def counts(records: Sequence[Record]) -> dict[str, int]:
    """Return how many prompts, refused answers and ended turns the records tell of."""
    kinds = [type(envelope.event) for record in records for envelope in record.events]
    return {kind.__name__: kinds.count(kind) for kind in (PromptReceived, AnswerRejected, AgentEnd)}


async def come_back() -> str:
    """Ask again with the same command id, twice, and return what is there."""
    journal, life = SqliteJournal("agentrail.db"), LIVES[0]
    async with open_supervisor(journal=journal) as supervisor:
        stored = counts(await journal.read("s", 0, 1_000))
        checked = lines_of("checked")
        session = await supervisor.resume("s", spec(), take_over=True)
        if life.who == "caller":
            await session.prompt("a number", returns=Even, command="one")
        life.ready.set()
        with trio.fail_after(60):
            while life.who == "late" and session.inspect().turn is not None:  # noqa: ASYNC110 - nobody sets one
                await trio.sleep(0.02)
            actual = [await answer_or_error(session), await answer_or_error(session)]
        found_again = counts(await journal.read("s", 0, 1_000))
        unfit = why_unfit(session.messages())
        return json.dumps(
            {"checked": checked, "stored": stored, "answers": actual, "in_the_end": found_again, "unfit": unfit}
        )


def forked(position: str, *, back: bool) -> int:
    """Return the exit status of a process that lives, or comes back, in the folder of *position*."""
    child = os.fork()
    if not child:
        os.chdir(position)
        LIVES.append(Life(position))
        if back:
            LIVES[0].answer = -1  # it does not die
            Path("end").write_text(trio.run(come_back))
        else:
            with watching(LIVES[0].watch):
                trio.run(live)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    os.chdir(sys.argv[1])
    for index in sys.argv[2:]:
        Path(index).mkdir()
        sys.stdout.write(f"{index} {forked(index, back=False)} {forked(index, back=True)}\n")


if __name__ == "__main__":
    main()
