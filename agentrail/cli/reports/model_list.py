"""`agentrail models`: the providers, which of their keys are there, and what is known of models; nothing is sent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from agentrail.adapters.extras import need_extra
from agentrail.adapters.models.providers import PROVIDERS
from agentrail.adapters.models.redaction import has_account
from agentrail.adapters.published_prices import PACKAGE, published_price
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import DONE, tell
from agentrail.cli.output.text_table import aligned
from agentrail.cli.settings.default_agent import DEMO, USUAL, key_of, usual_model
from agentrail.codec.json_text import to_text
from agentrail.core.context_window import ASSUMED, model_names, window_of
from agentrail.errors import ExtraMissing
from agentrail.errors.agentrail_error import advice
from agentrail.values.json import JsonObject
from agentrail.values.usage import Price
from agentrail.values.value import Value

WIDTH: Final = 120
"""Columns of a line."""

UNKNOWN: Final = "-"
"""Stands in a cell for what is not known, or not there."""

NO_KEY: Final = "needs no key"

OF_MACHINE: Final = "see `agentrail doctor`"
"""Stands for the key of a cloud for which the machine may have credentials: `doctor` looks for them."""


class KnownModel(Value):
    """The known window and prices of a model, or of all models whose names begin with `name`."""

    name: str
    """The name, with that of its provider."""
    window: int | None
    """Tokens that it can read; `None` if that is not known."""
    price: Price | None
    """Its price; `None` if that is not known, or the extra `prices` is not installed."""

    @classmethod
    def of(cls, name: str) -> KnownModel:
        """Return what is known of the model called *name*."""
        return cls(name, window_of(name), published_price(name))

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of a row: window, and US dollars for a million tokens of input, output and cached input."""
        price = self.price
        dollars = (None, None, None) if price is None else (price.input, price.output, price.cached)
        figures = [UNKNOWN if amount is None else f"{amount:.6g}" for amount in dollars]
        return (UNKNOWN if self.window is None else f"{self.window:,}", *figures)

    @property
    def as_json(self) -> JsonObject:
        """The model as a JSON object."""
        price = None if self.price is None else msgspec.structs.asdict(self.price)
        return {"model": self.name, "window": self.window, "price": price}


HEADS: Final = ("WINDOW", "$ IN", "OUT", "CACHED")
"""The heads of `KnownModel.cells`."""


def main(name: str | None, *, as_json: bool) -> int:
    """Print the providers, or what is known of the models called *name*, and return the exit status."""
    if name is None:
        _print_providers(as_json=as_json)
    else:
        _print_models(_models_called(name), as_json=as_json)
    if not as_json:
        _tell_of_prices()
    return DONE


# Providers


def _print_providers(*, as_json: bool) -> None:
    chosen = usual_model(os.environ.get)
    usual = {name.partition(":")[0]: KnownModel.of(name) for name in (*USUAL, DEMO)}
    if as_json:
        for provider in (*PROVIDERS, DEMO):
            print(to_text(_provider_json(provider, usual.get(provider), chosen)))
        return
    heads = ("PROVIDER", "KEY", "USUAL MODEL", *HEADS)
    rows = [_provider_row(provider, usual.get(provider)) for provider in (*PROVIDERS, DEMO)]
    for line in aligned((heads, *rows), WIDTH, right=range(3, 7)):
        print(line)
    print(f"\n{_reason(chosen)}")


def _provider_row(provider: str, usual: KnownModel | None) -> tuple[str, ...]:
    if usual is None:
        return provider, _key_text(provider), UNKNOWN, *([UNKNOWN] * len(HEADS))
    return provider, _key_text(provider), usual.name.partition(":")[2] or usual.name, *usual.cells


def _provider_json(provider: str, usual: KnownModel | None, chosen: str) -> JsonObject:
    return {
        "provider": provider,
        "keys": list(_keys(provider)),
        "key_found": _found_key(provider),
        **(KnownModel("", None, None) if usual is None else usual).as_json,
        "model": None if usual is None else usual.name,
        "chosen": usual is not None and usual.name == chosen,
    }


def _keys(provider: str) -> tuple[str, ...]:
    return () if provider == DEMO else PROVIDERS[provider].keys


def _found_key(provider: str) -> str | None:
    return None if provider == DEMO else key_of(provider, os.environ.get)


def _key_text(provider: str) -> str:
    """Return whether the key of *provider* is set, with the name of its variable; its value is never shown."""
    if (key := _found_key(provider)) is not None:
        return f"{key} is set"
    if provider != DEMO and has_account(PROVIDERS[provider]):
        return OF_MACHINE
    return f"{' or '.join(_keys(provider))} is not set" if _keys(provider) else NO_KEY


def _reason(chosen: str) -> str:
    """Return text that says which model `chat` and `run` choose, and why."""
    choice = f"`chat` and `run` choose {chosen}"
    if chosen == DEMO:
        return f"{choice}, which is offline: no key of a provider with a usual model is set."
    provider = chosen.partition(":")[0]
    is_first = USUAL[0] == chosen
    return f"{choice}: {_found_key(provider)} is set{'' if is_first else ', and no key that is looked for before it'}."


# Models


def _models_called(name: str) -> list[KnownModel]:
    """Return the models to show: one by *name*, or all of the provider *name*; raise `BadInputError` for neither."""
    provider, colon, model = name.partition(":")
    if name == DEMO or (provider in PROVIDERS and model):
        return [KnownModel.of(name)]
    if provider not in PROVIDERS or colon:
        problem = f"no model is called {name!r}: a name has a provider before the colon, as in `{USUAL[0]}`"
        raise BadInputError(f"{problem}; {advice(provider, (*PROVIDERS, DEMO), 'there are')}")
    models = [KnownModel.of(f"{provider}:{model}") for model in sorted(model_names(provider))]
    if not models:
        raise BadInputError(f"no model of {provider} is known here; its own pages list them, and `--model` takes any")
    return models


def _print_models(models: Sequence[KnownModel], *, as_json: bool) -> None:
    if as_json:
        for model in models:
            print(to_text(model.as_json))
        return
    for line in aligned((("MODEL", *HEADS), *((model.name, *model.cells) for model in models)), WIDTH, range(1, 5)):
        print(line)
    if len(models) == 1 and models[0].window is None:
        print(
            f"\nIts window is not known: a session assumes {ASSUMED:,} tokens; the option `context_window` says more."
        )
    elif len(models) > 1:
        print("\nLonger names that begin like one of these are taken, too, and have its window, in tokens.")


def _tell_of_prices() -> None:
    try:
        need_extra("prices", PACKAGE, "show prices")
    except ExtraMissing as missing:
        tell(f"agentrail: {missing}")
        return
    print("Prices are those for a million tokens, for short contexts, as the package genai-prices has them.")
