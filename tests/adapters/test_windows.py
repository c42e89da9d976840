"""The table of context windows: what is printed is what the package says, and each model that is named has a row."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest

import agentrail
from agentrail.adapters.models.providers import PROVIDERS
from agentrail.core.printed_windows import PRINTED
from agentrail.core.windows import window_of
from tests.docs.sources import ROOT

FAMILIES = {"anthropic": "claude-", "gemini": "gemini", "openai": "gpt-"}
"""By wire format: how the names of its own models begin, in the tables of its adapter."""

NAMED = re.compile(rf"\b({'|'.join(PROVIDERS)}):([a-z][\w./-]*\d[\w.-]*)")
"""A model of a provider, as guides name it: with a figure in its name."""


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
    return {name for name in found if re.fullmatch(r"[a-z0-9.-]+", name) and name not in FAMILIES.values()}


@pytest.mark.parametrize("provider", FAMILIES)
def test_every_model_that_an_adapter_names_has_a_window(provider: str) -> None:
    names = named_by(provider)
    assert len(names) >= 2
    assert [name for name in sorted(names) if window_of(f"{provider}:{name}") is None] == []


def test_every_model_that_the_guides_name_has_a_window() -> None:
    text = "\n".join(file.read_text() for file in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    names = {match.group() for match in NAMED.finditer(text)}
    assert len(names) >= 3
    assert [name for name in sorted(names) if window_of(name) is None] == []
    assert (window_of("demo"), window_of("scripted")) == (1_000_000, 1_000_000)


def test_every_figure_of_the_package_is_in_the_table() -> None:
    pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
    printing = import_module("tests.adapters.printed_windows")
    for ours, theirs in cast("dict[str, str]", printing.PROVIDERS).items():
        if ours != "openai-chat":
            printed = {window: names.split() for window, names in PRINTED[ours].items()}
            assert printed == printing.needed(printing.figures(theirs)), printing.__doc__
        for name, window in cast("dict[str, int]", printing.figures(theirs)).items():
            assert window_of(f"{ours}:{name}") == window, name


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("anthropic:claude-sonnet-4-20250514", 200_000),
        ("anthropic:claude-sonnet-4-6-20260217", 1_000_000),
        ("openai:gpt-4", 8_192),
        ("openai-chat:gpt-4o-2024-11-20", 128_000),
        ("gemini:gemini-2.5-pro", 1_048_576),
        ("gemini:gemini-flash-latest", 1_000_000),
        ("openai:no-such-model", None),
        ("ollama:llama3.2", None),
        ("acme", None),
        ("", None),
    ],
)
def test_a_model_has_the_window_of_the_longest_name_that_its_own_begins_with(model: str, window: int | None) -> None:
    assert window_of(model) == window
