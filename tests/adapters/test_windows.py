"""The table of context windows: what is printed is what the package says, and each model that is named has a row."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Final, cast

import pytest

import agentrail
from agentrail.app.model_registry import BUILT_IN
from agentrail.core.cloud_names import MAKERS, maker_name
from agentrail.core.context_window import BY_HAND, LOOKED_UP, NO_MODEL, ByHand, model_names, window_of
from agentrail.core.printed_windows import PRINTED
from agentrail.models import PROVIDERS
from agentrail.testing import ScriptedModel
from tests.docs.sources import ROOT
from tests.each_case import each_case

FAMILIES = {
    "anthropic": ("claude-",),
    "gemini": ("gemini", "gemma", "learnlm"),
    "openai": ("gpt-", "chatgpt-", "o1", "o3", "o4", "codex"),
}
"""By wire format: how the names of its own models begin, in the tables of its adapter."""

NAMED = re.compile(rf"\b({'|'.join(PROVIDERS)}):([a-z][\w./-]*[\w])")
"""A model of a provider, as guides name it."""

LOCAL = {"llamacpp", "lmstudio", "ollama", "vllm"}
"""Providers on the user's machine, which reads as many tokens as its user has set."""

STAND_INS = {
    *("anthropic:some-model", "azure:my-deployment"),
    *("bedrock:anthropic.claude", "vertex:claude", "vertex:gemini"),
}
"""Names in guides that stand for that of any model."""

CHATS = ("gpt-5-chat", "gpt-5.1-chat", "gpt-5.2-chat")
"""Models for which the package has the window of those whose names theirs begin with; LiteLLM has their own."""

HOSTS = {
    "anthropic": ["platform.claude.com"],
    "gemini": ["ai.google.dev"],
    "groq": ["console.groq.com"],
    "mistral": ["mistral.ai"],
    "openai": ["platform.openai.com"],
    "openrouter": ["openrouter.ai"],
}
"""Whose pages are the source of a row, by provider."""


def named_by(provider: str) -> set[str]:
    """Return the beginnings of models' names that the constants of the provider's adapter have."""
    folder = Path(agentrail.__file__).parent / "adapters" / "models" / provider
    found: set[str] = set()
    for file in folder.glob("*.py"):
        for value in vars(import_module(f"agentrail.adapters.models.{provider}.{file.stem}")).values():
            texts = cast(
                "tuple[object, ...]", tuple(value) if isinstance(value, (tuple, frozenset, dict)) else (value,)
            )
            found |= {text for text in texts if isinstance(text, str) and text.startswith(FAMILIES[provider])}
    return {name for name in found if re.fullmatch(r"[a-z0-9.-]+", name) and name != "claude-"}


@pytest.mark.parametrize("provider", FAMILIES)
def test_every_model_that_an_adapter_names_has_a_window(provider: str) -> None:
    names = named_by(provider)
    assert len(names) >= 2
    assert [name for name in sorted(names) if window_of(f"{provider}:{name}") is None] == []


