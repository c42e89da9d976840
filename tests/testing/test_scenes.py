from __future__ import annotations

from random import Random
from typing import cast

import pytest

from agentrail import tool
from agentrail.errors import WrongType
from agentrail.events import ToolExecutionStart
from agentrail.testing import Choose, Scene, play
from agentrail.tools import ToolSpec


@tool
async def refund(path: str) -> str:
    """Pay an order back."""
    raise AssertionError(path)


def test_a_session_calls_the_tools_of_an_agent_and_runs_none() -> None:
    scene = Scene(tools=(refund, ToolSpec("ask", "asks")))
    worlds = [play(Choose(Random(seed).randrange), scene, 60) for seed in range(3)]
    events = [envelope.event for world in worlds for record in world.records for envelope in record.events]
    assert {event.name for event in events if isinstance(event, ToolExecutionStart)} == {"refund", "ask"}


def test_what_is_no_tool_is_refused() -> None:
    with pytest.raises(WrongType, match=r"cannot take a `str` as `tools`; give tools, such as functions decorated by"):
        Scene(tools=(cast("ToolSpec", "refund"),))
