"""The program of `test_importing`: scenes, and what each imports once its session has started.

Each line of its input names a scene and what it is given, such as the address of its model. The scene is played in a
process that is forked for it, by one that has played nothing: so this module is imported once for all of them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final

import trio
from attrs import frozen

from agentrail import Continue, Plugin, SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.adapters.mcp.server import McpServer
from agentrail.core.vocabulary.state import Phase
from agentrail.errors import SessionAsleep
from agentrail.hooks.actions import SwitchModel
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import BeforeRequest, BeforeTool
from agentrail.plugins.approval import HumanApproval
from agentrail.ports.journal import Journal
from agentrail.ports.model import EmitChunk
from agentrail.runtime.actor.journal_log import SNAPSHOT_EVERY
from agentrail.tools.builtin import standard_tools
from agentrail.values.content import Text, ToolCall
from agentrail.values.json import Json, freeze_object
from agentrail.values.stream import ModelRequest, Response
from tests.opcodes import counted_opcodes

SPLIT: Final = "\t"
"""Between the words of a line."""

ENDED: Final = "ended with "
"""What the last line about a scene begins with; its exit code follows."""

Scene = Callable[[SessionHandle], Awaitable[None]]


@tool
async def add(first: int, second: int) -> int:
    """Add two numbers."""
    await trio.lowlevel.checkpoint()
    return first + second


class Counter(Plugin[int]):
    """Remembers how many calls there were."""

    def init(self, ctx: Context) -> int:
        """Begin with none."""
        return 0

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int]:
        """Count."""
        return Continue(state + 1)


def call(name: str, args: Mapping[str, Json]) -> ToolCall:
    """Return a call as a model makes it."""
    return ToolCall("", name, freeze_object(args))


class Script:
    """Answers with calls first, and with text from then on; the kit's model would import what is looked for."""

    name = "script"

    def __init__(self, *calls: ToolCall) -> None:
        self._answers = [Response((), calls)] if calls else []

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer."""
        await trio.lowlevel.checkpoint()
        return self._answers.pop() if self._answers else Response((Text("word " * 50),))


ADDS: Final = call("add", {"first": 1, "second": 2})


async def ask(session: SessionHandle) -> None:
    """Do one turn."""
    await session.ask("go on")


async def ask_by_command(session: SessionHandle) -> None:
    """Do one turn, by a command that has an id."""
    await session.ask("go on", command="one")


async def approve(session: SessionHandle) -> None:
    """Do a turn that rests until its call is approved."""
    reply = await session.ask("go on")
    await session.approve(reply.held[0].id)
    await session.ask("and on")


async def fork(session: SessionHandle) -> None:
    """Do a turn, and another one in a branch."""
    await session.ask("go on")
    branch = await session.fork()
    await branch.ask("go on")
    await branch.stop()


async def sleep(session: SessionHandle) -> None:
    """Do a turn, fall asleep, and wake up for another one."""
    await session.ask("go on")
    with suppress(SessionAsleep):
        while session.inspect().phase is Phase.IDLE:  # noqa: ASYNC110 - nothing else tells before it sleeps
            await trio.sleep(0.01)
    await session.ask("and on")


async def snapshot(session: SessionHandle) -> None:
    """Do so many turns that the state is kept."""
    for _ in range(SNAPSHOT_EVERY):
        await session.ask("go on")


async def compact(session: SessionHandle) -> None:
    """Have enough to compact, and do it."""
    for _ in range(3):
        await session.ask("go on")
    await session.compact()
    await session.ask("go on")


@frozen
class Switcher(Plugin[None]):
    """Chooses a model behind HTTP when the session runs already."""

    url: str

    def init(self, ctx: Context) -> None:
        """Remember nothing."""

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> SwitchModel[None]:
        """Choose it."""
        return SwitchModel("openai:model", provider_options=freeze_object({"base_url": self.url}))


def spec_of(scene: str, url: str) -> SessionSpec:
    """Return the specification of the session of *scene*."""
    script = Script(ADDS)
    fetch, files = call("web_fetch", {"url": "http://127.0.0.1:9/"}), call("list_dir", {})
    several = Script(fetch, files, call("add", {"no": 1}))
    specs: Mapping[str, Callable[[], SessionSpec]] = {
        "tool": lambda: SessionSpec(model=script, tools=[add]),
        "state": lambda: SessionSpec(model=script, tools=[add], plugins=[Counter()]),
        "command": lambda: SessionSpec(model=script, tools=[add]),
        "encoded": lambda: SessionSpec(model=script, tools=[add]),
        "sqlite": lambda: SessionSpec(model=script, tools=[add]),
        "approval": lambda: SessionSpec(model=script, tools=[add], plugins=[HumanApproval(("add",))]),
        "standard": lambda: SessionSpec(model=several, tools=[add, *standard_tools()]),
        "compaction": lambda: SessionSpec(model=Script(), tools=[add], context_window=200),
        "fork": lambda: SessionSpec(model=script, tools=[add], plugins=[Counter()]),
        "sleep": lambda: SessionSpec(model=script, tools=[add], plugins=[Counter()], hibernate_after=0.01),
        "snapshot": lambda: SessionSpec(model=script, tools=[add], plugins=[Counter()]),
        "switch": lambda: SessionSpec(model=script, tools=[add], plugins=[Switcher(url)]),
        "mcp": lambda: SessionSpec(
            model=Script(call("small_add", {"a": 1, "b": 2})),
            tools=[McpServer([sys.executable, "-m", "tests.mcp.small"], name="small")],
        ),
        "subagent": lambda: SessionSpec(
            model=Script(call("task", {"agent": "adder", "prompt": "add"})),
            agents={"adder": SessionSpec(model=script, tools=[add], description="Adds.")},
        ),
    }
    if scene == "demo":
        return SessionSpec(model="demo")
    if scene in specs:
        return specs[scene]()
    return SessionSpec(model=f"{scene}:model", model_options={"base_url": url}, tools=[add])


def journal_of(scene: str, folder: Path) -> Journal | None:
    """Return the journal of *scene*."""
    if scene in {"encoded", "sleep", "snapshot"}:
        return MemoryJournal(encode=True)
    if scene == "sqlite":
        from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal  # noqa: PLC0415 - it brings the codec

        return SqliteJournal(folder / "agentrail.db")
    return None


async def switch(session: SessionHandle) -> None:
    """Do a turn with a model that a plugin has chosen."""
    await session.ask("openai says 3")


PLAYS: Final[Mapping[str, Scene]] = {
    "command": ask_by_command,
    "approval": approve,
    "compaction": compact,
    "fork": fork,
    "sleep": sleep,
    "snapshot": snapshot,
    "switch": switch,
}


async def main(scene: str, url: str, folder: Path) -> None:
    """Play *scene*, and print the modules that were imported meanwhile."""
    journal = journal_of(scene, folder)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of(scene, url))
        before = set(sys.modules)
        if scene in PLAYS:
            await PLAYS[scene](session)
        else:
            await session.ask(f"{scene} says 3")
        assert session.status().phase == "idle"
        print(*sorted(set(sys.modules) - before))  # noqa: T201 - what the test reads
        await session.stop()


class InTheLoop:
    """Hears of each import, and keeps the names of those in the thread of the loop."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._loop = threading.get_ident()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Take note."""
        if threading.get_ident() == self._loop:
            self.found.append(name)


