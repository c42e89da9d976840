"""Prints the module `agentrail.core.printed_windows` from the package `genai-prices`.

Run as `python -m tests.adapters.printed_windows > agentrail/core/printed_windows.py`.
"""

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Final

import genai_prices.types as theirs
from genai_prices import data_snapshot

from agentrail.adapters.published_prices import PROVIDERS
from agentrail.core.cloud_names import AT_BEDROCK, MAKERS

HEAD: Final = '''"""Context windows of models, in tokens. Printed by `tests.adapters.printed_windows`; not edited.

Source: the package `genai-prices` {version}. A name counts for all models whose names begin with it.
Of several, the longest counts.
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

WIDTH: Final = 100
"""Characters of a line of names."""


def names_of(model: theirs.ModelInfo) -> Iterator[str]:
    """Yield the names, and beginnings of names, by which the package knows *model*."""
    yield model.id
    clauses: list[object] = [model.match]
    for clause in clauses:
        if isinstance(clause, theirs.ClauseOr):
            clauses += clause.or_
        elif isinstance(clause, theirs.ClauseEquals):
            yield clause.equals
        elif isinstance(clause, theirs.ClauseStartsWith):
            yield clause.starts_with


def typed_name(provider: str, name: str) -> str | None:
    """Return *name* as *provider* takes it; `None` if it takes none such: the package has names of others beside."""
    if " " in name or (provider == "gemini" and name.startswith(AT_VERTEX)):
        return None
    if provider != "bedrock":
        return name
    regional = AT_BEDROCK.fullmatch(name.removeprefix("regional."))  # the package's own word for several regions
    return regional[1] if regional and OF_MAKER.match(regional[1]) else None


def figures(provider: str) -> dict[str, int]:
    """Return the windows that the package knows of *provider*, by the names that it takes."""
    (found,) = (each for each in data_snapshot.get_snapshot().providers if each.id == PROVIDERS[provider])
    known: dict[str, int] = {}
    for model in found.models:
        for name in names_of(model) if model.context_window else ():
            if (typed := typed_name(provider, name)) is not None:
                known.setdefault(typed, model.context_window or 0)
    return known


def needed(known: Mapping[str, int]) -> dict[int, list[str]]:
    """Return the names of *known* by window, without those for which a shorter one says the same."""
    kept: dict[str, int] = {}
    by_window: dict[int, list[str]] = {}
    for name in sorted(known):
        shorter = [name[:length] for length in range(len(name) - 1, 0, -1) if name[:length] in kept]
        if not shorter or kept[shorter[0]] != known[name]:
            kept[name] = known[name]
            by_window.setdefault(known[name], []).append(name)
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
