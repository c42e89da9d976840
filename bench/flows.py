"""Print what three ways through the package take: calls of its functions, its modules, and moves between these.

A coroutine that goes on is a call too. A move is a call in another module than the call before it. Of several rounds
the one with the fewest calls counts: Trio takes the tasks of a pass in either order.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Final

import trio
import trio.testing

import agentrail
from agentrail import SessionSpec, open_supervisor
from agentrail.events import AgentAbort, AgentEnd, Envelope, Event, MessageDelta, ToolExecutionStart
from agentrail.models import (
    EmitChunk,
    FrozenObject,
    JsonObject,
    ModelRequest,
    Response,
    Text,
    TextChunk,
    ToolCall,
    ToolMessage,
)
from agentrail.tools import EffectClass, Ok, ToolContext, ToolSpec, ok
from tests.kit import EMPTY

PACKAGE: Final = f"{Path(agentrail.__file__).parent}/"
ROUNDS: Final = 20
"""How often each way is gone."""


class Way:
    """What was called between two moments, in the thread of the loop."""

    def __init__(self) -> None:
        self._called: list[str] = []
        self._fewest: list[str] = []

    @property
    def figures(self) -> tuple[int, int, int]:
        """The fewest calls of a round, their modules, and the moves between these."""
        called = self._fewest
        moves = sum(module != before for module, before in zip(called, ["", *called], strict=False))
        return len(called), len(set(called)), moves

    def begin(self) -> None:
        """Note each call from now on."""
        self._called = []
        sys.setprofile(self._note)

    def end(self) -> None:
        """Note no more calls."""
        sys.setprofile(None)
        self._fewest = min(self._fewest or self._called, self._called, key=len)

    def _note(self, frame: FrameType, what: str, _: object) -> None:
        module = frame.f_code.co_filename
        if what == "call" and module.startswith(PACKAGE):
            self._called.append(module)


class Model:
    """Calls the tool that the prompt names, and says a word if there is none or it has answered."""

    name = "scripted:flows"

    def __init__(self, after_tool: Way) -> None:
        self._after_tool = after_tool

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer."""
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            self._after_tool.end()
        elif last.text != "talk":
            return Response((), (ToolCall("", last.text, EMPTY),))
        emit(TextChunk("word"))
        await trio.testing.wait_all_tasks_blocked()  # whoever hears it is not to wait for what follows
        return Response((Text("word"),))


class Note:
    """A tool that does nothing."""

    spec = ToolSpec("note", "Note.", FrozenObject({"type": "object"}))

    def __init__(self, way: Way) -> None:
        self._way = way

    async def execute(self, args: JsonObject, ctx: ToolContext) -> Ok:
        """Do nothing."""
        self._way.begin()
        return ok("noted")


class Park:
    """A tool that runs until it is cancelled, and may run again without a person's consent."""

    spec = ToolSpec("park", "Wait.", FrozenObject({"type": "object"}), effect=EffectClass.PURE)

    async def execute(self, args: JsonObject, ctx: ToolContext) -> Ok:
        """Wait."""
        await trio.sleep_forever()
        return ok("never")


async def heard(events: AsyncIterator[Envelope], wanted: type[Event]) -> None:
    """Return when an event of this class has come."""
    async for envelope in events:
        if isinstance(envelope.event, wanted):
            return


async def counted() -> dict[str, Way]:
    """Return what each way takes."""
    talk, tool, abort = Way(), Way(), Way()
    spec = SessionSpec(model=Model(tool), tools=[Note(tool), Park()], repeat_pattern=1_000_000)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec, "flows")
        async with session.subscribe() as events:
            for _ in range(ROUNDS):
                talk.begin()
                await session.prompt("talk")
                await heard(events, MessageDelta)
                talk.end()
                await heard(events, AgentEnd)
                await session.prompt("note")
                await heard(events, AgentEnd)
                await session.prompt("park")
                await heard(events, ToolExecutionStart)
                await trio.testing.wait_all_tasks_blocked()
                abort.begin()
                await session.abort()
                await heard(events, AgentAbort)
                abort.end()
    return {"prompt to first delta": talk, "tool result to next request": tool, "abort to who listens": abort}


def main() -> None:
    """Print the table."""
    print(f"{'':32}{'calls':>8}{'modules':>9}{'moves':>7}")
    for name, way in trio.run(counted).items():
        calls, modules, moves = way.figures
        print(f"{name:32}{calls:>8}{modules:>9}{moves:>7}")


if __name__ == "__main__":
    main()
