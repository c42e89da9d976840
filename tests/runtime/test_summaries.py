"""Summaries of compactions that fail: tried again like other requests, given up in time, and counted each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.errors import PermanentModelError, ProviderNotReached, RateLimited, TransientModelError, TurnAborted
from agentrail.events import CompactEnd
from agentrail.models import AskModel, EmitChunk, Leaving, ModelRequest, Response, Text, Usage
from agentrail.plugins import BudgetGuard
from agentrail.testing import ScriptedModel, fail, say
from agentrail.values.messages import why_unfit
from tests.kit import Element
from tests.profiles import CAMPAIGN
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.test_compaction import LONG, SUMMARY, compactions, is_summary, spec, talk, text_of
from tests.runtime.world import settle

BUSY: Final = TransientModelError("try later")


class Stubborn:
    """Answers prompts, and each request for a summary with the next of *summaries*; the last one is repeated."""

    name = "scripted"

    def __init__(self, *summaries: Element) -> None:
        self.requests: list[ModelRequest] = []
        self.at: list[float] = []
        self._summaries = ScriptedModel(summaries, repeat_last=True)
        self._answers = ScriptedModel(["go on, please. " * 20], repeat_last=True)

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        self.requests.append(request)
        if not is_summary(request):
            return await self._answers.stream(request, emit)
        self.at.append(trio.current_time())
        return await self._summaries.stream(request, emit)

    @property
    def summaries(self) -> list[ModelRequest]:
        return [request for request in self.requests if is_summary(request)]


async def first_compaction(session: SessionHandle) -> CompactEnd:
    """Talk until the context is compacted."""
    while not await compactions(session):
        await talk(session, 1)
    return (await compactions(session))[0]


@pytest.mark.parametrize("error", [BUSY, RateLimited("slow down"), TransientModelError("502")])
async def test_a_summary_that_fails_for_a_passing_reason_is_tried_again(
    error: Exception,
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001
) -> None:
    model = Stubborn(fail(error), fail(error), SUMMARY)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model))
        end = await first_compaction(session)
        assert "replaced by a summary" in end.note
        assert SUMMARY in text_of(session.messages())
    first, second, third = model.at
    assert (1.0 <= second - first <= 2.0, 2.0 <= third - second <= 4.0) == (True, True), "as retries of requests wait"


async def test_it_is_tried_as_often_as_other_requests_and_then_the_messages_are_dropped(
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001
) -> None:
    model = Stubborn(fail(BUSY))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model, max_retries=2))
        end = await first_compaction(session)
        assert len(model.summaries) == 3
        assert end.note.startswith("the summary failed after 3 attempts: TransientModelError: try later")
        assert end.note.endswith("were dropped to make room")
        assert why_unfit(session.messages()) is None


async def test_no_attempt_is_waited_for_that_would_come_after_the_time_for_the_summary(
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001
) -> None:
    model = Stubborn(fail(RateLimited("slow down", retry_after=61.0)))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model))
        began = trio.current_time()
        end = await first_compaction(session)
        assert end.note.startswith("the summary failed: RateLimited: the provider's limit is reached: slow down")
        assert trio.current_time() - began < 1.0, "it is known at once that there is no time"


async def test_a_reason_that_does_not_pass_is_not_tried_again() -> None:
    model = Stubborn(fail(PermanentModelError("no such model")))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model))
        end = await first_compaction(session)
        assert end.note.startswith("the summary failed: PermanentModelError: no such model")
        assert len(model.summaries) == 1


async def test_each_attempt_is_paid_for() -> None:
    model = Stubborn(fail(BUSY, text="word " * 400, after=1), say(SUMMARY, usage=Usage(5_000, 70)))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model, retry_base=0.0))
        await first_compaction(session)
        assert len(model.summaries) == 2
        assert session.status().usage.input_tokens > 5_000 + model.summaries[0].size // 4


async def test_an_abort_while_the_next_attempt_is_waited_for_ends_the_compaction() -> None:
    model = Stubborn(fail(BUSY))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model, retry_base=30.0))
        await talk(session, 3)
        old_messages = session.messages()
        await session.prompt("number 3. " + LONG)
        while not model.summaries:  # noqa: ASYNC110 - nobody sets an event
            await settle()
        await settle()
        await session.abort("enough")
        await settle()
        assert session.messages()[: len(old_messages)] == old_messages
        assert (await compactions(session))[-1] == CompactEnd(0, "cancelled")
        assert len(model.summaries) == 1


async def odd(leaving: Leaving, ask: AskModel) -> str:  # noqa: ARG001
    raise ValueError("odd")


async def nothing(leaving: Leaving, ask: AskModel) -> str:  # noqa: ARG001
    return None  # type: ignore[return-value]  # what a compactor of a user may return


async def hopeful(leaving: Leaving, ask: AskModel) -> str:  # noqa: ARG001
    return "a summary. " + text_of(leaving.messages)


@pytest.mark.parametrize(
    ("compactor", "why"),
    [
        (odd, "the summary failed: ValueError: odd"),
        (nothing, "the summary failed: it is a `NoneType`, and no text"),
        (hopeful, "the summary was refused: it has "),
    ],
)
async def test_a_compactor_that_will_not_do_is_one_whose_messages_are_dropped(
    compactor: Callable[[Leaving, AskModel], object], why: str
) -> None:
    model = Stubborn(SUMMARY)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model, compactor=compactor))
        end = await first_compaction(session)
        assert end.note.startswith(why)
        assert end.note.endswith("were dropped to make room")
        assert model.summaries == []


class Lost:
    """Answers three prompts, then fails: *busy* times as a server that has no time, and then without a connection."""

    name = "lost"

    def __init__(self, busy: int, seconds: float) -> None:
        self._answered = 0
        self._busy = busy
        self._seconds = seconds

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        self._answered += 1
        if self._answered <= 3:
            return Response((Text("go on, please. " * 20),))
        await trio.sleep(self._seconds)
        if self._answered <= 3 + self._busy:
            raise BUSY
        raise ProviderNotReached("no network")


@pytest.mark.long
@given(st.integers(0, 4), st.floats(0.0, 5.0))
@settings(max_examples=100 if CAMPAIGN else 10)
def test_no_message_is_dropped_where_no_model_can_be_reached(busy: int, seconds: float) -> None:
    async def main() -> None:
        async with open_supervisor(seed=1) as supervisor:
            session = await supervisor.spawn(spec(Lost(busy, seconds)))
            await talk(session, 3)
            old_messages = session.messages()
            began = trio.current_time()
            with pytest.raises(TurnAborted, match="no connection to the provider can be made: no network"):
                await session.ask("number 3. " + LONG)
            assert busy or trio.current_time() - began <= 5.01
            assert session.messages()[: len(old_messages)] == old_messages
            (end,) = await compactions(session)
            assert end.removed == 0

    run_in_virtual_time(main)


@pytest.mark.parametrize("limit", ["max_tokens", "max_turn_tokens"])
async def test_a_budget_counts_the_request_for_a_summary_before_it_is_sent(limit: str) -> None:
    """The last turn fits no more, with or without a summary: none is paid for."""
    model = Stubborn(SUMMARY)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model, plugins=[BudgetGuard(max_tokens=5_000)]))
        await talk(session, 3)
        used = session.status().usage.total_tokens
        if limit == "max_tokens":
            await session.update_plugin(BudgetGuard, max_tokens=used + 10)
        else:
            await session.update_plugin(BudgetGuard, max_turn_tokens=10)
        with pytest.raises(TurnAborted, match="is used up"):
            await session.ask("number 3. " + LONG)
        assert model.summaries == []
        assert [end.note for end in await compactions(session)] == []
        assert session.status().usage.total_tokens == used


async def test_a_budget_of_money_that_is_spent_pays_for_no_summary() -> None:
    model = Stubborn(say(SUMMARY, usage=Usage(10, 10, cost_usd=1.0)))
    async with open_supervisor() as supervisor:
        spends = SessionSpec(
            model=model, context_window=1_000, plugins=[BudgetGuard(max_usd=2.5, unknown_price="allow")]
        )
        session = await supervisor.spawn(spends)
        with pytest.raises(TurnAborted, match="max_usd"):
            await talk(session, 100)
        assert len(model.summaries) == 3
        await session.compact()
        await settle()
        assert len(model.summaries) == 3, "and none that a caller asks for"


async def test_summaries_go_on_while_the_budget_lasts() -> None:
    model = Stubborn(SUMMARY)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec(model, plugins=[BudgetGuard(max_tokens=1_000_000)]))
        end = await first_compaction(session)
        assert "replaced by a summary" in end.note
