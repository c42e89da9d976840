"""What a session sends as its system message: nothing, where there is nothing to say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import pytest
from attrs import frozen

from agentrail import AddContext, Context, Plugin, Secret, SessionSpec, SetSection, open_supervisor
from agentrail.adapters.models.model_turns import RULE
from agentrail.errors import TurnAborted
from agentrail.models import Json
from agentrail.plugins import BeforeRequest, SessionStart
from tests.adapters.models.server import refusing, serving

KEYS: Final[Mapping[str, str]] = {
    "ANTHROPIC_API_KEY": "sk-ant-0123456789",
    "OPENAI_API_KEY": "sk-0123456789",
    "GEMINI_API_KEY": "AIza-0123456789",
}
MODELS: Final[Mapping[str, tuple[str, str]]] = {
    "anthropic": ("anthropic:claude-sonnet-5", "ANTHROPIC_API_KEY"),
    "openai": ("openai:gpt-5.4", "OPENAI_API_KEY"),
    "openai-chat": ("openai-chat:gpt-5.4", "OPENAI_API_KEY"),
    "gemini": ("gemini:gemini-3-flash-preview", "GEMINI_API_KEY"),
}
"""A model of each wire format, and the variable of its key."""


@frozen
class Tells(Plugin[None]):
    """Says something in each place that a plugin has."""

    def session_start(self, hook: SessionStart, state: None, ctx: Context) -> SetSection[None]:
        return SetSection("AGENTS.md", "Use tabs.", layer="memory")

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> AddContext[None]:
        return AddContext("It is late.")


async def sent(provider: str, **spec: object) -> dict[str, object]:
    """Return the body of the first request of a session."""
    model, variable = MODELS[provider]
    async with serving(refusing(400, b"{}")) as server, open_supervisor(secrets=KEYS.get) as supervisor:
        options: Mapping[str, Json] = {"base_url": server.url, "api_key": Secret(variable)}
        session = await supervisor.spawn(SessionSpec(model=model, model_options=options).but(**spec))
        with pytest.raises(TurnAborted):
            await session.ask("Hello.")
        return server.asked[0].json


def system_in(body: Mapping[str, object]) -> object:
    """Return what a request has as its system message, in the form of its provider; `None` if it has none."""
    (found,) = [body[name] for name in ("system", "instructions", "systemInstruction") if name in body] or [None]
    messages = body.get("messages")
    if found is None and isinstance(messages, list):
        found = next((each["content"] for each in messages if each["role"] in {"system", "developer"}), None)
    return found


def text_of(system: object) -> str:
    """Return the texts of a system message, in order."""
    match system:
        case str():
            return system
        case {"parts": blocks} | [*blocks]:
            return "\n\n".join([block["text"] for block in blocks])  # type: ignore[index] # as it was sent
    return ""


BARE: Final[tuple[Mapping[str, object], ...]] = (
    {},
    {"system": " \n\t"},
    {"prompt_mode": "none"},
    {"prompt_mode": "none", "plugins": [Tells()]},
    {"prompt_mode": "none", "system": " "},
)


@pytest.mark.parametrize("spec", BARE, ids=["bare", "blank", "none", "none with plugins", "none and blank"])
@pytest.mark.parametrize("provider", MODELS)
async def test_a_session_with_nothing_to_say_sends_no_system_message(provider: str, spec: Mapping[str, object]) -> None:
    body = await sent(provider, **spec)
    assert system_in(body) is None
    assert "Hello." in str(body)


@pytest.mark.parametrize("provider", MODELS)
async def test_without_layers_of_its_own_a_session_sends_what_its_program_gave_and_no_more(provider: str) -> None:
    body = await sent(provider, prompt_mode="none", system="You sew.", plugins=[Tells()])
    assert text_of(system_in(body)) == "You sew."


@pytest.mark.parametrize("mode", ["full", "minimal"])
@pytest.mark.parametrize("provider", MODELS)
async def test_what_the_tags_mean_is_said_where_a_plugin_may_write_them(
    provider: str, mode: Literal["full", "minimal"]
) -> None:
    body = await sent(provider, prompt_mode=mode, plugins=[Tells()])
    assert text_of(system_in(body)).startswith(RULE)
    body = await sent(provider, prompt_mode=mode, system="You sew.")
    assert text_of(system_in(body)) == f"You sew.\n\n{RULE}"
