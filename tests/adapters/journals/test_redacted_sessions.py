"""A redacted session comes back, and what guards it goes on: limits, doubts, and the model to return to."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest
import trio
from attrs import evolve, frozen
from trio.testing import MockClock

from agentrail import BlockTool, Context, Continue, Plugin, SessionSpec, open_supervisor, tool
from agentrail.adapters.journals.redacting import MARK
from agentrail.errors import Overloaded
from agentrail.events import ToolExecutionStart
from agentrail.journals import MemoryJournal, SqliteJournal
from agentrail.models import FrozenObject, ToolCall, Usage
from agentrail.plugins import BeforePrompt, BeforeTool, BudgetGuard, MemoryFlush, MemoryLoader, Recovery
from agentrail.sandboxes import LocalSandbox
from agentrail.testing import ScriptedModel, call, fail, say
from agentrail.tools import Todo

NAMES: Final = ("Ann", "Bob")

REDACT: Final = """
import sys
import trio
from agentrail import open_supervisor
from agentrail.journals import SqliteJournal

async def main():
    async with open_supervisor(journal=SqliteJournal(sys.argv[1])) as supervisor:
        await supervisor.redact("s", by="desk")

trio.run(main)
print([name for name in sys.modules if name.startswith("agentrail.plugins.")])
"""


@frozen
class Piece:
    """A part of a state."""

    text: str
    said: Mapping[str, str]


@frozen
class Known:
    """What a plugin knows: values of ours, its own, and words of persons as keys and in sets."""

    persons: frozenset[str]
    pieces: frozenset[tuple[str, int]]
    todos: tuple[Todo, ...]
    spent: Usage
    calls: tuple[ToolCall, ...]
    counts: Mapping[str, Piece]


KNOWN: Final = Known(
    frozenset(NAMES),
    frozenset({(name, len(name)) for name in NAMES}),
    (Todo("call Ann", "done"), Todo("call Bob")),
    Usage(5, 7),
    (ToolCall("c1", "pay", FrozenObject(to="Ann")),),
    MappingProxyType({name: Piece(name, MappingProxyType({name: name})) for name in NAMES}),
)


@frozen
class Knows(Plugin[Known]):
    """Keeps what it knows."""

    def init(self, ctx: Context) -> Known:
        return KNOWN

    def before_prompt(self, hook: BeforePrompt, state: Known, ctx: Context) -> Continue[Known]:
        return Continue(evolve(state, spent=Usage(state.spent.input_tokens + 1)))


@frozen
class Persons(Plugin[frozenset[str]]):
    """Keeps names of persons as a set."""

    def init(self, ctx: Context) -> frozenset[str]:
        return frozenset(NAMES)

    def before_prompt(self, hook: BeforePrompt, state: frozenset[str], ctx: Context) -> Continue[frozenset[str]]:
        return Continue(state)


def whole_spec(folder: Path) -> SessionSpec:
    return SessionSpec(
        model=ScriptedModel(["done"], repeat_last=True),
        plugins=[MemoryFlush(), MemoryLoader(), BudgetGuard(max_rounds=100), Knows(), Persons()],
        sandbox=LocalSandbox(folder),
    )


@pytest.mark.long
async def test_a_process_that_has_not_imported_the_plugins_redacts_as_one_that_has(tmp_path: Path) -> None:
    """A privacy desk runs no sessions: it opens a supervisor, and knows nothing of their plugins."""
    states: list[tuple[object, ...]] = []
    for name in ("here", "elsewhere"):
        file = tmp_path / name / "agentrail.db"
        file.parent.mkdir()
        journal = SqliteJournal(file, sync="normal")
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.spawn(whole_spec(tmp_path), "s")
            await session.ask("hello")
        if name == "here":
            async with open_supervisor(journal=journal) as supervisor:
                await supervisor.redact("s", by="desk")
        else:
            await journal.close()
            command = [sys.executable, "-c", REDACT, str(file)]
            run = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
            assert (run.returncode, run.stdout.decode().strip()) == (0, "[]"), run.stderr.decode()
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.resume("s", whole_spec(tmp_path))
            states.append(session.inspect().plugin_states)
            assert (await session.ask("again")).text == "done"
        await journal.close()
    assert states[0] == states[1]


async def test_a_state_keeps_its_form_and_its_sizes_and_no_word() -> None:
    journal, spec = MemoryJournal(encode=True), SessionSpec(model="demo", plugins=[Knows(), Persons()])
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.spawn(spec, "s")
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.redact("s", by="desk")
        stored = repr(await journal.read("s", 0, 100))
        session = await supervisor.resume("s", spec)
        known, persons = session.inspect().plugin_states
    assert [name for name in NAMES if name in stored] == []
    second = f"{MARK} 1"
    assert persons == {MARK, second}
    assert known == Known(
        frozenset({MARK, second}),
        frozenset({(MARK, 3), (second, 3)}),
        (Todo(MARK, MARK), Todo(second, second)),
        Usage(5, 7),
        (ToolCall(MARK, MARK, FrozenObject({MARK: MARK})),),
        MappingProxyType({key: Piece(MARK, MappingProxyType({MARK: MARK})) for key in (MARK, second)}),
    )


@tool(effect="pure")
async def pay() -> str:
    """Pay."""
    return "paid"


@frozen
class AtMostTwo(Plugin[Mapping[str, int]]):
    """Lets each tool run twice."""

    def init(self, ctx: Context) -> Mapping[str, int]:
        return MappingProxyType({"Ann": 1})

    def before_tool(
        self, hook: BeforeTool, state: Mapping[str, int], ctx: Context
    ) -> Continue[Mapping[str, int]] | BlockTool[Mapping[str, int]]:
        count = state.get(hook.name, 0)
        return BlockTool("at most 2") if count == 2 else Continue(MappingProxyType({**state, hook.name: count + 1}))


async def test_a_limit_by_tool_goes_on_after_a_redaction() -> None:
    journal = MemoryJournal(encode=True)
    model = ScriptedModel([say(calls=[call("pay", {})]), "done"] * 3)
    spec = SessionSpec(model=model, tools=[pay], plugins=[AtMostTwo()])
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("go")
        await session.ask("go")
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.redact("s", by="desk")
        session = await supervisor.resume("s", spec)
        assert session.inspect().plugin_states == ({MARK: 1, "pay": 2},)
        await session.ask("go")
        assert session.inspect().plugin_states == ({MARK: 1, "pay": 2},)
    assert "at most 2" in repr(model.requests[-1].messages[-1])


async def test_recovery_returns_to_its_first_model_after_a_redaction(autojump_clock: MockClock) -> None:
    del autojump_clock
    first = ScriptedModel([fail(Overloaded("busy"))] * 2 + ["at home"], name="p:first")
    models = {"first": first, "second": ScriptedModel(["away"], repeat_last=True, name="p:second")}
    spec = SessionSpec(model="p:first", model_options={"reasoning_effort": "high"}, plugins=[Recovery(["p:second"])])
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal, models={"p": models.__getitem__}) as supervisor:
        session = await supervisor.spawn(spec, "s")
        assert (await session.ask("go")).text == "away"
        (fallen,) = session.inspect().plugin_states
    async with open_supervisor(journal=journal, models={"p": models.__getitem__}) as supervisor:
        await supervisor.redact("s", by="desk")
        session = await supervisor.resume("s", spec)
        assert session.inspect().plugin_states == (fallen,)
        await trio.sleep(400)
        assert (await session.ask("later")).text == "at home"
    assert first.requests[-1].options == {"reasoning_effort": "high"}


@tool
async def deploy(version: str) -> str:
    """Deploy."""
    await trio.sleep_forever()
    return version


async def test_a_call_that_was_cut_is_held_also_after_a_redaction() -> None:
    """Its arguments are gone, so any call of the tool may be it: with none, an equal one would run at once."""
    journal = MemoryJournal(encode=True)
    model = ScriptedModel([say(calls=[call("deploy", {"version": "1"})])] * 2 + ["done"])
    spec = SessionSpec(model=model, tools=[deploy])
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        async with session.subscribe(types=[ToolExecutionStart]) as events:
            await session.prompt("go")
            await anext(events)
        await session.abort("stop", kill_tools="all")
        (doubt,) = session.inspect().in_doubt_calls
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.redact("s", by="desk")
        session = await supervisor.resume("s", spec)
        assert session.inspect().in_doubt_calls == (doubt.but(args=None),)
        (held,) = (await session.ask("again")).held
        assert (held.tool, held.args) == ("deploy", {"version": "1"})
        await session.reject(held.id)
        await session.approve(f"s:{doubt.name_of_call}")
        assert session.inspect().in_doubt_calls == ()


async def test_the_environment_is_told_after_a_redaction_without_its_folder(tmp_path: Path) -> None:
    journal, folder = MemoryJournal(encode=True), tmp_path / "Ann"
    folder.mkdir()
    model = ScriptedModel(["done"], repeat_last=True)
    spec = SessionSpec(model=model, tools=[pay], sandbox=LocalSandbox(folder), working_dir="work")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("hello")
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.redact("s", by="desk")
        assert "Ann" not in repr(await journal.read("s", 0, 100))
        session = await supervisor.resume("s", spec)
        await session.ask("again")
    before, after = model.requests
    ((_, told),) = before.background
    assert (after.background, after.sections) == ((("environment", told.replace(str(folder), MARK)),), ())
