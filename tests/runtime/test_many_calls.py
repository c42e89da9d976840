"""A response with many calls, and what else comes in numbers, costs as much for each as one with few."""

from __future__ import annotations

import pytest
import trio

from agentrail.values.messages import AssistantMessage, ToolMessage, why_unfit
from tests.benchmarks.rig import listened_session
from tests.opcodes import counted_opcodes
from tests.profiles import CAMPAIGN

FEW, MANY = (500, 4000) if CAMPAIGN else (100, 400)


async def _opcodes(calls: int, most: int) -> int:
    """Return what the second turn with so many *calls* takes: the first one makes what is made once."""
    async with listened_session(calls=calls, chunks=1, most_calls=most) as session:
        await session.ask("go on")
        with counted_opcodes() as counted:
            await session.ask("go on")
    return counted[0]


def _per_call(few: int, many: int, most: int) -> tuple[float, float]:
    """Return what each call takes up to *few*, and each further one up to *many*."""
    one, less, more = (trio.run(_opcodes, calls, most) for calls in (1, few, many))
    return (less - one) / (few - 1), (more - less) / (many - few)


def test_each_call_of_many_takes_as_much_as_of_few() -> None:
    first, further = _per_call(FEW, MANY, most=10_000)
    assert further <= first * 1.05


def test_each_call_over_the_limit_takes_as_much_as_the_others_over_it_and_little() -> None:
    first, further = _per_call(FEW, MANY, most=1)
    assert further <= first * 1.05
    assert further <= 1_500


@pytest.mark.parametrize("most", [64, 5_000])
def test_each_of_four_thousand_calls_has_its_result(most: int) -> None:
    async def history() -> list[AssistantMessage | ToolMessage]:
        async with listened_session(calls=4_000, chunks=1, most_calls=most) as session:
            await session.ask("go on")
            messages = session.messages()
        assert why_unfit(messages) is None
        return [message for message in messages if isinstance(message, AssistantMessage | ToolMessage)]

    said, *results, _ = trio.run(history)
    assert isinstance(said, AssistantMessage)
    assert len(said.calls) == len(results) == 4_000
    texts = [message.text for message in results]
    over = "it did not run: a response may make at most 64 calls, and this one makes 4000; make fewer at once"
    assert texts == ["noted"] * min(most, 4_000) + [over] * max(0, 4_000 - most)
