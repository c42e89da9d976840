"""Sessions that happened, for back-tests, and policies to try on them."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from agentrail import BlockTool, Continue, Plugin, ReplaceToolArgs, SessionSpec, open_supervisor, tool
from agentrail.journals import Journal, MemoryJournal, Record
from agentrail.plugins import AnyPlugin, BeforeTool, Context, Keyed
from agentrail.testing import ScriptedModel, call, say
from tests.kit import Element


@tool(effect="pure")
async def look(path: str) -> str:
    """Look at a file."""
    return f"{path} is fine"


@tool(effect="pure")
async def pay(amount: int) -> str:
    """Pay."""
    return f"{amount} paid"


@frozen
class Closed(Plugin[None]):
    """Block one path."""

    path: str = "c"

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        return BlockTool(f"{self.path} is closed") if hook.args.get("path") == self.path else Continue()


@frozen
class SpendCounter(Plugin[int]):
    """Let nobody pay more than a sum in all."""

    most: int = 1_000

    def init(self, ctx: Context) -> int:
        return 0

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int] | BlockTool[int]:
        amount = hook.args.get("amount")
        total = state + amount if isinstance(amount, int) else state
        return BlockTool("too much in all", state) if total > self.most else Continue(total)


@frozen
class Cap(Plugin[None]):
    """Pay no more than a sum at once."""

    most: int = 100

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | ReplaceToolArgs[None]:
        amount = hook.args.get("amount")
        too_much = isinstance(amount, int) and amount > self.most
        return ReplaceToolArgs({**hook.args, "amount": self.most}) if too_much else Continue()


Turn = Sequence[tuple[str, str | int]]
"""The calls of a turn, one after the other: pairs of a tool and its argument."""


def script_of(turns: Sequence[Turn]) -> list[Element]:
    """Return what the model says in *turns*."""
    script: list[Element] = []
    for calls in turns:
        for name, value in calls:
            script.append(say(calls=[call(name, {"path" if name == "look" else "amount": value})]))
        script.append("Done.")
    return script


async def sessions_of(
    plugins: Sequence[AnyPlugin | Keyed], *turns: Turn, count: int = 1, journal: Journal | None = None
) -> Journal:
    """Return a journal with sessions of *plugins*, all with the same turns."""
    kept = journal or MemoryJournal()
    async with open_supervisor(journal=kept) as supervisor:
        for number in range(1, count + 1):
            spec = SessionSpec(model=ScriptedModel(script_of(turns)), tools=[look, pay], plugins=plugins)
            session = await supervisor.spawn(spec, f"s{number}")
            for _ in turns:
                await session.ask("Go.")
    return kept


async def records_of(journal: Journal, session_id: str = "s1") -> tuple[Record, ...]:
    """Return the records of a session."""
    return await journal.read(session_id, 0, 1_000)
