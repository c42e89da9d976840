"""Options of plugins that name a model: a session with a name of no model is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import attrs
import pytest

from agentrail import Secret, SessionSpec, open_supervisor
from agentrail.errors import BadOptions
from agentrail.journals import MemoryJournal
from agentrail.models import Json
from agentrail.plugins import AnyPlugin, ContentPolicy, EpisodicMemory, MemoryFlush, ModelRouter, Recovery, Reflection
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


OTHER = "vllm:other"
WITH_OPTIONS: dict[str, Callable[[Mapping[str, Json]], AnyPlugin]] = {
    "ContentPolicy": lambda options: ContentPolicy(judge_model=(OTHER, options)),
    "EpisodicMemory": lambda options: EpisodicMemory(by_model=True, model=(OTHER, options)),
    "MemoryFlush": lambda options: MemoryFlush(by_model=True, model=(OTHER, options)),
    "ModelRouter": lambda options: ModelRouter((), OTHER, options),
    "ModelRouter's rule": lambda options: ModelRouter([{"model": OTHER, "options": options, "turn_gt": 1}]),
    "Recovery": lambda options: Recovery([(OTHER, options)]),
    "Reflection": lambda options: Reflection(reviewer="model", model=(OTHER, options)),
}


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_a_plain_secret_in_options_of_a_model_is_refused_at_once(name: str) -> None:
    for options in ({"api_key": "sk-plain"}, {"headers": {"authorization": "Bearer sk-plain"}}):
        with pytest.raises(
            BadOptions, match=r"has `[a-z_.]+`, which looks like a secret.*give `Secret\(name\)`"
        ) as refused:
            WITH_OPTIONS[name](options)
        assert "sk-plain" not in str(refused.value)


def test_what_a_rule_asks_of_the_data_of_a_user_is_no_secret() -> None:
    ModelRouter([{"model": OTHER, "user_data": {"token": "gold"}}])


@in_virtual_time
@pytest.mark.parametrize("name", WITH_OPTIONS)
async def test_the_name_of_a_secret_can_be_pinned(name: str) -> None:
    plugin = WITH_OPTIONS[name]({"base_url": "http://127.0.0.1:1", "api_key": Secret("OTHER_KEY")})
    options = {
        field.name: getattr(plugin, field.name)
        for field in attrs.fields(cast("type[attrs.AttrsInstance]", type(plugin)))
    }
    async with open_supervisor(journal=MemoryJournal(encode=True), secrets=lambda _: "key") as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([]), plugins=[plugin]))
        await session.update_plugin(type(plugin), pin=True, **options)
