"""The providers by name, as data: their wire format, their address, and where their key customarily is."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from agentrail.values.value import Value, value

if TYPE_CHECKING:
    from agentrail.adapters.models.wire import WireFormat


@value
class Provider(Value):
    """Who answers, and in which format."""

    format: str
    """The module of `agentrail.adapters.models` whose `FORMAT` is its wire format."""
    base_url: str
    """Where its API is."""
    keys: tuple[str, ...] = ()
    """The environment variables that customarily hold its key, the first that is set counts; none: it needs no key."""


def format_of(provider: Provider) -> WireFormat:
    """Import the wire format of *provider*."""
    module = import_module(f"agentrail.adapters.models.{provider.format}")
    return cast("WireFormat", module.FORMAT)


PROVIDERS: Final = {
    "anthropic": Provider("anthropic", "https://api.anthropic.com", ("ANTHROPIC_API_KEY",)),
}
"""What may stand before the colon of a model's name."""