class StepsOfTasks(trio.abc.Instrument):
    """Counts the opcodes of each step of a task from the spawn on."""

    def __init__(self) -> None:
        self.counted: list[tuple[int, str]] = []
        self._block: AbstractContextManager[list[int]] | None = None
        self._count = [0]

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count from here."""
        self._block = counted_opcodes()
        self._count = self._block.__enter__()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Keep the count."""
        if self._block is not None:
            self._block.__exit__(None, None, None)
            self.counted.append((self._count[0], task.name))


async def spawn(scene: str, url: str) -> None:
    """Spawn a first session, and print what was imported in the loop meanwhile."""
    async with open_supervisor() as supervisor:
        heard = InTheLoop()
        sys.meta_path.insert(0, heard)
        session = await supervisor.spawn(spec_of(scene, url))
        print(*heard.found)  # noqa: T201 - what the test reads
        await session.stop()


async def first_turn() -> None:
    """Spawn a first session with the demo and do a turn; print the most opcodes of one step of a task, and whose."""
    async with open_supervisor() as supervisor:
        steps = StepsOfTasks()
        trio.lowlevel.add_instrument(steps)
        session = await supervisor.spawn(SessionSpec(model="demo"))
        await session.ask("Who are you?")
        print(*max(steps.counted))  # noqa: T201 - what the test reads


def play(scene: str, *given: str) -> None:
    """Play *scene* as if this process had been started for it."""
    with tempfile.TemporaryDirectory() as name:
        if scene == "spawn":
            kind, url = given
            trio.run(spawn, kind, url)
        elif scene == "first turn":
            trio.run(first_turn)
        else:
            trio.run(main, scene, "".join(given), Path(name))


def play_apart(scene: str, *given: str) -> int:
    """Play *scene* in a process that is forked for it, and return how that ended."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        play(scene, *given)
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it is told, and this process ends
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(f"{ENDED}{play_apart(*line.rstrip().split(SPLIT))}\n")
        sys.stdout.flush()
