"""The program of `test_importing`: one scene in a fresh process, and what it imports once its session has started."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import trio

from agentrail import Continue, Plugin, SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.hooks.context import Context
from agentrail.hooks.records import BeforeTool
from agentrail.plugins.approval import HumanApproval
from agentrail.ports.journal import Journal
from agentrail.ports.model import EmitChunk
from agentrail.tools.builtin import standard_tools
from agentrail.values.content import Text, ToolCall
from agentrail.values.json import Json, freeze_object
from agentrail.values.stream import ModelRequest, Response

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


async def compact(session: SessionHandle) -> None:
    """Have enough to compact, and do it."""
    for _ in range(3):
        await session.ask("go on")
    await session.compact()
    await session.ask("go on")


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
        "subagent": lambda: SessionSpec(
            model=Script(call("task", {"agent": "adder", "prompt": "add"})),
            agents={"adder": SessionSpec(model=script, tools=[add], description="Adds.")},
        ),
    }
    if scene in specs:
        return specs[scene]()
    return SessionSpec(model=f"{scene}:model", model_options={"base_url": url}, tools=[add])


def journal_of(scene: str, folder: Path) -> Journal | None:
    """Return the journal of *scene*."""
    if scene == "encoded":
        return MemoryJournal(encode=True)
    if scene == "sqlite":
        from agentrail.adapters.journals.sqlite import SqliteJournal  # noqa: PLC0415 - it brings the codec

        return SqliteJournal(folder / "agentrail.db")
    return None


PLAYS: Final[Mapping[str, Scene]] = {
    "command": ask_by_command,
    "approval": approve,
    "compaction": compact,
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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        trio.run(main, sys.argv[1], sys.argv[2], Path(name))
