"""Prints the module `agentrail.core.printed_windows` from the package `genai-prices`.

Run as `python -m tests.adapters.printed_windows > agentrail/core/printed_windows.py`.
"""

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Final, NamedTuple

import genai_prices.types as theirs
from genai_prices import data_snapshot

from agentrail.adapters.published_prices import PROVIDERS
from agentrail.core.cloud_names import AT_BEDROCK, MAKERS
from agentrail.core.context_window import NO_MODEL

HEAD: Final = '''"""Context windows of models, in tokens. Printed by `tests.adapters.printed_windows`; not edited.

Source: the package `genai-prices` {version}. A name counts for all models whose names begin with it.
Of several, the longest counts. One that no model to converse with is called ends with a star.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PRINTED: Final[Mapping[str, Mapping[int, str]]] = {{
'''

AT_VERTEX: Final = ("claude-", "anthropic/")
"""How the names of Anthropic's models at Vertex AI begin, which the package has among those of Google."""

OF_MAKER: Final = re.compile(r"[a-z0-9]+\.[a-z]")
"""A name at Bedrock begins with that of the maker; the package also has names without."""

NO_TALK: Final = re.compile(
    r"audio|embed|moderation|orpheus|prompt-guard|realtime|sonic|transcribe|voxtral-mini|whisper|-(?:live|ocr|tts)\b"
)
"""In names of models that embed, read pages, classify, or hear and speak, and with which nobody converses in text."""

WIDTH: Final = 100
"""Characters of a line of names."""


class Row(NamedTuple):
    """What is known of the models whose names begin in one way."""

    window: int
    """The context window in tokens."""
    is_name: bool
    """Whether a model to converse with is called so."""


def names_of(model: theirs.ModelInfo) -> Iterator[tuple[str, bool]]:
    """Yield the names, and beginnings of names, by which the package knows *model*, and whether each is a name."""
    yield model.id, model.match.is_match(model.id)
    clauses: list[object] = [model.match]
    for clause in clauses:
        if isinstance(clause, theirs.ClauseOr):
            clauses += clause.or_
        elif isinstance(clause, theirs.ClauseEquals):
            yield clause.equals, True
        elif isinstance(clause, theirs.ClauseStartsWith):
            yield clause.starts_with, False


def typed_name(provider: str, name: str) -> str | None:
    """Return *name* as *provider* takes it; `None` if it takes none such: the package has names of others beside."""
    if " " in name or (provider == "gemini" and name.startswith(AT_VERTEX)):
        return None
    if provider != "bedrock":
        return name
    regional = AT_BEDROCK.fullmatch(name.removeprefix("regional."))  # the package's own word for several regions
    return regional[1] if regional and OF_MAKER.match(regional[1]) else None


def figures(provider: str) -> dict[str, Row]:
    """Return what the package knows of *provider*, by the names that it takes."""
    (found,) = (each for each in data_snapshot.get_snapshot().providers if each.id == PROVIDERS[provider])
    known: dict[str, Row] = {}
    for model in found.models:
        for name, is_name in names_of(model) if model.context_window else ():
            if (typed := typed_name(provider, name)) is not None:
                row = known.get(typed, Row(model.context_window or 0, is_name=False))
                known[typed] = row._replace(is_name=row.is_name or (is_name and NO_TALK.search(typed) is None))
    return known | {name: known[name]._replace(is_name=False) for name in spelled_without_dots(known)}


def spelled_without_dots(known: Mapping[str, Row]) -> set[str]:
    """Return the names of *known* that spell another one with dashes for its dots, as the package allows."""
    return {name.replace(".", "-") for name in known if "." in name and known[name].is_name} & known.keys()


def needed(known: Mapping[str, Row]) -> dict[int, list[str]]:
    """Return the names of *known* by window, without those for which a shorter one says the same."""
    kept: dict[str, Row] = {}
    by_window: dict[int, list[str]] = {}
    for name, row in sorted(known.items()):
        shorter = [name[:length] for length in range(len(name) - 1, 0, -1) if name[:length] in kept]
        best = kept[shorter[0]] if shorter else None
        if best is None or best.window != row.window or (row.is_name and not best.is_name):
            kept[name] = row
            by_window.setdefault(row.window, []).append(name if row.is_name else f"{name}{NO_MODEL}")
    return by_window


def printed() -> str:
    """Return the text of the module."""
    lines = [HEAD.format(version=version("genai-prices"))]
    for ours in sorted(PROVIDERS):
        if ours in MAKERS:
            continue
        lines.append(f'    "{ours}": {{\n')
        for window, names in sorted(needed(figures(ours)).items()):
            pieces = textwrap.wrap(" ".join(names), WIDTH, break_long_words=False, break_on_hyphens=False)
            if len(pieces) == 1:
                lines.append(f'        {window:_}: "{pieces[0]}",\n')
            else:
                text = "\n".join(f'            "{piece} "' for piece in pieces)
                lines.append(f"        {window:_}: (\n{text}\n        ),\n")
        lines.append("    },\n")
    lines += ["}\n", '"""The names of models by window, by provider."""\n']
    return "".join(lines)


if __name__ == "__main__":
    sys.stdout.write(printed())
