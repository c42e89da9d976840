"""Tools of recorded cases never run, whoever brings them: plugins, sub-agents, agents of a handoff, servers."""

from collections.abc import Iterator
from typing import Final

import attrs
import pytest

from agentrail import Ask, Context, Continue, Handoff, Plugin, SessionSpec, open_supervisor, tool
from agentrail.errors import UsageError
from agentrail.evals import Case, RecordedCall, Results, Run, Scorer, calls_match, exact, expect, experiment
from agentrail.journals import MemoryJournal, audit
from agentrail.models import Json
from agentrail.plugins import BroughtTools, ChangeTools, HumanApproval, Keyed, SessionStart
from agentrail.testing import ScriptedModel, call, say
from tests.kit import Element

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> Iterator[None]:
    """No tool runs in these tests."""
    RAN.clear()
    yield
    assert RAN == []


@tool
async def look(at: str = "") -> str:
    """Look."""
    RAN.append("look")
    return at


@tool
async def send(to: str) -> str:
    """Send."""
    RAN.append("send")
    return to


@attrs.frozen
class Tooled(Plugin[None]):
    """Brings a tool."""

    declarations = (BroughtTools((look,)),)

    def session_start(self, hook: SessionStart, state: None, ctx: Context) -> Ask[None] | Continue[None]:
        return Ask(ChangeTools(attach=("look",)), state) if hook.answer is None else Continue(state)


@attrs.frozen(slots=False)
class OwnTools(Tooled):
    """Brings tools of which the object itself has the list."""

    declarations: tuple[BroughtTools, ...] = (BroughtTools((look,)),)  # type: ignore[assignment]


def recorded(*calls: RecordedCall, tools: object = "recorded") -> Case:
    return Case("then", ("Go",), expected="done", tools=tools, recorded=calls)  # type: ignore[arg-type]


def scripted(*script: Element, **others: object) -> SessionSpec:
    return SessionSpec(model=ScriptedModel([*script, "done"]), **others)  # type: ignore[arg-type]


async def results_of(case: Case, spec: SessionSpec) -> tuple[Results, list[str]]:
    texts: list[str] = []

    def note(run: Run) -> bool:
        texts.extend(call.result for call in run.calls)
        return True

    journal = MemoryJournal()
    results = await experiment([case], spec, [exact, Scorer("note", note)], repeats=1, journal=journal)
    assert list(results.problems()) == []
    assert await audit(journal, results.runs[0].session) == ()
    return results, texts


LOOKS = say(calls=[call("look", {"at": "home"})])


@pytest.mark.parametrize("plugin", [Tooled(), Keyed("other", Tooled()), OwnTools()])
@pytest.mark.parametrize("tools", ["recorded", {"look": "seen"}])
async def test_a_tool_that_a_plugin_brings(plugin: Tooled, tools: object) -> None:
    case = recorded(RecordedCall("look", {"at": "home"}, "seen"), tools=tools)
    _, texts = await results_of(case, scripted(LOOKS, plugins=[plugin]))
    assert texts == ["seen"]


RESEARCHER = SessionSpec(description="Finds out.", tools=[look, send])
TASK: Final[dict[str, Json]] = {"agent": "researcher", "description": "find", "prompt": "Find it"}


@pytest.mark.parametrize("tools", ["recorded", {"task": "found"}])
async def test_a_sub_agent_is_a_call_of_its_parent(tools: object) -> None:
    case = recorded(RecordedCall("task", {**TASK}, "found"), tools=tools)
    spec = scripted(say(calls=[call("task", TASK)]), agents={"researcher": RESEARCHER})
    results, texts = await results_of(case, spec)
    assert texts == ["found"]
    assert results.mean("exact") == 1


async def test_the_model_is_told_of_the_same_tools_as_of_then() -> None:
    spec = scripted(agents={"researcher": RESEARCHER}, tools=[send])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        real = {name: attached.spec.parameters for name, attached in session.inspect().tools.items()}
    await results_of(recorded(), spec.but(model=(model := ScriptedModel(["done"]))))
    assert {tool.name: tool.parameters for tool in model.requests[0].tools} == real


async def test_a_guard_may_name_a_tool_of_a_sub_agent_or_server() -> None:
    guard = HumanApproval(tools=("send",))
    await results_of(recorded(), scripted(agents={"researcher": RESEARCHER}, plugins=[guard]))
    source = Source()
    await results_of(recorded(), scripted(tools=[source], plugins=[guard]))


class Source:
    """A server that must not be started."""

    name = "server"

    def check(self) -> None: ...

    async def supply(self, *args: object) -> None:
        RAN.append("server")


async def test_a_call_of_a_servers_tool_answers_and_the_server_does_not_start() -> None:
    spec = scripted(LOOKS, tools=[Source()])
    _, texts = await results_of(recorded(RecordedCall("look", {"at": "home"}, "seen")), spec)
    assert texts == ["seen"]
    with pytest.raises(UsageError, match=r"no tool `look`, .*; tools of an MCP server answer as recorded, or all run"):
        await results_of(recorded(tools={"look": "x"}), spec)


@pytest.mark.parametrize("wrapped", [False, True])
async def test_a_handoff_happens_and_the_tools_of_its_agent_do_not_run(wrapped: bool) -> None:
    refunds = SessionSpec(name="refunds", description="Refunds.", tools=[send, look], handoffs=["desk"])
    handoff = Handoff(refunds, history="turn") if wrapped else refunds
    spec = scripted(
        say(calls=[call("transfer_to_refunds", {})]),
        say(calls=[call("send", {"to": "ann"})]),
        name="desk",
        description="Desk.",
        tools=[look],
        handoffs=[handoff],
    )
    calls = (RecordedCall("transfer_to_refunds", {}, "…"), RecordedCall("send", {"to": "ann"}, "sent"))
    results, texts = await results_of(recorded(*calls), spec)
    assert texts[-1] == "sent"
    assert results.mean("exact") == 1
    with pytest.raises(UsageError, match="no tool `transfer_to_refunds`"):
        await results_of(recorded(calls[0]), spec.but(handoffs=()))


async def test_a_session_with_sub_agents_becomes_a_case_that_runs() -> None:
    """Taken from a real session, with the sub-agent at work: the case runs it no more."""
    below = SessionSpec(model=ScriptedModel(["It is blue."]), description="Finds out.")
    spec = scripted(say(calls=[call("task", TASK)]), agents={"researcher": below})
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "real")
        await session.ask("Go")
    case = Case.of(await journal.read("real", 0, 100), 1)
    assert case.calls == (expect("task", **TASK),)
    spec = scripted(say(calls=[call("task", TASK)]), agents={"researcher": RESEARCHER})
    results = await experiment([case], spec, [exact, calls_match("exact", "all")], repeats=1)
    assert (results.mean("exact"), results.mean("calls_match exact"), list(results.problems())) == (1, 1, [])
