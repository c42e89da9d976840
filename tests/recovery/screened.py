"""A session whose texts all have a key, which a plugin takes out: `python -m tests.recovery.screened FOLDER PLACE …`.

For each place, a process is forked that works with a journal in a folder of that name, and notes there each event, log
line and step. It kills itself with SIGKILL at the place: a failpoint, as `POINT:TIMES`, or `hook`, when a prompt that
was accepted is about to be taken. At the place `end` it comes to its end, and at
`plain` too, without the plugin. The statuses are written to standard output.
"""

import logging
import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import trio
from attrs import frozen

from agentrail import Context, Continue, Plugin, SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.errors import PermanentModelError, TurnAborted
from agentrail.events import AgentAbort, AgentEnd, AskUser, MessageDelta
from agentrail.journals import SqliteJournal
from agentrail.models import Data, Text
from agentrail.plugins import BeforePrompt
from agentrail.testing import ScriptedModel, call, fail, say, stall
from agentrail.tools import AskPerson, Effect, ToolContext, ToolResult, ok
from tests.kit import Element, Failpoint, freeze_object, watching

KEY: Final = "sk-4711-canary"
MASK: Final = "[key]"
LONG: Final = "This is a sentence of some length, and it says nothing. " * 12


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@frozen
class Masks(Plugin):
    """Takes keys out of all texts."""

    pattern: str = r"sk-\d+-[a-z]+"

    def screen(self, text: str) -> str:
        return re.sub(self.pattern, MASK, text)


@frozen
class Dies(Plugin):
    """Kills the process when the prompt that is last in the queue is about to be taken."""

    at_hook: bool

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None]:
        if self.at_hook and hook.text.startswith("queued"):
            kill()
        return Continue()


@tool
async def tells(ctx: ToolContext, key: str) -> str:
    """Report and return a key."""
    ctx.report(f"found {KEY}")
    return f"{key} and {KEY}"


@tool
async def raises() -> str:
    """Raise with a key."""
    raise OSError(KEY)


@tool
async def asks(ctx: ToolContext) -> ToolResult:
    """Ask a person, and go on with the answer."""
    if ctx.person_answer is not None:
        return ok(f"{ctx.person_answer.state} {ctx.person_answer.answer} {KEY}")
    return Effect(AskPerson(f"which one, {KEY}?", (KEY,), freeze_object({"of": [KEY], KEY: 1})))


TOOLS: Final = (tells, raises, asks)
TASK: Final = {"agent": "finder", "description": f"find {KEY}", "prompt": f"find {KEY}"}


def script() -> list[Element]:
    calls = [call("tells", {"key": KEY}), call("raises"), call("asks"), call("task", TASK)]
    return [
        say(f"{LONG}A key: {KEY}. {LONG}", thinking=f"{LONG}{KEY} {LONG}", calls=calls),
        say(f"done with {KEY}"),
        stall(text=f"{LONG}{KEY} {LONG}", after=1000),
        fail(PermanentModelError(f"refused: {KEY}"), text=f"{LONG}{KEY} {LONG}", after=1000),
        fail(ValueError(KEY)),
    ]


def spec(position: str) -> SessionSpec:
    finder = ScriptedModel([say(calls=[call("tells", {"key": KEY})]), f"the key is {KEY}"], name="finder")
    child = SessionSpec(model=finder, description="Finds things.", tools=[tells])
    plugins = [*([] if position == "plain" else [Masks()]), Dies(position == "hook")]
    model = ScriptedModel(script())
    return SessionSpec(model=model, tools=TOOLS, plugins=plugins, agents={"finder": child}, inline_tags=True)


class Listener:
    """Notes each event of a session, answers its questions, and tells when a turn has ended or text has come."""

    def __init__(self, session: SessionHandle) -> None:
        self.session = session
        self.ended = self.told = 0
        self.changed = trio.Event()

    async def listen(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with self.session.subscribe(since=0) as events:
            task_status.started()
            async for envelope in events:
                note("events", repr(envelope))
                if isinstance(envelope.event, AskUser):
                    await self.session.respond(envelope.event.ref, f"take {KEY}")
                self.ended += isinstance(envelope.event, AgentEnd | AgentAbort)
                self.told += isinstance(envelope.event, MessageDelta) and any(
                    word in envelope.event.delta for word in (KEY, MASK)
                )
                self.changed.set()

    async def until(self, *, ended: int = 0, number: int = 0) -> None:
        """Wait until so many turns have ended, and so many deltas with the mask were told."""
        with trio.fail_after(60):
            while self.ended < ended or self.told < number:
                self.changed = trio.Event()
                await self.changed.wait()


def note(name: str, line: str) -> None:
    with Path(name).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


async def trace(session: SessionHandle, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    async with session.trace() as steps:
        task_status.started()
        async for step in steps:
            note("steps", repr(step))


async def talk(position: str) -> None:
    """Say a key in each place where something is said."""
    async with open_supervisor(journal=SqliteJournal("agentrail.db")) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(spec(position), "s")
        listener = Listener(session)
        await nursery.start(listener.listen)
        await nursery.start(trace, session)
        await session.ask(f"my key is {KEY}", command="first")
        await session.prompt(f"again {KEY}")
        await listener.until(ended=1, number=3)
        await session.prompt([Text(f"queued {KEY}"), Data({"key": KEY})], command="queued")
        note("events", repr(session.queued()))
        await session.steer(f"rather {KEY}")
        await session.abort(f"because of {KEY}")
        await listener.until(ended=3)
        try:
            await session.ask(f"last {KEY}")
        except TurnAborted as error:
            note("events", repr(error))
        note("events", repr((session.inspect(), session.status())))
        nursery.cancel_scope.cancel()


def live(position: str) -> None:
    """Talk in a folder of the name of *position*, and be killed there."""
    folder = Path(position)
    folder.mkdir()
    os.chdir(folder)
    logging.basicConfig(filename="log", level=logging.DEBUG)
    name, _, times = position.partition(":")
    reached: Counter[str] = Counter()

    def watch(point: Failpoint) -> None:
        reached[point.name] += 1
        if point.name == name and reached[name] == int(times):
            kill()

    with watching(watch):
        trio.run(talk, position)


def main() -> None:
    os.chdir(sys.argv[1])
    for index in sys.argv[2:]:
        child = os.fork()
        if not child:
            live(index)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{index} {os.waitstatus_to_exitcode(status)}\n")


if __name__ == "__main__":
    main()
