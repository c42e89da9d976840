"""The registry of models: from a name to a model, imported when it is first wanted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import trio

from agentrail.adapters.models.providers import PROVIDERS, Provider
from agentrail.app.preload import HTTP, bring_modules
from agentrail.errors import BadChoice, BadModelOptions, BadOptions, UnknownModel
from agentrail.errors.branches import listed
from agentrail.ports.model import ChecksOptions, Model
from agentrail.values.json import JsonObject
from agentrail.values.secrets import plain_secret

if TYPE_CHECKING:  # it brings httpx
    from agentrail.adapters.models.http import Http

Factory = Callable[[str], Model]

CLOSING: Final = 2.0
"""Seconds that closing the connections may take."""

MOST_MADE: Final = 1000
"""Models that are kept; names may come from users, so the oldest goes, and is made again when it is wanted."""

FAMILIES: Final = {
    "claude": "anthropic",
    "gpt": "openai",
    "gemini": "gemini",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "grok": "xai",
}
"""How names of models begin, and whose models those are: for who forgets the provider."""

LIKE: Final = 0.8
"""How like a known name, from 0 to 1, one is that is taken for a mistake."""


def _demo(_: str) -> Model:
    from agentrail.adapters.models.demo import DemoModel  # noqa: PLC0415 - adapters are imported when they are wanted

    return DemoModel()


BUILT_IN: Final[Mapping[str, Factory]] = {"demo": _demo}
"""What stands before the colon of a model's name, and who makes such models of what stands behind it."""


class Models:
    """Makes each model once, as long as there are no more than `MOST_MADE`; all share one client for HTTP."""

    def __init__(self, factories: Mapping[str, Factory], secrets: Callable[[str], str | None] | None = None) -> None:
        self._factories = {**BUILT_IN, **factories}
        self._secrets = secrets or os.environ.get
        self._made: dict[str, Model] = {}
        self._http: Http | None = None

    def __call__(self, name: str) -> Model:
        """Return the model called *name*, or raise `UnknownModel`."""
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._make(name)
            if len(self._made) > MOST_MADE:
                del self._made[next(iter(self._made))]
        return made

    def check_limited(self, names: Iterable[str]) -> None:
        """Raise `BadChoice` for a provider among *names* that is misspelt: nobody would ever wait for its limit.

        A name that is like no other may be that of a model which is given as an object.
        """
        from difflib import get_close_matches  # noqa: PLC0415 - few supervisors have limits

        known = sorted({*self._factories, *PROVIDERS})
        for name in names:
            if ":" in name or (name not in known and get_close_matches(name.casefold(), known, cutoff=LIKE)):
                raise BadChoice("limits", name, f"{listed(known)}, or what you name in `models`")

    def _make(self, name: str) -> Model:
        provider, _, model = name.partition(":")
        if provider in self._factories:
            return self._factories[provider](model)
        if provider in PROVIDERS and model:
            return self._remote(name, PROVIDERS[provider])
        raise UnknownModel.among(name, {*self._factories, *(f"{known}:…" for known in PROVIDERS)}, FAMILIES)

    def _remote(self, name: str, provider: Provider) -> Model:
        from agentrail.adapters.models.http import Http  # noqa: PLC0415 - it brings httpx
        from agentrail.adapters.models.remote import RemoteModel  # noqa: PLC0415 - see above

        if self._http is None:
            bring_modules(HTTP)
            self._http = Http()
        return RemoteModel(name, provider, self._http, self._secrets)

    async def run(self) -> None:
        """Keep the connections until this is cancelled."""
        try:
            await trio.sleep_forever()
        finally:
            if self._http is not None:
                with trio.move_on_after(CLOSING, shield=True):
                    await self._http.close()


def check_options(model: Model, options: JsonObject) -> None:
    """Raise `BadOptions` for options that *model* does not take, and for secrets among them: options are kept."""
    where = plain_secret(options)
    if where is not None:
        raise BadOptions(model.name, f"`{where}` looks like a secret, and options are kept; give `Secret(name)`")
    if isinstance(model, ChecksOptions):
        try:
            model.check(options)
        except BadModelOptions as error:
            raise BadOptions(model.name, str(error.args[0])) from None
