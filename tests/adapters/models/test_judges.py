"""Models that plugins ask for a judgement, at an address and with a key of their own, on a local server."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from agentrail import Plugin, Secret, SessionSpec, open_supervisor
from agentrail.errors import BadOptions
from agentrail.journals import MemoryJournal
from agentrail.models import Json, Model
from agentrail.plugins import (
    AnyPlugin,
    ContentPolicy,
    EpisodicMemory,
    MemoryFlush,
    ModelRouter,
    NamedModel,
    Recovery,
    Reflection,
)
from agentrail.testing import ScriptedModel, transient
from tests.adapters.models import openai_chat_events as chat
from tests.adapters.models.server import Asked, Play, serving, streaming
from tests.kit import freeze_object

KEY = "jk-0123456789abcdef"
JUDGE = "vllm:judge"
FINE = '{"compliant": true, "policies": [], "summary": "fine"}'
PASSED = '{"passed": true, "problems": []}'


def secrets(name: str) -> str | None:
    return {"JUDGE_KEY": KEY}.get(name)


def saying(text: str) -> Play:
    return streaming(chat.saying(text))


def sent(asked: Asked) -> tuple[object, object, object]:
    return asked.json["model"], asked.json.get("temperature"), asked.headers.get("authorization")


def judge_at(url: str, temperature: float) -> tuple[str, dict[str, Json]]:
    return JUDGE, {"base_url": url, "api_key": Secret("JUDGE_KEY"), "temperature": temperature}


async def stored(journal: MemoryJournal) -> str:
    return repr(await journal.read("s", 0, 10_000))


async def test_a_judge_is_asked_with_its_own_options_beside_a_chain() -> None:
    """The session's model falls back, and each of the two addresses gets its own options alone."""
    busy = ScriptedModel([transient("no capacity")], name="busy", repeat_last=True)
    journal = MemoryJournal(encode=True)
    async with (
        serving(saying("hello")) as server,
        serving(saying(FINE), saying(PASSED)) as other,
        open_supervisor(journal=journal, secrets=secrets, seed=1) as supervisor,
    ):
        plugins: list[AnyPlugin] = [
            ContentPolicy(judge_model=judge_at(other.url, 0.25)),
            Reflection(reviewer="model", model=judge_at(other.url, 0.5)),
        ]
        chain: list[Model | tuple[str, Mapping[str, Json]]] = [
            busy,
            ("ollama:m", {"base_url": server.url, "temperature": 0.75}),
        ]
        session = await supervisor.spawn(SessionSpec(model=chain, plugins=plugins, retry_base=0.01), "s")
        assert (await session.ask("hi")).text == "hello"
        assert [sent(one) for one in server.asked] == [("m", 0.75, None)]
        assert [sent(one) for one in other.asked] == [
            ("judge", 0.25, f"Bearer {KEY}"),
            ("judge", 0.5, f"Bearer {KEY}"),
        ]
    found = await stored(journal)
    assert KEY not in found
    assert "JUDGE_KEY" in found


async def test_a_judge_of_the_session_s_model_elsewhere_gets_nothing_of_the_session_s_options() -> None:
    async with (
        serving(saying("hello")) as server,
        serving(saying(FINE)) as other,
        open_supervisor(secrets=secrets, seed=1) as supervisor,
    ):
        name, options = judge_at(server.url, 0.75)
        plugins = [ContentPolicy(judge_model=(name, {"base_url": other.url}))]
        session = await supervisor.spawn(SessionSpec(model=name, model_options=options, plugins=plugins))
        assert (await session.ask("hi")).text == "hello"
        assert [sent(one) for one in server.asked] == [("judge", 0.75, f"Bearer {KEY}")]
        assert [sent(one) for one in other.asked] == [("judge", None, None)]


async def test_options_of_a_judge_are_updated_and_pinned_over_other_code() -> None:
    journal = MemoryJournal(encode=True)
    async with serving(saying(FINE), saying(FINE)) as other:

        def spec(temperature: float) -> SessionSpec:
            plugins = [ContentPolicy(judge_model=judge_at(other.url, temperature))]
            return SessionSpec(model=ScriptedModel(["hello"]), plugins=plugins)

        async with open_supervisor(journal=journal, secrets=secrets) as supervisor:
            session = await supervisor.spawn(spec(0.25), "s")
            with pytest.raises(BadOptions, match="there is no option `bse_url`"):
                await session.update_plugin(ContentPolicy, judge_model=(JUDGE, {"bse_url": other.url}))
            with pytest.raises(BadOptions, match=r"has `api_key`, which looks like a secret.*give `Secret"):
                await session.update_plugin(ContentPolicy, judge_model=(JUDGE, {"api_key": KEY}))
            await session.update_plugin(ContentPolicy, pin=True, judge_model=judge_at(other.url, 0.5))
            assert (await session.ask("one")).text == "hello"
        async with open_supervisor(journal=journal, secrets=secrets) as supervisor:
            session = await supervisor.resume("s", spec(0.75))
            assert (await session.ask("two")).text == "hello"
        assert [sent(one) for one in other.asked] == [("judge", 0.5, f"Bearer {KEY}")] * 2
    assert KEY not in await stored(journal)


WRONG: dict[str, Json] = {"bse_url": "http://127.0.0.1"}


@pytest.mark.parametrize(
    "plugin",
    [
        ContentPolicy(judge_model=(JUDGE, WRONG)),
        EpisodicMemory(by_model=True, model=(JUDGE, WRONG)),
        MemoryFlush(by_model=True, model=(JUDGE, WRONG)),
        Reflection(reviewer="model", model=(JUDGE, WRONG)),
        ModelRouter(default_model=JUDGE, default_options=WRONG),
        ModelRouter([{"model": JUDGE, "options": WRONG, "turn_gt": 1}]),
        Recovery([(JUDGE, WRONG)]),
    ],
    ids=lambda plugin: type(plugin).__name__,
)
async def test_options_that_a_named_model_does_not_take_are_refused_at_spawn(plugin: AnyPlugin) -> None:
    async with open_supervisor(secrets=secrets) as supervisor:
        with pytest.raises(BadOptions, match=r"they name the model `vllm:judge`: .*there is no option `bse_url`"):
            await supervisor.spawn(SessionSpec(model=ScriptedModel([]), plugins=[plugin]))


class Naming(Plugin):
    """A plugin of a user that names a model, without a check of its options."""

    @property
    def models_named(self) -> tuple[NamedModel, ...]:
        return ((JUDGE, freeze_object({"api_key": KEY})),)


async def test_a_plain_secret_of_a_model_that_a_plugin_names_is_refused_at_spawn() -> None:
    async with open_supervisor(secrets=secrets) as supervisor:
        with pytest.raises(BadOptions, match="`api_key` looks like a secret"):
            await supervisor.spawn(SessionSpec(model=ScriptedModel([]), plugins=[Naming()]))
