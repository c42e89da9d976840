"""Models that a person may mean who has typed a part of a name, or a name that is none of those offered."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, TypeAlias

from agentrail.adapters.models.providers import PROVIDERS
from agentrail.adapters.models.redaction import has_account
from agentrail.app.model_registry import FAMILIES
from agentrail.cli.settings.default_agent import DEMO, USUAL, key_of
from agentrail.core.context_window import model_names
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


def models_like(beginning: str) -> Sequence[str]:
    """Return the models to complete *beginning* by: the default ones and the providers, or those of its provider."""
    provider, colon, _ = beginning.partition(":")
    if not colon:
        return (*USUAL, DEMO, *(f"{name}:" for name in PROVIDERS))
    return tuple(dict.fromkeys((*_usual_of(provider), *_known_of(provider))))


def missing_key(model: str, look_up: LookUp) -> str:
    """Return the variable with the key of the provider of *model* if *look_up* does not find it; else an empty text.

    Of a cloud for which the machine may have credentials, no key is missing.
    """
    name = model.partition(":")[0]
    provider = PROVIDERS.get(name)
    if provider is None or not provider.keys or has_account(provider) or key_of(name, look_up):
        return ""
    return provider.keys[0]


def _models_of(entry: str, word: str) -> Iterator[str]:
    """Yield the models of an *entry* of those offered; *word* is one of them if its beginning says whose it is."""
    provider, _, own_name = entry.partition(":")
    if own_name != ANY:
        yield entry
        return
    yield from _usual_of(provider)
    if any(word.startswith(f"{family}-") for family, of in FAMILIES.items() if of == provider):
        yield f"{provider}:{word}"
    yield from _known_of(provider)


def _usual_of(provider: str) -> Iterator[str]:
    return (model for model in USUAL if model.startswith(f"{provider}:"))


def _known_of(provider: str) -> Iterator[str]:
    return (f"{provider}:{name}" for name in model_names(provider))


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
    name = model.partition(":")[0]
    provider = PROVIDERS.get(name)
    is_cloud = provider is not None and bool(provider.cloud)
    needs_key = provider is not None and (is_cloud or bool(provider.keys))
    has_key = not needs_key or key_of(name, look_up) is not None
    begins = own_name.startswith(word)
    return has_key, not is_cloud, begins, model in USUAL, likeness, version, -len(model)
