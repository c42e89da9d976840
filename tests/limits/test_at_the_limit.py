"""Each limit lets through what it says, and no more."""

from inspect import isawaitable
from itertools import product

import pytest

from tests.limits import (
    SCENES,
    SIDES,
    Scene,
    adapters,  # noqa: F401 - its scenes are entered when it is imported
    arguments,  # noqa: F401 - as above
    machine,  # noqa: F401 - as above
    mailboxes,  # noqa: F401 - as above
    outside,  # noqa: F401 - as above
    shell,  # noqa: F401 - as above
    steps,  # noqa: F401 - as above
    tools,  # noqa: F401 - as above
)

SLOW = frozenset(
    {
        "adapters.mcp.server_tools.PATTERN_STEPS",
        "adapters.sandboxes.searching.LINE_STEPS",
        "core.vocabulary.tool_calls.MAX_ENDED_TASKS",
        "runtime.shared.collector.MANY",
        "values.step_budget.RESPONSE_STEPS",
    }
)
"""Limits that it takes long to come to."""


@pytest.mark.parametrize(
    ("scene", "side"),
    [
        pytest.param(scene, side, marks=[pytest.mark.long] if scene.limit in SLOW else [])
        for scene, side in product(SCENES, SIDES)
    ],
    ids=lambda given: given.name if isinstance(given, Scene) else f"{given:+d}",
)
async def test_what_is_within_a_limit_passes_and_what_is_above_does_not(scene: Scene, side: int) -> None:
    passes = scene.passes(scene.at + side)
    if isawaitable(passes):
        passes = await passes
    assert passes is (side <= scene.last)
