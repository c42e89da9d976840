from __future__ import annotations

from collections.abc import Callable

import trio
from trio.testing import MockClock

from agentrail import SessionSpec, Supervisor
from agentrail.testing import ScriptedModel, say


async def test_an_agent_test_is_three_lines(
    supervisor: Supervisor, scripted_model: Callable[..., ScriptedModel]
) -> None:
    session = await supervisor.spawn(SessionSpec(model=scripted_model("Hello.", say("Bye."))))
    assert (await session.ask("Hi")).text == "Hello."
    assert (await session.ask("So long")).text == "Bye."


async def test_an_hour_passes_in_a_moment(virtual_clock: MockClock) -> None:
    assert isinstance(virtual_clock, MockClock)
    before = trio.current_time()
    await trio.sleep(3_600)
    assert trio.current_time() - before == 3_600
