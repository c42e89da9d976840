"""What the official SDKs say of our requests and of the streams we recorded."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import cast, get_args

import pytest
from anthropic.types import RawMessageStreamEvent
from anthropic.types.anthropic_beta_param import AnthropicBetaParam
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming as BetaMessageCreateParamsStreaming
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses import ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import ConfigDict, TypeAdapter
from typing_extensions import is_typeddict

from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.settings import read_settings
from agentrail.adapters.models.sse import EventReader
from agentrail.models import PROVIDERS
from tests.adapters.models.goldens import SEARCHING, rendered
from tests.adapters.models.histories import SETTINGS, histories
from tests.adapters.models.server import recorded
from tests.kit import EMPTY

REQUESTS: dict[str, type[object]] = {
    "anthropic": MessageCreateParamsStreaming,
    "openai": ResponseCreateParamsStreaming,
    "openai-chat": CompletionCreateParamsStreaming,
}
EVENTS: dict[str, TypeAdapter[object]] = {
    "anthropic": TypeAdapter(RawMessageStreamEvent),
    "openai": TypeAdapter(ResponseStreamEvent),
    "openai-chat": TypeAdapter(ChatCompletionChunk),
}
NAMES = (*histories("", ""), *(f"options_{name}" for name in SETTINGS))
STREAMS = (
    "anthropic_tools",
    "anthropic_refusal",
    "anthropic_cut",
    "openai_tools",
    "openai_refusal",
    "openai_cut",
    "openai-chat_tools",
)
OLD = {"anthropic": {"temperature"}}
"""Fields that older models take and the SDK of today has dropped."""
NOT_THEIRS = {"lamp_broken", "ping"}
"""Events that the types leave out: one that nobody knows yet, and a sign of life."""
STRICT = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
OPEN = ConfigDict(extra="allow", arbitrary_types_allowed=True)
"""Of types that say themselves that they take any field."""


@pytest.fixture(scope="module")
def adapters() -> dict[str, TypeAdapter[object]]:
    """Readers of requests that refuse what the SDKs do not know."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("openai.types", "anthropic.types")):
            for found in vars(module).values():
                if is_typeddict(found):
                    found.__pydantic_config__ = OPEN if vars(found).get("__extra_items__") is object else STRICT
    kinds = {**REQUESTS, "anthropic-beta": BetaMessageCreateParamsStreaming}
    return {provider: TypeAdapter(kind) for provider, kind in kinds.items()}


def read(adapter: TypeAdapter[object], body: object) -> object:
    """Read *body* to its end: what is iterable is read only when somebody looks."""
    return _whole(adapter.validate_python(body))


def _whole(found: object) -> object:
    if isinstance(found, Mapping):
        return {key: _whole(item) for key, item in cast("Mapping[str, object]", found).items()}
    if found is None or isinstance(found, str | int | float):
        return found
    return [_whole(item) for item in cast("Iterable[object]", found)]


# What we send


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("provider", REQUESTS)
def test_what_we_send_is_what_the_sdk_would_send(
    adapters: dict[str, TypeAdapter[object]], provider: str, name: str
) -> None:
    whole = json.loads(json.dumps(rendered(provider)[name].body))
    body = {key: item for key, item in whole.items() if key not in OLD.get(provider, ())}
    assert read(adapters[provider], body) == body


@pytest.mark.parametrize("provider", SEARCHING)
def test_tools_on_demand_in_the_form_of_the_provider_are_what_the_sdk_would_send(
    adapters: dict[str, TypeAdapter[object]], provider: str
) -> None:
    body = json.loads(json.dumps(rendered(provider)["options_tool_search"].body))
    assert read(adapters[provider], body) == body
    assert ("defer_loading" in str(body), "tool_search" in str(body)) == (True, provider == "openai")


@pytest.mark.parametrize("name", histories("", ""))
def test_what_we_ask_of_models_that_bind_thoughts_is_what_the_sdk_would_ask(
    adapters: dict[str, TypeAdapter[object]], name: str
) -> None:
    history = histories("anthropic:claude-haiku-5-5", "elsewhere:some-model")[name]
    found = format_of(PROVIDERS["anthropic"]).render(history, "anthropic", "claude-haiku-5-5", read_settings(EMPTY))
    body = json.loads(json.dumps(found.body))
    assert read(adapters["anthropic-beta"], body) == body
    assert found.headers["anthropic-beta"] in get_args(get_args(AnthropicBetaParam)[1])


@pytest.mark.parametrize("provider", REQUESTS)
def test_the_sdk_would_notice_a_field_that_is_not_there(
    adapters: dict[str, TypeAdapter[object]], provider: str
) -> None:
    for place in ((), ("tools", 0), ("input" if provider == "openai" else "messages", 0)):
        body = json.loads(json.dumps(rendered(provider)["tools"].body))
        inside = body
        for key in place:
            inside = inside[key]
        inside["no_such_field"] = 1
        with pytest.raises(ValueError, match="no_such_field"):
            read(adapters[provider], body)


# What we recorded


@pytest.mark.parametrize("name", STREAMS)
def test_what_we_recorded_is_what_the_sdk_would_read(name: str) -> None:
    adapter = EVENTS[name.partition("_")[0]]
    for event in EventReader().feed(recorded(f"{name}.sse")):
        if event.name not in NOT_THEIRS and event.data != "[DONE]":
            adapter.validate_json(event.data)
