"""Names of models at clouds, as those who make the models have them: what is known of a model is known of it there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

MAKERS: Final[Mapping[str, tuple[str, ...]]] = {
    "azure": ("openai",),
    "azure-chat": ("openai",),
    "openai-chat": ("openai",),
    "vertex": ("anthropic", "gemini"),
}
"""Providers that have the models of others alone."""

AT_BEDROCK: Final = re.compile(r"(?:(?:us|us-gov|eu|apac|jp|au|in|ca|sa|me|af|global)\.)?(.+)")
"""A name at Bedrock may begin with the part of the world whose regions share the requests."""

ANTHROPIC: Final = re.compile(r"anthropic\.(claude-.+?)(?:-v[0-9]+(?::[0-9]+)?)?")


def maker_name(model: str) -> str:
    """Return the name of *model* without what a cloud adds to it, and the maker in place of the cloud if it is known.

    `bedrock:us.anthropic.claude-sonnet-5-v1:0` becomes `anthropic:claude-sonnet-5`.
    """
    provider, _, name = model.partition(":")
    match provider:
        case "vertex":
            return f"anthropic:{name.replace('@', '-')}" if name.startswith("claude-") else f"gemini:{name}"
        case "bedrock":
            regional = AT_BEDROCK.fullmatch(name)
            shorter = regional[1] if regional else name
            claude = ANTHROPIC.fullmatch(shorter)
            return f"anthropic:{claude[1]}" if claude else f"bedrock:{shorter}"
        case _:
            return f"{MAKERS[provider][0]}:{name}" if provider in MAKERS else model
