from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from agentrail import SessionSpec, open_supervisor
from agentrail.testing import ScriptedModel, TrioDriver


def test_a_call_returns_or_raises_what_its_work_does() -> None:
    async def fails() -> None:
        await trio.sleep(3_600)
        raise ValueError(3_600)

    driver = TrioDriver()
    began = driver.call(_now)
    with pytest.raises(ValueError, match="3600"):
        driver.call(fails)
    assert driver.call(_now) - began >= 3_600
    driver.close()
    driver.close()


def test_a_driver_leaves_what_it_has_entered_the_last_first_and_once() -> None:
    texts: list[str] = []

    @asynccontextmanager
    async def entered(name: str) -> AsyncGenerator[str]:
        yield name
        await trio.sleep(3_600)
        texts.append(name)

    driver = TrioDriver()
    assert [driver.enter(entered(name)) for name in ("a", "b")] == ["a", "b"]
    assert texts == []
    driver.close()
    driver.close()
    assert texts == ["b", "a"]


async def _now() -> float:
    await trio.lowlevel.checkpoint()
    return trio.current_time()


class Talking(RuleBasedStateMachine):
    """A session whose model repeats the prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.trio = TrioDriver()
        supervisor = self.trio.enter(open_supervisor())
        model = ScriptedModel([lambda request: request.messages[-1].text or "nothing"], repeat_last=True)
        self.session = self.trio.call(supervisor.spawn, SessionSpec(model=model))
        self.turns = 0

    @rule(text=st.text("abc", min_size=1))
    def prompt(self, text: str) -> None:
        self.turns += 1
        assert self.trio.call(self.session.ask, text).text == text
        assert len(self.session.messages()) == 2 * self.turns

    def teardown(self) -> None:
        self.trio.close()


TestTalking = Talking.TestCase
TestTalking.settings = settings(max_examples=10, stateful_step_count=5, deadline=None)
