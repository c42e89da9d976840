"""Stored journals and an exported session, as each format was written: all of them are read, for ever.

`python -m tests.adapters.journals.sampling` makes those of the newest format and never touches what is there: a sample
that no longer loads means that the journals of users no longer load. (Until the first release, delete the folder of
format 1 and run this again.)
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from agentrail import Ask, Context, Continue, Plugin, SessionSpec, open_supervisor, tool
from agentrail.codec.versions import FORMAT
from agentrail.events import AgentEnd, ToolExecutionEnd
from agentrail.journals import SqliteJournal, export_session
from agentrail.models import Json
from agentrail.plugins import (
    BeforeTool,
    BudgetGuard,
    CallService,
    ContentPolicy,
    EpisodicMemory,
    HumanApproval,
    LargeResultOffload,
    MemoryFlush,
    Planning,
    Reflection,
)
from agentrail.testing import ScriptedModel, call, say
from tests.kit import Element, freeze_object

SAMPLES = Path(__file__).parent / "samples"
READ = [SAMPLES / f"v{number}" for number in range(1, FORMAT + 1)]
"""The samples of each format."""

NEWEST = READ[-1]

SESSION = "session.jsonl"
JOURNAL = "journal.db"
ASKING = "asking.db"
EQUIPPED = "equipped.db"
LONG = "word " * 14_000


@tool
async def note(text: str) -> str:
    """Note something."""
    return f"noted: {text}"


class Curious(Plugin[None]):
    """Asks about each call whether it may run, and lets it run whatever the answer is."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        """Ask."""
        about = CallService("oracle", freeze_object({"about": hook.args}))
        return Continue(None) if hook.answer is not None else Ask(about)


def curious(oracle: Callable[[Json], Awaitable[Json]], *script: Element) -> SessionSpec:
    """Return the specification of a session whose plugin asks *oracle* about each call."""
    model = ScriptedModel(script)
    return SessionSpec(model=model, tools=[note], plugins=[Curious()], name="curious", services={"oracle": oracle})


async def make_asking(folder: Path) -> None:
    """Leave a session whose plugin has asked about four calls: the first was answered and has run."""
    journal = SqliteJournal(folder / ASKING)
    asked: list[Json] = []

    async def oracle(payload: Json) -> Json:
        asked.append(payload)
        if len(asked) > 1:
            await trio.sleep_forever()
        return None

    async with open_supervisor(journal=journal, seed=1) as supervisor:
        calls = [call("note", {"text": f"number {number}"}) for number in range(4)]
        session = await supervisor.spawn(curious(oracle, say(calls=calls)), "sample")
        async with session.subscribe() as events:
            await session.prompt("go on")
            async for envelope in events:
                if isinstance(envelope.event, ToolExecutionEnd):
                    break
    await journal.close()


def equipped() -> SessionSpec:
    """Return the specification of a session with built-in plugins that have a state."""
    plugins = (
        BudgetGuard(max_rounds=90, max_calls=9, max_seconds=1000.0),
        ContentPolicy(prohibited_keywords=("zeta",)),
        EpisodicMemory(min_calls=0),
        LargeResultOffload(),
        MemoryFlush(),
        Planning(),
        Reflection(),
    )
    script: list[Element] = [say(calls=[call("note", {"text": "one"})]), "done"]
    return SessionSpec(model=ScriptedModel(script, repeat_last=True), tools=[note], plugins=plugins, name="equipped")


async def make_equipped(folder: Path) -> None:
    """Leave a session whose plugins have seen a turn with a call."""
    journal = SqliteJournal(folder / EQUIPPED)
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.spawn(equipped(), "sample")
        await session.ask("1. Note one. 2. Say done.")
    await journal.close()


async def make(folder: Path) -> None:
    """Record a session with a call that was approved, an abort and a long text; and one that is stopped at once."""
    journal = SqliteJournal(folder / JOURNAL)
    # The last element is repeated: the abort may come before the request of its turn, or after it.
    script = [say(calls=[call("note", {"text": "é 🙂"})]), say("done"), say(LONG)]
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        plugins = (HumanApproval(tools=["note"]), BudgetGuard(max_rounds=100))
        spec = SessionSpec(
            model=ScriptedModel(script, repeat_last=True), tools=[note], plugins=plugins, system="Be brief."
        )
        session = await supervisor.spawn(spec, "sample")
        other = await supervisor.spawn(spec, "other")
        (held,) = (await session.ask("go on", command="c1")).held
        async with session.subscribe() as events:  # else the abort may be one of the turn before
            await session.approve(held.id, command="c2")
            async for envelope in events:
                if isinstance(envelope.event, AgentEnd):
                    break
        await session.prompt("and then?")
        await session.abort("enough")
        await session.ask("a long one, please")
        await other.stop()
        await session.stop()
    await export_session(journal, "sample", folder / SESSION)
    await journal.close()


def main() -> None:
    """Make what is missing."""
    if not NEWEST.exists():
        NEWEST.mkdir(parents=True)
        trio.run(make, NEWEST)
        trio.run(make_asking, NEWEST)
        trio.run(make_equipped, NEWEST)


if __name__ == "__main__":
    main()
