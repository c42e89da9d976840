"""The secrets that a request to a provider bears: its API key, and the headers that the options name secrets for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from agentrail.adapters.models.providers import Provider
from agentrail.adapters.models.settings import Settings
from agentrail.errors import BadModelOptions, KeyMissing
from agentrail.errors.branches import listed
from agentrail.values.secrets import secret_name

LookUp: TypeAlias = Callable[[str], str | None]
"""Function that returns the value of the secret with this name, or `None` if there is none."""

PORTS: Final = {"https": 443, "http": 80}
"""The port of a URL that names none, by scheme."""


def api_key(provider: Provider, settings: Settings, look_up: LookUp) -> str | None:
    """Return the API key, or `None` if none is sent; raise `KeyMissing` if it is not set.

    It is the secret that the option `api_key` names, else an environment variable of the provider. Such a variable
    is only used if the request goes to the provider's own host.
    """
    if settings.api_key:
        return usable(settings.api_key, look_up)
    customary = provider.keys
    if not customary or (settings.base_url and _origin(settings.base_url) != _origin(provider.base_url)):
        return None
    for name in customary:
        if look_up(name):
            return usable(name, look_up)
    raise KeyMissing(listed(customary))


def check_secrets(provider: Provider, settings: Settings, look_up: LookUp) -> None:
    """Raise `KeyMissing` or `BadModelOptions` if a secret that requests need is not set, or fits no header."""
    api_key(provider, settings, look_up)
    for found in settings.headers.values():
        named = secret_name(found)
        if named is not None:
            usable(named, look_up)


def usable(name: str, look_up: LookUp) -> str:
    """Return the secret called *name*, without spaces around it.

    Raise `KeyMissing` if it is empty or not set, and `BadModelOptions` if an HTTP header cannot contain it.
    """
    key = (look_up(name) or "").strip()
    if not key:
        problem = f"`{name}`"
        raise KeyMissing(problem)
    if not key.isascii() or not key.isprintable():
        problem = f"the secret `{name}` has characters that no header can hold"
        raise BadModelOptions(problem)
    return key


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port of *url*, by which two URLs are compared."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or PORTS.get(parts.scheme)