def test_every_model_that_the_guides_name_has_a_window() -> None:
    text = "\n".join(file.read_text() for file in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    names = {match.group() for match in NAMED.finditer(text) if match[1] not in LOCAL} - STAND_INS
    assert {"mistral:mistral-large-latest", "openrouter:openrouter/auto"} < names
    assert [name for name in sorted(names) if window_of(name) is None] == []


def test_models_that_need_no_provider_have_a_window() -> None:
    own = [*BUILT_IN, ScriptedModel().name]
    assert own == ["demo", "scripted"]
    assert {window_of(name) for name in own} == {1_000_000}


AT_CLOUDS: Final = {
    "azure:gpt-5.4": "openai:gpt-5.4",
    "azure-chat:gpt-4.1": "openai:gpt-4.1",
    "vertex:gemini-3-flash-preview": "gemini:gemini-3-flash-preview",
    "vertex:claude-sonnet-5@20260101": "anthropic:claude-sonnet-5-20260101",
    "bedrock:anthropic.claude-sonnet-5-v1:0": "anthropic:claude-sonnet-5",
    "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0": "anthropic:claude-sonnet-4-5-20250929",
    "bedrock:global.anthropic.claude-opus-5": "anthropic:claude-opus-5",
    "bedrock:eu.amazon.nova-pro-v1:0": "bedrock:amazon.nova-pro-v1:0",
    "bedrock:us-gov.amazon.nova-pro-v1:0": "bedrock:amazon.nova-pro-v1:0",
    "bedrock:in.anthropic.claude-opus-5": "anthropic:claude-opus-5",
    "bedrock:jp.amazon.nova-2-lite-v1:0": "bedrock:amazon.nova-2-lite-v1:0",
}
"""Names of models at clouds, and what those who make the models call them."""


@pytest.mark.parametrize("name", AT_CLOUDS)
def test_a_model_at_a_cloud_has_the_window_that_it_has_elsewhere(name: str) -> None:
    assert maker_name(name) == AT_CLOUDS[name]
    assert window_of(name) == window_of(AT_CLOUDS[name])
    assert window_of(name) is not None


def test_the_names_of_a_cloud_are_those_that_it_takes() -> None:
    makers = {name.partition(".")[0] for name in model_names("bedrock")}
    assert {"amazon", "anthropic", "meta"} < makers
    assert not makers & {"claude", "gpt-5", "in", "regional", "us"}
    assert [name for name in model_names("gemini") if not name.startswith(FAMILIES["gemini"])] == []
    assert [name for name in model_names("azure") if ":" in name] == []
    assert "gpt-4o" in model_names("openai-chat")
    vertex = ("claude-", *FAMILIES["gemini"])
    assert [name for name in model_names("vertex") if not name.startswith(vertex)] == []


@pytest.mark.parametrize(
    ("provider", "names", "others"),
    [
        ("anthropic", "claude-fable-5 claude-haiku-4-5", "claude-fable- claude-3 claude-5-opus claude-haiku-4.5"),
        ("openai", "gpt-5.4 chatgpt-4o-latest", "chatgpt- gpt-3 ft:gpt-4o gpt-5-4 text-embedding-3-large gpt-realtime"),
        ("gemini", "gemini-2.5-pro gemini-pro-latest", "gemini-2 gemma-3 gemini-embedding-2 gemini-2.5-pro-tts"),
        ("mistral", "codestral-latest", "codestral pixtral mistral-embed mistral-ocr-4"),
    ],
)
def test_only_models_to_converse_with_are_named_and_all_have_windows(provider: str, names: str, others: str) -> None:
    known = model_names(provider)
    assert set(names.split()) <= set(known)
    assert not {*others.split()} & {*known}
    assert [name for name in [*known, *others.split()] if window_of(f"{provider}:{name}") is None] == []


@each_case(BY_HAND)
def test_each_row_by_hand_has_a_source_or_is_of_an_offline_model(row: ByHand) -> None:
    assert row.source.startswith("https://") == (row.provider in PROVIDERS)
    assert not row.source or any(host in row.source for host in HOSTS[row.provider])


def test_the_rows_by_hand_were_looked_up_on_a_day_that_is_named() -> None:
    assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", LOOKED_UP)


def test_each_row_by_hand_is_needed() -> None:
    """A row that a printed one, or a shorter name, makes superfluous is one that nobody looks after."""
    for row in BY_HAND:
        printed = [name for names in PRINTED.get(row.provider, {}).values() for name in names.split()]
        by_hand = {
            name.removesuffix(NO_MODEL): (each.window, not name.endswith(NO_MODEL))
            for each in BY_HAND
            if each.provider == row.provider
            for name in each.names.split()
        }
        for entry in row.names.split():
            name = entry.removesuffix(NO_MODEL)
            assert not {name, f"{name}{NO_MODEL}"} & {*printed}
            shorter = [name[:length] for length in range(len(name) - 1, 0, -1) if name[:length] in by_hand]
            says_the_same = {(row.window, True), (row.window, name == entry)}
            assert not shorter or by_hand[shorter[0]] not in says_the_same, name


def test_every_figure_of_the_package_is_in_the_table() -> None:
    pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
    printing = import_module("tests.adapters.printed_windows")
    for ours in cast("dict[str, str]", printing.PROVIDERS).keys() - MAKERS.keys():
        figures: dict[str, tuple[int, bool]] = printing.figures(ours)
        printed = {window: names.split() for window, names in PRINTED[ours].items()}
        assert printed == printing.needed(figures), printing.__doc__
        for name, (window, _) in figures.items():
            found = window_of(f"{ours}:{name}")
            assert (window, found) == (400_000, 128_000) if name.startswith(CHATS) else found == window, name


@each_case(
    [
        ("anthropic:claude-sonnet-4-20250514", 200_000),
        ("anthropic:claude-sonnet-4-6-20260217", 1_000_000),
        ("openai:gpt-4", 8_192),
        ("openai-chat:gpt-4o-2024-11-20", 128_000),
        ("gemini:gemini-2.5-pro", 1_048_576),
        ("gemini:gemini-2.5-computer-use-preview-10-2025", 128_000),
        ("gemini:gemma-3-27b-it", 131_072),
        ("gemini:gemma-3-1b-it", 32_768),
        ("openai:gpt-5-chat-latest", 128_000),
        ("openai:gpt-5.2-chat-latest", 128_000),
        ("openai:gpt-5.2", 400_000),
        ("mistral:mistral-large-latest", 262_144),
        ("mistral:mistral-large-2411", 128_000),
        ("mistral:magistral-medium-latest", 40_000),
        ("groq:llama3-8b-8192", 8_192),
        ("gemini:gemini-flash-latest", 1_000_000),
        ("openai:no-such-model", None),
        ("ollama:llama3.2", None),
        ("acme", None),
        ("", None),
    ]
)
def test_a_model_has_the_window_of_the_longest_name_that_its_own_begins_with(model: str, window: int | None) -> None:
    assert window_of(model) == window
