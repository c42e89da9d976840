"""Chains of models: the first model gets the requests; each later one only if all before it failed to answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, TypeGuard, cast

from agentrail.core.vocabulary.state import State
from agentrail.errors import BadSpec
from agentrail.ports.model import Model, ModelChain
from agentrail.ports.protocol_checks import why_unfit
from agentrail.values.json import Json, JsonObject, freeze_object
from agentrail.values.untrusted_values import items_of, type_name

ChainModel: TypeAlias = tuple[str | Model, JsonObject]
"""One model of a chain, with the options for its provider."""

PAIR: Final = 2
"""Length of a `(model, options)` pair, as users write it in a chain."""


MODEL_WANTED: Final = "a name, or an object with `name` and `async def stream(self, request, emit)`"


def why_no_model(value: object) -> str | None:
    """Return words for *value* if it cannot be used as a model, as in "a `dict`"; else `None`."""
    problem = why_unfit(value, Model)
    if problem is None and not isinstance(getattr(value, "name", None), str):
        return f"a `{type_name(value)}`, whose `name` is no text,"
    return problem


def _is_pair(value: object) -> TypeGuard[tuple[str | Model, Mapping[str, Json]]]:
    """Whether *value* is a pair of a model and its options."""
    if not isinstance(value, tuple):
        return False
    items = cast("tuple[object, ...]", value)
    return len(items) == PAIR and isinstance(items[1], Mapping)


def chain_of(model: ModelChain, options: Mapping[str, Json]) -> tuple[ChainModel, ...]:
    """Return the models of a chain, each with its options; *options* are for the first model only.

    The provider of the first model defines the keys of *options*, so the other models do not get them.
    """
    chain: list[object] = [model]
    if isinstance(model, list | tuple) and not _is_pair(model):
        chain = list(items_of(cast("list[object]", model)))
    links: list[ChainModel] = []
    for index, link in enumerate(chain):
        if not _is_pair(link):
            links.append((cast("str | Model", link), freeze_object(options if index == 0 else {})))
        elif options and index == 0:
            raise BadSpec("model_options", "are given beside those in `model`; give the first model's in one place")
        else:
            links.append((link[0], freeze_object(link[1])))
    return tuple(links)


def links_of(state: State) -> tuple[tuple[str, JsonObject], ...]:
    """Return the names of the models that a stored session uses, in the order of the chain, each with its options."""
    return (state.model, state.model_options), *((spare.model, spare.options) for spare in state.fallbacks)
