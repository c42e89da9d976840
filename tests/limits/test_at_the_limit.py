"""Each limit lets through what it says, and no more."""

from inspect import isawaitable

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
        "core.machine.deferred_tools.MAX_FOUND",
        "core.vocabulary.tool_calls.MAX_CALLS_PER_RESPONSE",
        "core.vocabulary.tool_calls.MAX_ENDED_TASKS",
        "runtime.actor.journal_log.PAGE",
        "runtime.actor.journal_log.SNAPSHOT_EVERY",
        "runtime.shared.collector.MANY",
        "values.step_budget.RESPONSE_STEPS",
        "tools.json_schema.validation.MAX_SCHEMAS",
    }
)
"""Limits that it takes long to come to."""


@pytest.mark.parametrize(
    "scene",
    [pytest.param(scene, marks=[pytest.mark.long] if scene.limit in SLOW else []) for scene in SCENES],
    ids=lambda scene: scene.name,
)
async def test_what_is_within_a_limit_passes_and_what_is_above_does_not(scene: Scene) -> None:
    passed = [side for side in SIDES if await _passes(scene, side)]
    assert passed == [side for side in SIDES if side <= scene.last]


async def _passes(scene: Scene, side: int) -> bool:
    passes = scene.passes(scene.at + side)
    return await passes if isawaitable(passes) else passes
