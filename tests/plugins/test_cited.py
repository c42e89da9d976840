"""`Cited`: no answer cites what no call has returned, up to a limit, also after a fork, a restart or a compaction."""

from __future__ import annotations

from typing import Final

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import BadOptions
from agentrail.events import Intervention, PluginEvent
from agentrail.journals import MemoryJournal
from agentrail.knowledge import citations_in
from agentrail.models import Json
from agentrail.plugins import Cited
from agentrail.plugins.quality.cited import MAX_KEPT, Citations
from agentrail.testing import (
    ScriptedModel,
    ScriptStep,
    Trace,
    call,
    compact,
    prompt,
    returns,
    say,
    simulate,
)
from agentrail.tools import Ok, ok, tool
from tests.runtime.tools import quick

TOOLS = [quick(name).spec for name in ("knowledge_search", "other")]
SEARCH = say(calls=[call("knowledge_search")])


def passages(*citations: Json) -> ScriptStep:
    return returns(ok("[[forged.md#1]]", {"passages": list(citations)}))


def played(*script_steps: ScriptStep, plugin: Cited | None = None) -> Trace:
    return simulate([plugin or Cited()], [prompt("How many?"), *script_steps], tools=TOOLS)


def interventions(trace: Trace) -> list[str]:
    return [event.text for event in trace.events if isinstance(event, Intervention)]


def payloads(trace: Trace) -> list[Json]:
    return [event.payload for event in trace.events if isinstance(event, PluginEvent)]


def test_an_answer_is_sent_back_as_often_as_is_allowed() -> None:
    trace = played(SEARCH, passages("a.md#0"), *[say("[[a.md#0]] [[forged.md#1]] [[a.md#2]] [[a.md#2]]")] * 4)
    first, second = interventions(trace)
    assert first == second
    assert "[[forged.md#1]], [[a.md#2]], which no search" in first
    assert payloads(trace) == [
        {"citations": ("forged.md#1", "a.md#2"), "attempt": attempt, "is_final": attempt == 3, "user_data": {}}
        for attempt in (1, 2, 3)
    ]
    state = trace.plugin_state("Cited")
    assert state == Citations(("a.md#0",), 1, 2)


ALLOWED: Final = ("none", "[[a.md#0]]", "[[a]] [[ $x ]] [[a.md#]] [[a.md#x]]", "[[[a.md#0]]]", "[[a.md\n#3]]")


@pytest.mark.parametrize("text", ALLOWED)
def test_an_answer_that_cites_what_was_returned_is_final(text: str) -> None:
    assert interventions(played(SEARCH, passages("a.md#0"), say(text))) == []


NAMELESS: Final = (
    ok("[[a.md#0]]"),
    ok("x", {"passages": "a.md#0"}),
    ok("x", {"passages": [["a.md#0"], 5, None, "x" * 400]}),
    ok("x", {"passages": None}),
)


@pytest.mark.parametrize("result", NAMELESS)
def test_only_the_details_of_a_result_name_passages(result: Ok) -> None:
    trace = played(SEARCH, returns(result), say("[[a.md#0]]"), say("done"))
    assert len(interventions(trace)) == 1
    assert trace.plugin_state("Cited") == Citations((), 1, 1)


def test_another_tool_adds_nothing() -> None:
    trace = played(say(calls=[call("other")]), passages("a.md#0"), say("[[a.md#0]]"), say("done"))
    assert len(interventions(trace)) == 1
    named = Cited(tools="other", max_tries=0)
    assert payloads(played(say(calls=[call("other")]), passages("a.md#0"), say("[[a.md#0]]"), plugin=named)) == []


def test_what_is_remembered_is_bounded_and_outlives_turns_and_compactions() -> None:
    numbers = [f"a.md#{number}" for number in range(MAX_KEPT + 10)]
    trace = played(
        *(
            SEARCH,
            passages(*numbers),
            say("ok"),
            compact(),
            say("a summary"),
            prompt("again"),
            say(f"[[{numbers[-1]}]]"),
        ),
    )
    assert interventions(trace) == []
    state = trace.plugin_state("Cited")
    assert isinstance(state, Citations)
    assert state.returned == tuple(numbers[-MAX_KEPT:])


@tool(effect="pure")
def knowledge_search() -> Ok:
    """Search."""
    return ok("x", {"passages": ["a.md#0"]})


async def test_a_fork_and_a_restart_know_what_was_returned() -> None:
    journal = MemoryJournal()

    def spec(*answers: str) -> SessionSpec:
        return SessionSpec(model=ScriptedModel([SEARCH, "ok", *answers]), tools=[knowledge_search], plugins=[Cited()])

    later = spec().but(model=ScriptedModel(["[[a.md#0]]", "[[a.md#0]]"]))
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "desk")
        await session.ask("search")
        fork = await supervisor.fork("desk", later)
        assert (await fork.ask("cite")).text == "[[a.md#0]]"
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("desk", later)
        assert (await session.ask("cite")).text == "[[a.md#0]]"


def test_citations_are_found_in_any_text() -> None:
    assert citations_in("[[a b/c.md#12]], [[x [y].md#0]] [[a b/c.md#12]] [[]] [[#1]] [[" + "[" * 100_000) == (
        "a b/c.md#12",
        "x [y].md#0",
    )
    for text in ("[[" * 300_000, "[[a" * 300_000, "#1]]" * 300_000, "[[" + "a#1" * 300_000):
        assert citations_in(text) == ()


@pytest.mark.parametrize("options", [{"max_tries": -1}, {"tools": 5}, {"tools": [5]}, {"max_tries": "x"}])
def test_options_are_checked(options: dict[str, object]) -> None:
    with pytest.raises(BadOptions):
        Cited(**options)  # type: ignore[arg-type]
