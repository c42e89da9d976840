"""A long session with a small window: nothing is orphaned, nothing overflows, and each message is found again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Final

import pytest

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.core.context_window import tokens_of
from agentrail.events import AgentAbort, CompactEnd, ContextOverflow
from agentrail.journals import MemoryJournal, Record
from agentrail.models import EmitChunk, Message, ModelRequest, Response
from agentrail.runtime.work.stored_messages import StoredPast
from agentrail.testing import ScriptedModel, call, overflow, say
from agentrail.tools.builtin import read_history
from agentrail.values.messages import why_unfit
from agentrail.values.stream import read_tokens
from tests.kit import Element, PromptSent
from tests.profiles import CAMPAIGN
from tests.runtime.test_compaction import is_summary

pytestmark = pytest.mark.long

WINDOW: Final = 2_000
TURNS: Final = 2_000 if CAMPAIGN else 150
SYSTEM: Final = "You are a clerk. " * 20


@tool(effect="pure")
async def look(number: int) -> str:
    """Look something up."""
    return f"entry {number}: " + "detail " * (10 + number % 60)


class Clerk:
    """Looks something up in each turn; refuses what is longer than its window, and what no provider would take."""

    name = "scripted"

    def __init__(self) -> None:
        self.turn = 0
        self.largest = 0
        self._model = ScriptedModel([self._answer], repeat_last=True)

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        self._model.requests.clear()
        return await self._model.stream(request, emit)

    def _answer(self, request: ModelRequest) -> Element:
        tokens = read_tokens(request)
        self.largest = max(self.largest, tokens)
        problem = why_unfit(request.messages)
        assert problem is None, problem
        if tokens > WINDOW:
            return overflow("too long")
        if is_summary(request):
            return "the clerk has looked up entries"
        if request.messages[-1].__class__.__name__ == "ToolMessage":
            return f"answer {self.turn} is there"
        self.turn += 1
        return say(calls=[call("look", {"number": self.turn})])


async def test_a_long_session_stays_within_its_window_and_forgets_nothing() -> None:
    model = Clerk()
    journal = MemoryJournal()
    spec = SessionSpec(model=model, tools=[look, read_history], system=SYSTEM, context_window=WINDOW)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "long")
        heads: list[int] = []
        for number in range(TURNS):
            await session.ask(f"question {number}: " + "word " * (number % 50))
            heads.append(len(session.messages()))
        state = session._session.state  # noqa: SLF001 - its tokens are looked at
        assert tokens_of(state) <= WINDOW
        assert max(heads) < 100, "the context does not grow"
        records = await journal.read("long", 0, 10**9)
        events = [envelope.event for record in records for envelope in record.events]
        assert not [event for event in events if isinstance(event, ContextOverflow | AgentAbort)]
        ends = [event for event in events if isinstance(event, CompactEnd)]
        assert len(ends) >= TURNS // 20
        assert all("failed" not in end.note and "refused" not in end.note for end in ends)
        assert records_of_turns(records) <= {RECORDS, RECORDS + 1, RECORDS + 2}, "no more in later turns"
        past = StoredPast(journal, "long")
        messages = await past.messages(0, 10**6)
        numbers = [item.number for item in messages]
        assert numbers == sorted(set(numbers))
        assert [text for text in texts_of(messages) if text.startswith("question")] == [
            (f"question {number}: " + "word " * (number % 50)) for number in range(TURNS)
        ]
        assert [text for text in texts_of(messages) if text.startswith("entry")] == [
            f"entry {number}: " + "detail " * (10 + number % 60) for number in range(1, TURNS + 1)
        ]
        for number in (0, TURNS // 2, TURNS - 1):
            (message,) = await past.messages(0, 2, partial(begins, f"question {number}:"))
            assert message.number
    assert model.largest <= WINDOW


RECORDS: Final = 4
"""Records of a turn with one call: prompt, response, result, answer; each compaction adds one."""


def records_of_turns(records: Sequence[Record]) -> set[int]:
    """Return how many records the turns have."""
    starts = [index for index, record in enumerate(records) if isinstance(record.arrival.input, PromptSent)]
    return {after - old for old, after in itertools.pairwise([*starts, len(records)])}


def begins(text: str, message: Message) -> bool:
    return message.text.startswith(text)


def texts_of(actual: Sequence[tuple[int, Message]]) -> list[str]:
    return [message.text for _, message in actual]
