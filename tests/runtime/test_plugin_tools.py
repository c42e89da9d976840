"""Plugins attach and detach tools, and may write the summaries of compactions; all of it holds after a restart."""

from __future__ import annotations

from typing import Final

import pytest
from attrs import frozen

from agentrail import Ask, BlockTool, Context, Continue, Plugin, SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.errors import BadPlugin, ToolExists
from agentrail.events import CompactEnd, ToolDetached, ToolsUpdated
from agentrail.journals import MemoryJournal
from agentrail.models import AskModel, Compactor, Leaving, ToolMessage, UserMessage
from agentrail.plugins import (
    Answered,
    AskAnswer,
    Attachable,
    BeforePrompt,
    BeforeTool,
    BroughtCompactor,
    BroughtTools,
    ChangeTools,
    Failed,
    Keyed,
)
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Tool
from agentrail.values.content import text_of
from tests.cache_prefixes import broken_prefixes
from tests.kit import Element
from tests.runtime.tools import quick
from tests.runtime.world import all_events

IRON: Final = ChangeTools(("iron",))
NOT_ASKED: Final = Answered("not asked")


@tool(effect="pure")
async def iron(at_ms: int = 1) -> str:
    """Iron the cloth."""
    return f"ironed at {at_ms}"


@tool(name="iron", effect="pure")
async def hotter(at_ms: int = 2) -> str:
    """Iron the cloth, and hotter."""
    return f"ironed hotter at {at_ms}"


@frozen
class Brings(Plugin[tuple[AskAnswer, ...]]):
    """Changes the tools at the prompts of some numbers, and remembers the answer of each prompt."""

    asks: tuple[tuple[int, ChangeTools], ...] = ((0, IRON),)
    how: str = "iron"

    def init(self, ctx: Context) -> tuple[AskAnswer, ...]:
        return ()

    @property
    def declarations(self) -> tuple[BroughtTools]:
        return (BroughtTools({"iron": (iron,), "hotter": (hotter,), "none": ()}[self.how]),)

    def before_prompt(
        self, hook: BeforePrompt, state: tuple[AskAnswer, ...], ctx: Context
    ) -> Continue[tuple[AskAnswer, ...]] | Ask[tuple[AskAnswer, ...]]:
        if hook.answer is not None:
            return Continue((*state, hook.answer))
        expected = dict(self.asks).get(len(state))
        return Continue((*state, NOT_ASKED)) if expected is None else Ask(expected)


@frozen
class Guard(Plugin[None]):
    blocks: str = ""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        return BlockTool("no irons") if hook.name == self.blocks else Continue()


def spec(*plugins: Attachable, script: list[Element], tools: tuple[Tool, ...] = ()) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(script), plugins=list(plugins), tools=list(tools))


def irons(text: str = "done") -> list[Element]:
    return [say(calls=[call("iron")]), text]


def results(session: SessionHandle) -> list[str]:
    return [text_of(message.parts) for message in session.messages() if isinstance(message, ToolMessage)]


async def test_a_plugin_attaches_a_tool_and_detaches_it() -> None:
    asks = ((0, ChangeTools()), (1, IRON), (2, ChangeTools(detach=("iron", "cut"))))
    value = spec(Brings(asks), script=["none", *irons(), *irons("gone")], tools=(quick("cut", "cut"),))
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(value)
        for text in ("a", "b", "c"):
            await session.ask(text)
        assert results(session)[0] == "ironed at 1"
        assert "iron" in results(session)[1]
        assert "there is no tool" in results(session)[1] or "no tool" in results(session)[1]
        events = await all_events(session)
        assert [event for event in events if isinstance(event, ToolsUpdated)] == [
            ToolsUpdated(("iron",), (), "Brings"),
            ToolsUpdated((), ("iron", "cut"), "Brings"),
        ]
        broken = broken_prefixes(await journal.read(session.id))
        changed = [(item.part, item.name, item.by) for _, item in broken]
        assert changed == [("tool", "iron", "Brings"), ("tool", "cut", "Brings")]
        assert session.inspect().plugin_state("Brings") == (Answered(None),) * 3


async def test_guards_see_a_tool_of_a_plugin_as_any_other() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(Brings(), Guard("iron"), script=irons()))
        await session.ask("a")
        assert results(session) == ["blocked by Guard: no irons"]


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        (ChangeTools(("iron",), ("saw",)), "there is no tool `saw`"),
        (ChangeTools(("iron", "saw")), "`Brings` brings no tool `saw`; name it in its `BroughtTools`"),
    ],
)
async def test_an_impossible_change_changes_nothing(expected: ChangeTools, why: str) -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(Brings(((0, expected),)), script=["a"]))
        await session.ask("a")
        assert session.inspect().plugin_state("Brings") == (Failed(why),)
        assert not session.inspect().tools


async def test_a_tool_that_a_caller_attached_is_not_replaced() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(Brings(), script=irons()))
        await session.attach_tools(hotter)
        await session.ask("a")
        assert session.inspect().plugin_state("Brings") == (Failed("there is another tool `iron`"),)
        assert results(session) == ["ironed hotter at 2"]


async def test_two_tools_of_one_name_are_refused_at_spawn() -> None:
    async with open_supervisor() as supervisor:
        for value in (
            spec(Brings(), script=[], tools=(hotter,)),
            spec(Brings(), Keyed("Other", Brings(how="hotter")), script=[]),
        ):
            with pytest.raises(ToolExists):
                await supervisor.spawn(value)


