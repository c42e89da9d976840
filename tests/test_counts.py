"""What is equal on every machine: how often the scheduler runs a task, and the Python calls of a turn and a request."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest
import trio

from agentrail import SessionHandle
from bench import request_calls
from bench.rig import listened_session

TURNS = 40


class TaskSteps(trio.abc.Instrument):
    """Counts how often any task runs."""

    def __init__(self) -> None:
        self.steps = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count."""
        self.steps += 1


async def _turns(session: SessionHandle) -> None:
    for _ in range(TURNS):
        await session.ask("go on")


async def _steps_per_turn(*, calls: int = 0, chunks: int = 20) -> float:
    async with listened_session(calls=calls, chunks=chunks) as session:
        await _turns(session)
        instrument = TaskSteps()
        trio.lowlevel.add_instrument(instrument)
        await _turns(session)
        trio.lowlevel.remove_instrument(instrument)
    return instrument.steps / TURNS


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    counted = [0]

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            counted[0] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield counted
    finally:
        sys.setprofile(before)


async def _calls_per_turn(*, chunks: int) -> float:
    async with listened_session(chunks=chunks) as session:
        await _turns(session)
        with counted_calls() as counted:
            await _turns(session)
    return counted[0] / TURNS


def _run(**job: int) -> float:
    async def counted() -> float:
        return await _steps_per_turn(**job)

    return trio.run(counted)


def test_a_turn_takes_at_most_nine_task_steps() -> None:
    assert _run() <= 9


@pytest.mark.long
def test_a_tool_round_takes_at_most_eight_more() -> None:
    assert _run(calls=1) - _run() <= 8


@pytest.mark.long
def test_a_further_parallel_call_takes_at_most_two_more() -> None:
    assert (_run(calls=9) - _run(calls=1)) / 8 <= 2


@pytest.mark.long
def test_ten_times_the_chunks_take_no_more_task_steps() -> None:
    assert _run(chunks=220) <= _run(chunks=20) + 0.5


@pytest.fixture(scope="module")
def calls_for_20_chunks() -> float:
    return trio.run(lambda: _calls_per_turn(chunks=20))


def test_a_turn_of_twenty_chunks_takes_at_most_1500_python_calls(calls_for_20_chunks: float) -> None:
    assert calls_for_20_chunks <= 1500


@pytest.mark.long
def test_a_chunk_takes_at_most_twelve_python_calls(calls_for_20_chunks: float) -> None:
    more = trio.run(lambda: _calls_per_turn(chunks=220))
    assert (more - calls_for_20_chunks) / 200 <= 12


@pytest.mark.long
def test_a_streamed_request_takes_no_more_python_calls_than_it_did() -> None:
    assert request_calls.measured().calls <= request_calls.MOST
