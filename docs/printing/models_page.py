"""Two tables of the guide to models: what answers to a name, and the files that the models of each provider take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from agentrail.adapters.models.providers import PROVIDERS, format_of
from docs.printing.markdown import table

ANSWERS: Final = {
    "anthropic": "Anthropic's Messages API",
    "gemini": "Google's Gemini API",
    "openai": "OpenAI's Responses API",
    "openai_chat": "chat completions",
    "azure.azure_responses": "OpenAI's Responses API at Azure",
    "azure.azure_chat": "chat completions at Azure",
    "bedrock": "Bedrock's Converse API",
    "vertex.vertex_gemini": "Gemini and Claude at Vertex AI",
}
"""What answers, by the wire format of a provider."""

KINDS: Final = {"application/pdf": "PDF", "application/msword": "Word", "application/vnd.ms-excel": "Excel"}
"""What files are called, by their media types."""

HEADS: Final = ("provider", "by the bytes", "by a URL", "by the id of an upload")

TEXT_ALONE: Final = ("text", "no", "no")
"""The cells of providers that take texts alone."""


def names_table() -> Sequence[str]:
    """Return the lines of the table of names, with what answers and where the key is looked up."""
    rows = [("`demo`", "the built-in demo, which needs no key", "")]
    for name, provider in PROVIDERS.items():
        keys = ", or ".join(f"`{key}`" for key in provider.keys)
        keys = keys or ("the credentials of Google Cloud" if provider.cloud else "")
        where = f" at `{provider.base_url}`" if provider.format == "openai_chat" else ""
        rows.append((f"`{name}:…`", ANSWERS[provider.format] + where, keys))
    rows.append(("a name such as `acme:large`", 'whatever you gave to `open_supervisor(models={"acme": …})`', ""))
    return table(("name", "what answers", "where its key is looked up"), rows)


def files_table() -> Sequence[str]:
    """Return the lines of the table; providers that take the same files are in one row."""
    names: dict[tuple[str, str, str], list[str]] = {}
    for name, provider in PROVIDERS.items():
        for prefix in ("", *dict(provider.formats)):
            takes = format_of(provider, prefix).takes(name, prefix)
            uploads = "no" if not takes.ids else "yes, its URI" if name == "gemini" else "yes"
            cells = (_kinds(takes.data, "text"), _kinds(takes.urls), uploads)
            names.setdefault(cells, []).append(f"`{name}:{prefix}…`" if prefix else f"`{name}`")
    rows = [(", ".join(alike), *cells) for cells, alike in names.items() if cells != TEXT_ALONE]
    return table(HEADS, [*rows, ("the others", *TEXT_ALONE)])


def _kinds(media_types: Iterable[str], *others: str) -> str:
    """Return what is taken, of files whose media types begin like *media_types*, and *others*."""
    if "" in media_types:
        return "all types"
    return ", ".join((*(KINDS[kind] for kind in media_types if kind in KINDS), *others)) or "no"
