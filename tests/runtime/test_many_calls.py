"""The cost per call (or other item) of a response does not grow with their number."""

from __future__ import annotations

import pytest
import trio

from agentrail.core.vocabulary.tool_calls import MAX_CALLS_PER_RESPONSE
from agentrail.models import AssistantMessage, ToolMessage
from agentrail.values.messages import why_unfit
from agentrail.values.untrusted_content import MAX_CALLS
from bench.rig import listened_session
from tests.opcodes import counted_opcodes
from tests.profiles import CAMPAIGN

FEW, MANY = (500, 4000) if CAMPAIGN else (400, 1600)  # few calls show no slope: some costs come in steps
LET_THROUGH = (16, 40, MAX_CALLS_PER_RESPONSE)  # all above `max_parallel`: the first calls start without waiting

NO_COMPACTION = 100_000_000
"""A window that no session here fills: what a compaction takes is not what is counted."""

STEP_OPCODES = 1_200_000
"""Opcodes that the longest step may take: about 10 ms, where a million take 7 ms."""


async def _opcodes(calls: int) -> int:
    """Return the opcodes of the second turn, with *calls* calls; the first turn does what is done only once."""
    async with listened_session(calls=calls, chunks=1, window=NO_COMPACTION) as session:
        await session.ask("go on")
        with counted_opcodes() as counted:
            await session.ask("go on")
    return counted[0]


def _per_call(least: int, few: int, many: int) -> tuple[float, float]:
    """Return the opcodes per call from *least* to *few* calls, and per further call up to *many*."""
    base, less, more = (trio.run(_opcodes, calls) for calls in (least, few, many))
    return (less - base) / (few - least), (more - less) / (many - few)


@pytest.mark.long
def test_each_call_of_many_takes_as_much_as_of_few() -> None:
    first, further = _per_call(*LET_THROUGH)
    assert further <= first * 1.05


@pytest.mark.long
def test_each_call_over_the_limit_takes_as_much_as_the_others_over_it_and_little() -> None:
    first, further = _per_call(MAX_CALLS_PER_RESPONSE, MAX_CALLS_PER_RESPONSE + FEW, MAX_CALLS_PER_RESPONSE + MANY)
    assert further <= first * 1.05
    assert further <= 1_500


class Steps(trio.abc.Instrument):
    """Knows the opcodes of the longest step of a task; *counted* is the running number."""

    def __init__(self, counted: list[int]) -> None:
        self.longest = 0
        self._counted = counted
        self._began = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note the number of opcodes at the start."""
        self._began = self._counted[0]

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note the step if it was the longest."""
        self.longest = max(self.longest, self._counted[0] - self._began)


async def _longest_step(calls: int, window: int = NO_COMPACTION) -> int:
    async with listened_session(calls=calls, chunks=1, window=window) as session:
        await session.ask("go on")
        with counted_opcodes() as counted:
            steps = Steps(counted)
            trio.lowlevel.add_instrument(steps)
            for _ in range(1 if window == NO_COMPACTION else 3):
                await session.ask("go on")
            trio.lowlevel.remove_instrument(steps)
        notices = [message for message in session.messages() if "older messages" in message.text]
    assert len(notices) == (0 if window == NO_COMPACTION else 1)
    return steps.longest


@pytest.mark.long
def test_no_step_is_long_with_as_many_calls_as_may_be_let_through() -> None:
    assert trio.run(_longest_step, MAX_CALLS_PER_RESPONSE) <= STEP_OPCODES


@pytest.mark.long
def test_calls_over_the_limit_make_no_step_long() -> None:
    few, many = (trio.run(_longest_step, calls) for calls in (100, 1_100))
    assert (many - few) / 1_000 * MAX_CALLS <= 3_000_000


@pytest.mark.campaign
@pytest.mark.long
def test_a_compaction_of_so_many_calls_makes_no_step_long() -> None:
    """What it plans is planned in slices; what it writes is what is left, and each message that goes is looked at."""
    few, many = (trio.run(_longest_step, calls, 100 * calls) for calls in (100, 1_100))
    assert (many - few) / 1_000 * MAX_CALLS <= 3_000_000


@pytest.mark.long
def test_each_of_four_thousand_calls_has_its_result() -> None:
    most = MAX_CALLS_PER_RESPONSE

    async def history() -> list[AssistantMessage | ToolMessage]:
        async with listened_session(calls=4_000, chunks=1, window=NO_COMPACTION) as session:
            await session.ask("go on")
            messages = session.messages()
        assert why_unfit(messages) is None
        return [message for message in messages if isinstance(message, AssistantMessage | ToolMessage)]

    text, *results, _ = trio.run(history)
    assert isinstance(text, AssistantMessage)
    assert len(text.calls) == len(results) == 4_000
    texts = [message.text for message in results]
    over = f"it did not run: a response may make at most {most} calls, and this one makes 4000; make fewer at once"
    assert texts == ["noted"] * most + [over] * (4_000 - most)