async def test_what_is_no_tool_is_refused() -> None:
    class Odd(Plugin[None]):
        @property
        def declarations(self) -> tuple[BroughtTools]:
            return (BroughtTools(("iron",)),)  # type: ignore[arg-type]  # a lie

    async with open_supervisor() as supervisor:
        with pytest.raises(BadPlugin, match="its `BroughtTools` is"):
            await supervisor.spawn(spec(Odd(), script=[]))


@pytest.mark.parametrize(
    ("how", "result", "detached"), [("iron", "ironed at 1", 0), ("hotter", "ironed hotter at 2", 0), ("none", "", 1)]
)
async def test_the_tool_is_there_after_a_restart_with_the_code_of_now(how: str, result: str, detached: int) -> None:
    """The tool was attached in the first process, and nobody asks for it again."""
    journal = MemoryJournal(encode=True)
    for start in range(2):
        plugin = Brings(how=how if start else "iron")
        value = spec(plugin, script=irons() if start else ["attached"])
        async with open_supervisor(journal=journal) as supervisor:
            session = await (supervisor.resume("s", value) if start else supervisor.spawn(value, "s"))
            await session.ask("go")
            if start:
                assert session.inspect().plugin_state("Brings") == (Answered(None), NOT_ASKED)
                assert (results(session)[0] == result) == bool(result)
                events = await all_events(session)
                assert sum(isinstance(event, ToolDetached) for event in events) == detached
                assert [tool.plugin for tool in session.inspect().tools.values()] == ["Brings"] * (1 - detached)


async def test_a_fork_has_the_tool_too() -> None:
    value = spec(Brings(), script=["attached", *irons()])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(value)
        await session.ask("go")
        fork = await session.fork()
        await fork.ask("iron it")
        assert results(fork) == ["ironed at 1"]


async def test_the_tools_go_with_their_plugin() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(script=["attached", "gone"]))
        await session.attach_plugin(Brings())
        await session.ask("go")
        assert list(session.inspect().tools) == ["iron"]
        await session.detach_plugin(Brings)
        assert not session.inspect().tools
        assert (await all_events(session))[-1] == ToolsUpdated((), ("iron",), "Brings")


async def test_new_options_bring_new_tools_which_are_attached_when_asked_for() -> None:
    value = spec(Brings(((0, IRON), (1, IRON), (2, IRON))), script=[*irons(), *irons(), *irons()])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(value)
        await session.ask("go")
        await session.update_plugin(Brings, how="hotter")
        await session.ask("go")
        assert results(session) == ["ironed at 1", "ironed hotter at 2"]


# Compactors


@frozen
class Sums(Plugin[None]):
    """Offers a compactor that writes one text."""

    text: str

    @property
    def declarations(self) -> tuple[BroughtCompactor, ...]:
        if self.text == "raises":
            raise ValueError("oops")
        return (BroughtCompactor(written if self.text == "written" else other),) if self.text else ()


async def written(leaving: Leaving, ask: AskModel) -> str:  # noqa: ARG001 - as a compactor is called
    return "written by a plugin"


async def other(leaving: Leaving, ask: AskModel) -> str:  # noqa: ARG001 - as a compactor is called
    return "written by another"


async def own(leaving: Leaving, ask: AskModel) -> str:  # noqa: ARG001 - as a compactor is called
    return "written by the specification"


async def summary(*plugins: Attachable, compactor: Compactor | None = None) -> str:
    """Return the text that replaces messages in a session with these plugins."""
    model = ScriptedModel([*("word " * 2000 for _ in range(3)), "written by the model", "last"])
    session_spec = SessionSpec(model=model, plugins=list(plugins), compactor=compactor, compact_to=4000)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(session_spec)
        for _ in range(3):
            await session.ask("go on")
        await session.compact()
        await session.ask("and then?")
        assert any(isinstance(item, CompactEnd) and item.removed for item in await all_events(session))
        notices = [text_of(message.parts) for message in session.messages() if isinstance(message, UserMessage)]
    return next(text.partition("\n")[2] for text in notices if text.startswith("["))


@pytest.mark.parametrize(
    ("plugins", "compactor", "expected"),
    [
        ((), None, "written by the model"),
        (("",), None, "written by the model"),
        (("written",), None, "written by a plugin"),
        (("", "other", "written"), None, "written by another"),
        (("written", "other"), own, "written by the specification"),
    ],
    ids=["model", "none", "plugin", "first", "specification"],
)
async def test_the_specification_s_compactor_goes_before_those_of_plugins_in_their_order(
    plugins: tuple[str, ...], compactor: Compactor | None, expected: str
) -> None:
    keyed = [Keyed(f"P{index}", Sums(text)) for index, text in enumerate(plugins)]
    assert await summary(*keyed, compactor=compactor) == expected


async def test_a_compactor_that_is_no_function_is_refused() -> None:
    class Odd(Plugin[None]):
        @property
        def declarations(self) -> tuple[BroughtCompactor]:
            return (BroughtCompactor(str),)  # type: ignore[arg-type]  # a lie

    async with open_supervisor() as supervisor:
        for plugin, problem in ((Odd(), "its `BroughtCompactor` is"), (Sums("raises"), "its `declarations` raised")):
            with pytest.raises(BadPlugin, match=problem):
                await supervisor.spawn(spec(plugin, script=[]))
