"""Models that are known to take no images or no PDFs, as data; all others get them, and their provider decides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple

from agentrail.adapters.models.wire_format import PDF, Takes
from agentrail.core.cloud_names import maker_name

IMAGES: Final = "image/"

BOTH: Final = (IMAGES, PDF)


class Unseen(NamedTuple):
    """A row: the media that some models of a provider do not take."""

    provider: str
    """The provider."""
    untaken: tuple[str, ...]
    """Prefixes of the media types that the models do not take."""
    instead: str
    """A model of the provider that takes all of `untaken`; empty if none is known."""
    names: str
    """The names of the models, with a space between. A name counts for its dated versions too (`…-0613`)."""


UNSEEN: Final = (
    Unseen(
        "anthropic",
        BOTH,
        "claude-sonnet-5",
        "claude-2 claude-2.0 claude-2.1 claude-instant claude-instant-1.2",
    ),
    # PDFs need eyes: https://developers.openai.com/api/docs/guides/pdf-files
    Unseen(
        "openai",
        BOTH,
        "gpt-5.4",
        "gpt-3.5-turbo gpt-3.5-turbo-16k gpt-3.5-turbo-instruct "
        "gpt-4 gpt-4-32k gpt-4-0125-preview gpt-4-1106-preview gpt-4-turbo-preview o1-mini o1-preview "
        "gpt-audio gpt-audio-mini gpt-4o-audio-preview gpt-4o-mini-audio-preview",
    ),
    # OpenRouter says that it takes PDFs: https://openrouter.ai/openai/o3-mini
    Unseen("openai", (IMAGES,), "gpt-5.4", "o3-mini"),
    Unseen("gemini", BOTH, "gemini-flash-latest", "gemini-2.5-flash-preview-tts gemini-2.5-pro-preview-tts"),
    # From 2509 on, those of Magistral take images; from 2512 on, those of Ministral
    Unseen(
        "mistral",
        (IMAGES,),
        "mistral-large-latest",
        "open-mistral-7b open-mixtral-8x7b open-mixtral-8x22b open-mistral-nemo mistral-tiny "
        "mistral-large-2402 mistral-large-2407 mistral-large-2411 mistral-medium-2312 "
        "mistral-small-2402 mistral-small-2409 mistral-small-2501 "
        "codestral codestral-latest devstral-2512 devstral-medium-2507 devstral-small-2505 devstral-small-2507 "
        "magistral-medium-2506 magistral-medium-2507 magistral-small-2506 magistral-small-2507 "
        "ministral-3b-2410 ministral-8b-2410",
    ),
    Unseen(
        "deepseek",
        (IMAGES,),
        "",
        "deepseek-chat deepseek-reasoner deepseek-r1 deepseek-v4-flash deepseek-v4-pro",
    ),
    Unseen(
        "groq",
        (IMAGES,),
        "meta-llama/llama-4-maverick-17b-128e-instruct",
        "llama-3.1-8b-instant llama-3.3-70b-versatile llama3-8b-8192 llama3-70b-8192 "
        "openai/gpt-oss-20b openai/gpt-oss-120b openai/gpt-oss-safeguard-20b qwen/qwen3-32b "
        "deepseek-r1-distill-llama-70b moonshotai/kimi-k2-instruct",
    ),
    # OpenRouter reads PDFs for all models: https://openrouter.ai/docs/features/multimodal/pdfs
    Unseen(
        "openrouter",
        (IMAGES,),
        "openai/gpt-5.4",
        "openai/gpt-3.5-turbo openai/gpt-3.5-turbo-16k openai/gpt-4 openai/o3-mini "
        "openai/o3-mini-high openai/gpt-oss-20b openai/gpt-audio openai/gpt-audio-mini "
        "deepseek/deepseek-r1 deepseek/deepseek-v3.1-terminus "
        "mistralai/codestral-2508 mistralai/devstral-2512 mistralai/mixtral-8x22b-instruct mistralai/mistral-saba "
        "meta-llama/llama-3.1-70b-instruct "
        "moonshotai/kimi-k2 moonshotai/kimi-k2-thinking qwen/qwen3-235b-a22b microsoft/phi-4 google/gemma-2-27b-it",
    ),
)
"""What models are known not to take.

It was looked up on 2026-11-22, on models.dev and in the table of LiteLLM. A model has a row only if none of the sources
says that it takes the part, and an alias only if none of its versions has: to refuse what a provider would take is
worse than to ask it.
"""

DATED: Final = re.compile(r"(-\d+)*(:\w+)?")
"""What may follow the name of a model: a date, and a way in which OpenRouter serves it."""


@cache
def _rows(provider: str) -> Mapping[str, Unseen]:
    """Return the rows of *provider* by the name of each of their models, the longest first."""
    rows = {name: row for row in UNSEEN if row.provider == provider for name in row.names.split()}
    return dict(sorted(rows.items(), key=lambda item: -len(item[0])))


@lru_cache(maxsize=1000)
def unseen_by(provider: str, model: str) -> Unseen | None:
    """Return the row with the media that *model* of *provider* does not take; `None` if nothing is known."""
    maker, _, model = maker_name(f"{provider}:{model}").partition(":")
    rows = _rows(maker).items()
    return next((row for name, row in rows if model.startswith(name) and DATED.fullmatch(model, len(name))), None)


def seen_by(takes: Takes, provider: str, model: str) -> Takes:
    """Return *takes*, the media that the API of *provider* takes, without those that *model* does not take."""
    if provider == "vertex":  # uploads are kept by the makers' own services; Claude fetches no URL there
        takes = takes.but(ids=False, urls=() if model.startswith("claude-") else takes.urls)
    row = unseen_by(provider, model)
    return takes if row is None else takes.but(model=model, untaken=row.untaken, instead=row.instead)
