"""Contexts that stay fuller than a compaction aims at: it is said what takes the space, the session goes on, and no
compaction after the other is paid for.
"""

from __future__ import annotations

from typing import Final

import pytest

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.errors import TurnAborted
from agentrail.events import AgentAbort, CompactEnd
from agentrail.models import AssistantMessage, Message, ModelRequest, Text, ToolCall, ToolMessage, UserMessage
from agentrail.testing import ScriptedModel, call, say
from agentrail.values.messages import size_of, why_unfit
from tests.kit import EMPTY, Element
from tests.runtime.test_compaction import compactions, happened, is_summary
from tests.slices import planned

WINDOW: Final = 4_000
TURNS: Final = 60
SYSTEM: Final = "You are a clerk. " * 165
"""About 700 tokens."""


def clerk() -> tuple[ScriptedModel, list[ModelRequest]]:
    """Return a model that says little, and the list of its requests for summaries."""
    summaries: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Element:
        assert why_unfit(request.messages) is None
        if is_summary(request):
            summaries.append(request)
            return "a summary"
        return "fine. " * 20

    return ScriptedModel([answer], repeat_last=True), summaries


async def talked(spec: SessionSpec, turns: int = TURNS) -> tuple[list[CompactEnd], int]:
    """Return the compactions of a session of some turns, and how many of these were aborted."""
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        for number in range(turns):
            await session.ask(f"number {number}. " + "word " * 10)
        events = await happened(session)
        return await compactions(session), sum(isinstance(event, AgentAbort) for event in events)


@pytest.mark.parametrize("share", [0.55, 0.7, 0.78])
async def test_what_is_pinned_between_target_and_trigger_holds_up_no_session_and_costs_no_summary(
    share: float,
) -> None:
    """With the system prompt alone above the target, no compaction can reach it: the space that it leaves is used."""
    model, summaries = clerk()
    spec = SessionSpec(model=model, system="s" * int(WINDOW * 4 * share), context_window=WINDOW)
    ends, aborted = await talked(spec)
    assert aborted == 0
    assert summaries == []
    assert ends
    assert len(ends) * WINDOW / 16 <= TURNS * 60, "a sixteenth of the window comes before the next compaction"
    for end in ends:
        assert end.crowded is not None
        assert end.crowded.target == WINDOW // 2
        assert end.crowded.target < end.crowded.tokens <= WINDOW
        assert end.crowded.system == pytest.approx(WINDOW * share, abs=5)
        assert sum((end.crowded.system, end.crowded.tools, end.crowded.messages)) <= end.crowded.tokens


async def test_with_a_window_that_is_assumed_the_session_goes_on_and_is_not_compacted_in_each_round() -> None:
    model, summaries = clerk()
    unknown = ScriptedModel(model._script, repeat_last=True, name="acme:huge")  # noqa: SLF001 - the same script
    ends, aborted = await talked(SessionSpec(model=unknown, system="s" * 4 * 40_000))
    assert aborted == 0
    assert summaries == []
    assert len(ends) <= 1 + TURNS * 60 * 16 // 32_000
    assert all(end.crowded is not None for end in ends)


async def test_a_compaction_that_reaches_its_target_says_nothing_of_space() -> None:
    model, summaries = clerk()
    ends, _ = await talked(SessionSpec(model=model, context_window=1_000))
    assert ends
    assert summaries
    assert [end.crowded for end in ends] == [None] * len(ends)


async def test_the_error_of_a_turn_that_cannot_go_on_says_what_takes_the_space() -> None:
    @tool(effect="pure")
    async def look(text: str) -> str:
        """Look."""
        return text

    model, _ = clerk()
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, system=SYSTEM, tools=[look], context_window=1_000))
        with pytest.raises(TurnAborted) as raised:
            await session.ask("word " * 400)
        assert raised.value.args[1] == "overflow"
        reason = raised.value.args[2]
        assert "system prompt 701, tools " in reason
        assert "messages that must stay 500" in reason
        (end,) = await compactions(session)
        assert end.crowded is not None
        assert (end.crowded.system, end.crowded.messages) == (701, 500)


@pytest.mark.parametrize(("limit", "is_whole"), [(None, False), (2_000, False), (3_000, True)])
def test_what_the_model_works_on_is_shortened_only_if_it_would_fill_the_context(
    limit: int | None, is_whole: bool
) -> None:
    older: list[Message] = [UserMessage((Text("x" * 700),)), AssistantMessage((Text("y" * 700),))]
    works: list[Message] = [
        UserMessage((Text("look"),)),
        AssistantMessage((), (ToolCall("c1", "look", EMPTY),)),
        ToolMessage("c1", "look", (Text("z" * 2_500),)),
    ]
    plan = planned([*older, *works], 1_000, limit)
    assert list(plan.removed) == [0, 1]
    assert (list(plan.messages[2:]) == works) == is_whole
    assert sum(map(size_of, plan.with_notice("gone"))) < (3_000 if is_whole else 1_000)


async def test_the_newest_results_are_left_whole_while_there_is_room() -> None:
    """A result that takes three quarters of the window is what the model works on; it was cut to 2,000 characters."""

    @tool(effect="pure", max_result_chars=20_000)
    async def read() -> str:
        """Read."""
        return "z" * 11_000

    script: list[Element] = ["one. " + "word " * 200, say(calls=[call("read")]), "done"]
    model = ScriptedModel(script)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=[read], context_window=WINDOW))
        await session.ask("hello. " + "word " * 500)
        await session.ask("read it")
        (end,) = await compactions(session)
        assert end.crowded is not None
        assert "z" * 11_000 in [message.text for message in session.messages()]
