from collections.abc import Mapping

import pytest

from agentrail.cli.agents.agent_source import ANY_MODEL
from agentrail.cli.talk.meant_models import MOST_MEANT, meant_models, missing_key, models_like

NO_KEYS: Mapping[str, str] = {}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-5", "openai:gpt-5"),
        ("GPT-5", "openai:gpt-5.4"),
        ("gpt-77", "openai:gpt-77"),
        ("opnai:gpt-5", "openai:gpt-5"),
        ("claude", "anthropic:claude-sonnet-5"),
        ("sonnet", "anthropic:claude-sonnet-5"),
        ("demmo", "demo"),
    ],
)
def test_what_was_meant_is_among_the_first(name: str, model: str) -> None:
    assert model in meant_models(name, ANY_MODEL, NO_KEYS.get)[:3]


def test_a_name_is_offered_in_one_spelling() -> None:
    meant = meant_models("gpt-5", ANY_MODEL, NO_KEYS.get)
    assert "openai:gpt-5.6" in meant
    assert "openai:gpt-5-6" not in (*meant, *models_like("openai:"))
    for provider in ("anthropic", "vertex"):
        models = models_like(f"{provider}:claude-")
        assert f"{provider}:claude-haiku-4-5" in models
        assert f"{provider}:claude-haiku-4.5" not in models


def test_beginnings_of_names_and_embedders_are_not_offered() -> None:
    assert "openai:text-embedding-3-small" not in models_like("openai:")
    assert "openai:chatgpt-4o-latest" in models_like("openai:")
    assert "anthropic:claude-3" not in models_like("anthropic:")


def test_a_provider_with_a_key_comes_first() -> None:
    keys = {"OPENROUTER_API_KEY": "k"}
    assert missing_key("openrouter:openrouter/auto", NO_KEYS.get) == "OPENROUTER_API_KEY"
    assert missing_key("openrouter:openrouter/auto", keys.get) == ""
    assert missing_key("demo", NO_KEYS.get) == ""
    assert meant_models("sonnet", ANY_MODEL, keys.get)[0].startswith("openrouter:anthropic/claude-sonnet-")


def test_a_cloud_with_a_key_comes_first_and_without_one_no_key_is_missing() -> None:
    keys = {"AWS_BEARER_TOKEN_BEDROCK": "k"}
    assert meant_models("sonnet", ANY_MODEL, keys.get)[0].startswith("bedrock:anthropic.claude-sonnet-")
    assert meant_models("sonnet", ANY_MODEL, NO_KEYS.get)[0] == "anthropic:claude-sonnet-5"
    assert [missing_key(f"{cloud}:m", NO_KEYS.get) for cloud in ("bedrock", "vertex")] == ["", ""]
    assert missing_key("azure:m", NO_KEYS.get) == "AZURE_OPENAI_API_KEY"


def test_a_name_is_completed_by_its_provider_and_then_by_its_models() -> None:
    assert [model for model in models_like("be") if model.startswith("be")] == ["bedrock:"]
    assert [model for model in models_like("an") if model.startswith("an")] == [
        "anthropic:claude-sonnet-5",
        "anthropic:",
    ]
    models = models_like("bedrock:anthropic.cl")
    assert "bedrock:anthropic.claude-opus-5" in models
    assert {model.partition(":")[0] for model in models} == {"bedrock"}
    assert models_like("mistral:")[0] == "mistral:mistral-large-latest"
    assert models_like("nobody:") == ()


@pytest.mark.parametrize("name", ["big", "", ":", "x" * 100_000])
def test_nothing_is_like_what_is_no_name(name: str) -> None:
    assert meant_models(name, ANY_MODEL, NO_KEYS.get) == []


def test_of_two_ways_to_one_model_the_usual_one_is_named() -> None:
    assert meant_models("gpt-5", sorted(ANY_MODEL), NO_KEYS.get)[:2] == ["openai:gpt-5.4", "openai:gpt-5"]


def test_there_are_few() -> None:
    assert len(meant_models("gpt", ANY_MODEL, NO_KEYS.get)) == MOST_MEANT


def test_only_what_is_offered_is_meant() -> None:
    assert meant_models("fsat", ["fast", "openai:gpt-5.4"], NO_KEYS.get) == ["fast"]
    assert meant_models("gpt-5", ["fast", "openai:gpt-5.4"], NO_KEYS.get) == ["openai:gpt-5.4"]
