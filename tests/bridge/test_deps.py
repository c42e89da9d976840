"""What tools depend on is made where the tools run: in the loop of the program, or on Trio beside blocking calls."""

from __future__ import annotations

import asyncio

from attrs import frozen

from agentrail import DepsWanted, SessionSpec, aio, run_sync, sync, tool
from agentrail.models import JsonObject
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext, ToolResult, make_spec, ok
from tests.bridge.loops import Run, on_each_loop


@frozen
class Client:
    """Stands for a client that belongs to an event loop."""

    customer: str
    loop: asyncio.AbstractEventLoop | None = None


def calling(name: str) -> ScriptedModel:
    """Return a model that calls a tool."""
    return ScriptedModel([say(calls=[call(name)]), "Done."])


@aio.tool
async def look(ctx: ToolContext[Client]) -> str:  # noqa: ASYNC124 - a tool is async
    """Tell of the client."""
    return f"{ctx.deps.customer} {ctx.deps.loop is asyncio.get_running_loop()}"


class Looker:
    """A tool with a class of its own."""

    spec = make_spec("look", "Tell of the client.", {})

    async def execute(self, args: JsonObject, ctx: ToolContext[Client]) -> ToolResult:  # noqa: ASYNC124 - as tools are
        """Tell of the client."""
        return ok(f"{ctx.deps.customer} {ctx.deps.loop is asyncio.get_running_loop()}")


async def connect(session: DepsWanted) -> Client:
    """Return a client of the loop."""
    await asyncio.sleep(0)
    return Client(session.owner, asyncio.get_running_loop())


@on_each_loop
def test_an_asyncio_function_makes_them_in_the_loop_of_the_tools(run: Run) -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            for used in (look, Looker()):
                for make in (connect, aio.service(connect)):
                    spec = SessionSpec(model=calling("look"), tools=[used], deps=make)
                    session = await supervisor.spawn(spec, owner="ann")
                    await session.ask("Go.")
                    assert session.messages()[2].text == "ann True"

    run(main)


@tool
def tell(ctx: ToolContext[Client]) -> str:
    """Tell of the client."""
    return ctx.deps.customer


def test_they_are_there_beside_calls_that_block() -> None:
    spec = SessionSpec(model=calling("tell"), tools=[tell], deps=lambda session: Client(session.owner))
    with sync.open_supervisor() as supervisor:
        session = supervisor.spawn(spec, owner="ann")
        session.ask("Go.")
        assert session.messages()[2].text == "ann"
    reply = run_sync("Go.", spec.but(model=calling("tell"), deps=Client("bob")))
    assert [message.text for message in reply.messages][2] == "bob"
