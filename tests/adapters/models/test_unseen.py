"""Models that take no images or no PDFs say so before a request; all others are asked."""

from __future__ import annotations

import json
from typing import Final

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.providers.unsupported_media import UNSEEN, Unseen, unseen_by
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.adapters.models.settings import read_settings
from agentrail.core.cloud_names import MAKERS
from agentrail.core.context_window import window_of
from agentrail.errors import PartRefused
from agentrail.models import (
    PROVIDERS,
    AssistantMessage,
    File,
    Image,
    ModelRequest,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from tests.each_case import each_case
from tests.kit import EMPTY, thaw

PICTURE: Final = Image("image/png", "iVBORw0KGgo=")
BILL: Final = File("application/pdf", "JVBERi0xLjcK", name="bill.pdf")
SHOWN: Final = {"image/": (PICTURE, File("image/jpeg", "/9j/", name="lamp.jpg")), "application/pdf": (BILL,)}
"""By prefix of media types: parts that have it."""

ROWS: Final = [
    (name, row)
    for row in UNSEEN
    for other in (row.provider, *(alias for alias, makers in MAKERS.items() if makers == (row.provider,)))
    for name in [f"{other}:{model}" for model in row.names.split()]
]
"""The full name of each model of the table, and its row."""

NAMES: Final = [name for name, _ in ROWS]


def model_of(name: str) -> RemoteModel:
    return RemoteModel(name, PROVIDERS[name.partition(":")[0]], Http(), lambda _: None, Accounts())


@each_case(ROWS)
def test_a_model_of_the_table_says_why_and_which_other_takes_it(name: str, row: Unseen) -> None:
    provider = name.partition(":")[0]
    model = model_of(name)
    for prefix in row.untaken:
        for part in SHOWN[prefix]:
            why = model.why_untaken(part)
            assert why is not None
            if isinstance(part, Image) or prefix == "application/pdf":
                assert f"`{name.partition(':')[2]}` takes no " in why
                assert (f"`{provider}:{row.instead}` does" in why) == bool(row.instead)
    assert model.why_untaken(File("text/plain", "NQ==")) is None


@each_case(UNSEEN)
def test_the_model_to_take_instead_takes_it(row: Unseen) -> None:
    assert row.instead or row.provider == "deepseek"
    if row.instead:
        assert window_of(f"{row.provider}:{row.instead}") is not None
        other = model_of(f"{row.provider}:{row.instead}")
        assert [part for prefix in row.untaken for part in SHOWN[prefix][:1] if other.why_untaken(part)] == []


@each_case(UNSEEN)
def test_the_table_has_models_that_are_known(row: Unseen) -> None:
    assert row.provider in PROVIDERS
    assert [name for name in row.names.split() if window_of(f"{row.provider}:{name}") is None] == []
    assert {*row.untaken} <= {*SHOWN}


def test_no_model_has_two_rows() -> None:
    assert len({*NAMES}) == len(NAMES)


@each_case(
    [
        ("openai:gpt-4-0613", True),
        ("openai:o1-mini-2024-09-12", True),
        ("openrouter:deepseek/deepseek-r1:free", True),
        ("openrouter:deepseek/deepseek-r1-0528:free", True),
        ("openai:gpt-4o", False),
        ("openai:gpt-4-turbo", False),
        ("openai:gpt-4.1", False),
        ("openai:gpt-4-vision-preview", False),
        ("openai:o3", False),
        ("anthropic:claude-3-haiku-20240307", False),
        ("mistral:magistral-medium-2509", False),
        ("mistral:mistral-small-2503", False),
        ("deepseek:deepseek-v4-flash-vision-exp", False),
        ("xai:grok-3", False),
        ("gemini:gemma-3-27b-it", False),
        ("openai:a-model-of-tomorrow", False),
        ("ollama:gpt-4", False),
    ]
)
def test_a_name_counts_for_itself_and_its_dated_versions_alone(name: str, has_row: bool) -> None:
    provider, _, model = name.partition(":")
    assert (unseen_by(provider, model) is not None) == has_row
    assert (model_of(name).why_untaken(PICTURE) is not None) == has_row


@pytest.mark.parametrize(
    ("model", "part", "why"),
    [
        ("openai:o3-mini", PICTURE, "(an image) to `openai:o3-mini`: `o3-mini` takes no images, `openai:gpt-5.4` does"),
        ("anthropic:claude-2.1", BILL, "`claude-2.1` takes no PDFs, `anthropic:claude-sonnet-5` does"),
        ("deepseek:deepseek-chat", PICTURE, "`deepseek-chat` takes no images; give its text"),
    ],
    ids=["an image", "a file", "none takes it"],
)
async def test_a_prompt_is_refused_before_anything_is_sent(model: str, part: Image | File, why: str) -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model))
        for send in (session.ask, session.prompt):
            with pytest.raises(PartRefused) as refused:
                await send([Text("what is it?"), part])
            assert why in str(refused.value)
        assert (session.messages(), session.queued()) == ((), ())


SIDES: Final = {
    "anthropic:claude-2.1": "anthropic:claude-sonnet-5",
    "openai:gpt-4": "openai:gpt-5.4",
    "openai-chat:gpt-4": "openai-chat:gpt-5.4",
    "gemini:gemini-2.5-pro-preview-tts": "gemini:gemini-flash-latest",
    "mistral:codestral-latest": "mistral:mistral-large-latest",
}
"""A model that takes no images, and one of the same wire format that does."""


@pytest.mark.parametrize("blind", SIDES)
def test_in_a_history_a_text_stands_in_the_place_of_an_image(blind: str) -> None:
    call = ToolCall("c1", "look", EMPTY, "id_1")
    history = (
        UserMessage((Text("what is it?"), PICTURE)),
        AssistantMessage((), (call,), "elsewhere:some-model"),
        ToolMessage("c1", "look", (PICTURE,)),
    )
    told = f"an image (image/png) cannot be shown to you: `{blind.partition(':')[2]}` takes no images"
    for name in (blind, SIDES[blind]):
        provider, _, model = name.partition(":")
        wire = format_of(PROVIDERS[provider])
        body = json.dumps(thaw(wire.render(ModelRequest(name, history), provider, model, read_settings(EMPTY)).body))
        assert (body.count(told), body.count(PICTURE.data)) == ((2, 0) if name == blind else (0, 2))
