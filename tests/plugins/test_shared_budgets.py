"""A session and its sub-agents under one budget: how far all of them together may go over a limit."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail.errors import TurnAborted
from agentrail.models import Json, Price, Usage
from agentrail.plugins import BudgetGuard
from agentrail.testing import call, say
from tests.kit import Element
from tests.profiles import CAMPAIGN
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.families import agent, task, tasks
from tests.runtime.tools import slow
from tests.runtime.world import open_world, settle

pytestmark = pytest.mark.long

Work: TypeAlias = list[tuple[int, float]]
"""What a sub-agent does: for each response the tokens that it uses, and the seconds that its call takes."""

WORK = st.lists(st.tuples(st.integers(1, 300), st.sampled_from((0.0, 1.0, 2.5))), min_size=1, max_size=5)
DEARER = 3e-6


async def used(work: list[Work], guard: BudgetGuard, *, at_once: bool) -> tuple[float, float]:
    """Let a sub-agent do each of *work*, at once or one after the other; return the tokens and dollars of all."""
    names = [f"a{number}" for number in range(len(work))]
    agents = {}
    for name, rounds in zip(names, work, strict=True):
        script: list[Element] = [
            say("I go on.", calls=[call("slow")], usage=Usage(tokens, 0), delay=seconds) for tokens, seconds in rounds
        ]
        agents[name] = agent([*script, say("done", usage=Usage(1, 0))], name, tools=[slow(seconds=1.0)])
    prices = {name: Price(1.0 + number, 1.0) for number, name in enumerate((*names, "scripted"))}
    start: list[Element] = [tasks(*names)] if at_once else [task(name) for name in names]
    async with open_world() as world:
        session = await world.spawn([*start, "fine"], "p", agents=agents, prices=prices, plugins=[guard])
        with suppress(TurnAborted):
            await session.ask("go")
        await settle()
        usage = session.status().usage
        return usage.total_tokens, usage.cost_usd or 0.0


@settings(max_examples=200 if CAMPAIGN else 12)
@given(st.lists(WORK, min_size=1, max_size=4), st.integers(20, 900), st.booleans(), st.booleans())
def test_a_limit_is_exceeded_by_one_response_of_all_sessions_at_most(
    work: list[Work], limit: int, at_once: bool, in_dollars: bool
) -> None:
    """One after the other, that is one response in all."""
    guard = BudgetGuard(max_usd=limit * DEARER) if in_dollars else BudgetGuard(max_tokens=limit)
    tokens, dollars = run_in_virtual_time(lambda: used(work, guard, at_once=at_once))
    largest = [
        max((response * ((1.0 + number) * 1e-6 if in_dollars else 1) for response, _ in rounds), default=0)
        for number, rounds in enumerate(work)
    ]
    over = (dollars if in_dollars else tokens) - (limit * DEARER if in_dollars else limit)
    assert over <= max(largest) + 1e-9


async def waits_told(guard: BudgetGuard, caplog: pytest.LogCaptureFixture, *starts: Element, **options: Json) -> int:
    """Let three sub-agents work as *starts* says, with *options* of their model; return how often a wait is told."""
    names = ("a", "b", "c")
    agents = {name: agent([say("done", delay=1.0)], name, model_options=options) for name in names}
    async with open_world() as world:
        session = await world.spawn([*starts, "fine"], "p", agents=agents, plugins=[guard])
        await session.ask("go")
    told = [record.message for record in caplog.records if "waits until others of its family" in record.message]
    assert all("it might exceed BudgetGuard: max_tokens=" in text for text in told)
    return len(told)


async def test_why_sub_agents_wait_for_each_other_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    assert await waits_told(BudgetGuard(max_tokens=100_000), caplog, tasks("a", "b", "c")) == 1


async def test_sub_agents_that_need_not_wait_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    one_by_one = [task(name) for name in ("a", "b", "c")]
    assert await waits_told(BudgetGuard(max_tokens=100_000), caplog, *one_by_one) == 0
    assert await waits_told(BudgetGuard(max_tokens=100_000), caplog, tasks("a", "b", "c"), max_tokens=100) == 0
    assert await waits_told(BudgetGuard(), caplog, tasks("a", "b", "c")) == 0
