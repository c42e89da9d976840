"""The registry of models: returns the model for a name; its adapter is imported at the first use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import trio

from agentrail.adapters.models.providers import PROVIDERS, Provider
from agentrail.adapters.models.settings import read_settings
from agentrail.app.model_chain import why_no_model
from agentrail.app.preimport import HTTP, bring_modules
from agentrail.errors import BadChoice, BadModelOptions, BadOptions, UnknownModel, WrongType
from agentrail.errors.agentrail_error import listed, nearest
from agentrail.ports.model import Model
from agentrail.runtime.shared.code_loops import bind_model
from agentrail.values.json import JsonObject
from agentrail.values.newest import Newest
from agentrail.values.secrets import plain_secret
from agentrail.values.untrusted_values import brief

if TYPE_CHECKING:  # it brings httpx
    from agentrail.adapters.models.clouds.accounts import Accounts
    from agentrail.adapters.models.http import Http

Factory = Callable[[str], Model]
"""A function that makes a model by the part of its name after the colon, for `open_supervisor(models={…})`."""

FROM_FACTORY: Final = "a factory that returns an object with `name` and `async def stream(self, request, emit)`"

MAX_MADE: Final = 1000
"""The most models that are cached. Names may come from users, so the cache is limited: the oldest model is dropped."""

FAMILIES: Final = {
    "claude": "anthropic",
    "gpt": "openai",
    "gemini": "gemini",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "grok": "xai",
}
"""The provider for the beginning of a model's name; an error suggests it if a name has no provider."""

LIKE: Final = 0.8
"""Similarity to a known provider's name, from 0 to 1, from which an unknown name counts as misspelt."""


def _demo(_: str) -> Model:
    """Return the built-in model without a provider."""
    from agentrail.adapters.models.demo import DemoModel  # noqa: PLC0415 - adapters are imported at their first use

    return DemoModel()


BUILT_IN: Final[Mapping[str, Factory]] = {"demo": _demo}
"""Factories by provider, the part of a model's name before the colon; a factory is given the part after it."""


class Models:
    """Makes models by name and caches the last `MAX_MADE`; all models share one HTTP client."""

    def __init__(self, factories: Mapping[str, Factory], secrets: Callable[[str], str | None] | None = None) -> None:
        self._factories = {**BUILT_IN, **factories}
        self._secrets = secrets or os.environ.get
        self._made = Newest[str, Model](MAX_MADE)
        self._http: Http | None = None
        self._accounts: Accounts | None = None

    def __call__(self, name: str) -> Model:
        """Return the model called *name*, or raise `UnknownModel`."""
        model = self._made.get(name)
        if model is None:
            model = self._made[name] = self._make(name)
        return model

    def check_limited(self, names: Iterable[object]) -> None:
        """Raise an error if a provider in *names* is misspelt, or no text: its limit would never apply to any model.

        A name similar to no known provider is accepted: it may be the name of a model given as an object.
        """
        names_ = sorted({*self._factories, *PROVIDERS})
        for name in names:
            if not isinstance(name, str):
                raise WrongType("limits", f"the name {brief(name)}", "the part of the models' names before the colon")
            if ":" in name or (name not in names_ and nearest(name.casefold(), names_, LIKE)):
                raise BadChoice("limits", name, f"{listed(names_)}, or what you name in `models`")

    def _make(self, name: str) -> Model:
        """Return a new model called *name*, by the user's factories or for a built-in provider."""
        provider, _, model = name.partition(":")
        if provider in self._factories:
            model_ = self._factories[provider](model)
            problem = why_no_model(model_)
            if problem is not None:
                raise WrongType("models", f"{problem} from {provider!r}", FROM_FACTORY)
            return bind_model(model_)
        if provider in PROVIDERS and model:
            return self._remote(name, PROVIDERS[provider])
        raise _unknown(name, self._factories)

    def _remote(self, name: str, provider: Provider) -> Model:
        """Return a model of a provider that is reached over HTTP."""
        bring_modules(HTTP)
        from agentrail.adapters.models.clouds.accounts import Accounts  # noqa: PLC0415 - at its first use
        from agentrail.adapters.models.http import Http  # noqa: PLC0415 - it brings httpx
        from agentrail.adapters.models.remote_model import RemoteModel  # noqa: PLC0415 - it brings httpx

        if self._http is None or self._accounts is None:
            self._http, self._accounts = Http(), Accounts()
        return RemoteModel(name, provider, self._http, self._secrets, self._accounts)

    async def run(self) -> None:
        """Hold the HTTP client open until this task is cancelled, then close its connections."""
        try:
            await trio.sleep_forever()
        finally:
            if self._http is not None:
                # This task is cancelled when it gets here; httpcore shields the closing of its connections:
                # tests/adapters/models/test_http.py::test_no_connection_outlives_its_supervisor
                await self._http.close()  # noqa: ASYNC102 - see above


def check_set_up(name: str, options: JsonObject) -> None:
    """Raise an error if no request to the model called *name*, with these options, could be answered.

    It is `UnknownModel` if no provider is named, `KeyMissing` if its key is not in the environment, and
    `BadModelOptions` if the options are invalid, or nothing says where a cloud has the model.
    """
    provider, _, model = name.partition(":")
    if provider in BUILT_IN:
        return
    if provider not in PROVIDERS or not model:
        raise _unknown(name, BUILT_IN)
    from agentrail.adapters.models.model_access import check_access  # noqa: PLC0415 - at its first use

    check_access(PROVIDERS[provider], model, read_settings(options), os.environ.get)


def _unknown(name: str, factories: Iterable[str]) -> UnknownModel:
    """Return the error for *name*, with the names that are known."""
    return UnknownModel.among(name, {*factories, *(f"{provider}:…" for provider in PROVIDERS)}, FAMILIES)


def check_options(model: Model, options: JsonObject) -> None:
    """Raise `BadOptions` for options that *model* does not take, or that hold a secret: options are stored."""
    where = plain_secret(options)
    if where is not None:
        raise BadOptions(model.name, f"`{where}` looks like a secret, and options are kept; give `Secret(name)`")
    check: Callable[[JsonObject], None] | None = getattr(model, "check", None)
    if check is not None:  # `ChecksOptions`: `isinstance` with a Protocol is slow
        try:
            check(options)
        except BadModelOptions as error:
            raise BadOptions(model.name, str(error.args[0])) from None
