"""`meant_models`: which of the offered models a person may mean who typed a name that is none of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, TypeAlias

from agentrail.adapters.models.providers import PROVIDERS
from agentrail.app.model_registry import FAMILIES
from agentrail.cli.settings.default_agent import USUAL, key_of
from agentrail.core.context_window import windows_of
from agentrail.errors.agentrail_error import ALIKE, MAX_NAME

LookUp: TypeAlias = Callable[[str], str | None]
"""Finds an API key by the name of its variable."""

MOST_MEANT: Final = 8
"""The most models that are returned."""

ANY: Final = "*"
"""In the place of a model's name at its provider: each that the provider has."""

_VERSION: Final = re.compile(r"(?<![0-9])[0-9]{1,2}(?![0-9])")
"""A number of a version, and no date."""


def meant_models(name: str, offered: Collection[str], look_up: LookUp) -> Sequence[str]:
    """Return the models that *name* may stand for, the likeliest first; empty if none is like it.

    They are those *offered*, of which `openai:*` is each of that provider. Those of providers whose key *look_up* finds
    come first, those of makers before those of clouds, and of each provider the default one.
    """
    word = name[:MAX_NAME].lower().rpartition(":")[2]
    models = [model for entry in offered for model in _models_of(entry, word)]
    ranks = {model: rank for model in models if (rank := _rank(word, model, look_up)) is not None}
    by_own_name: dict[str, str] = {}  # several providers have the same one
    for model in sorted(ranks, key=lambda model: ranks[model], reverse=True):
        by_own_name.setdefault(_own_name(model), model)
    return list(by_own_name.values())[:MOST_MEANT]


def missing_key(model: str, look_up: LookUp) -> str:
    """Return the variable with the key of the provider of *model* if *look_up* does not find it; else an empty text."""
    provider = model.partition(":")[0]
    keys = PROVIDERS[provider].keys if provider in PROVIDERS else ()
    return "" if not keys or key_of(provider, look_up) else keys[0]


def _models_of(entry: str, word: str) -> Iterator[str]:
    """Yield the models of an *entry* of those offered; *word* is one of them if its beginning says whose it is."""
    provider, _, own_name = entry.partition(":")
    if own_name != ANY:
        yield entry
        return
    yield from (model for model in USUAL if model.startswith(f"{provider}:"))
    if any(word.startswith(f"{family}-") for family, of in FAMILIES.items() if of == provider):
        yield f"{provider}:{word}"
    yield from (f"{provider}:{beginning}" for beginning in windows_of(provider) if beginning[-1:].isalnum())


def _own_name(model: str) -> str:
    """Return the name that *model* has at its provider."""
    return (model.partition(":")[2] or model).lower()


def _rank(word: str, model: str, look_up: LookUp) -> tuple[bool, bool, bool, bool, float, list[int], int] | None:
    """Return how likely *model* is meant by *word*, as a rank, newer ones higher; `None` if they are not alike."""
    own_name = _own_name(model)
    likeness = SequenceMatcher(None, word, own_name).ratio()
    if not word or (word not in own_name and likeness < ALIKE):
        return None
    version = [int(digits) for digits in _VERSION.findall(own_name)]
    provider = PROVIDERS.get(model.partition(":")[0])
    is_cloud = provider is not None and bool(provider.cloud)
    has_key = not missing_key(model, look_up) and not (provider is not None and is_cloud and not provider.keys)
    begins = own_name.startswith(word)
    return has_key, not is_cloud, begins, model in USUAL, likeness, version, -len(model)
