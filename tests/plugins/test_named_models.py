"""Options of plugins that name a model: a session with a name of no model is refused."""

from __future__ import annotations

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import BadOptions
from agentrail.hooks.plugin import AnyPlugin
from agentrail.plugins import ContentPolicy, EpisodicMemory, MemoryFlush, ModelRouter, Recovery, Reflection
from agentrail.testing import ScriptedModel
from tests.runtime.conftest import run_in_virtual_time

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)

NAMING = (
    ContentPolicy(judge_model="jugde:small"),
    EpisodicMemory(by_model=True, model="jugde:small"),
    MemoryFlush(by_model=True, model="jugde:small"),
    ModelRouter(default_model="jugde:small"),
    Recovery("jugde:small"),
    Reflection(reviewer="model", model="jugde:small"),
)
NOT_USING = (
    ContentPolicy(judge_model="jugde:small", judge_service="judge"),
    EpisodicMemory(model="jugde:small"),
    MemoryFlush(model="jugde:small"),
    Reflection(model="jugde:small"),
)


@in_virtual_time
@pytest.mark.parametrize("plugin", NAMING, ids=lambda plugin: type(plugin).__name__)
async def test_a_name_of_no_model_is_refused_when_the_session_starts(plugin: AnyPlugin) -> None:
    async with open_supervisor(models={"judge": lambda _: ScriptedModel([])}) as supervisor:
        with pytest.raises(BadOptions, match="they name the model `jugde:small`"):
            await supervisor.spawn(SessionSpec(model=ScriptedModel([]), plugins=[plugin]))


@in_virtual_time
@pytest.mark.parametrize("plugin", NOT_USING, ids=lambda plugin: type(plugin).__name__)
async def test_a_name_that_is_not_used_is_not_looked_up(plugin: AnyPlugin) -> None:
    async with open_supervisor() as supervisor:
        await supervisor.spawn(SessionSpec(model=ScriptedModel([]), plugins=[plugin]))
