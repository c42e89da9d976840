"""The row of plugins of a session, as data."""

from __future__ import annotations

from typing import cast

import attrs

from agentrail.errors import BadPlugin, NotJson, PluginExists
from agentrail.hooks.money import MoneyLimit
from agentrail.hooks.plugin import AnyPlugin, Attachable, Keyed, implemented
from agentrail.values.json import EMPTY, JsonObject, freeze
from agentrail.values.value import Value, value


@value
class Seat(Value):
    """One plugin's place in the row: all that is known of it but its code and its state."""

    key: str
    """What it is called in the session."""
    plugin: str
    """Its class, as `module:name`."""
    priority: int
    """Lower is asked first."""
    critical: bool
    """Whether the door stays shut if it breaks."""
    hooks: frozenset[str]
    """The hooks it implements."""
    version: int = 1
    """The version of its state."""
    revision: int = 0
    """How often its options were updated."""
    options: JsonObject = EMPTY
    """Its options, those that JSON can hold."""
    money_limit: MoneyLimit | None = None
    """The limit that it keeps on what the session costs."""


def unkeyed(given: Attachable) -> tuple[str, AnyPlugin]:
    """Return the key and the plugin of *given*; raise `BadPlugin` for what is none."""
    plugin = cast("object", given.plugin if isinstance(given, Keyed) else given)
    if not isinstance(plugin, AnyPlugin):
        name = getattr(plugin, "__name__", type(plugin).__name__)
        raise BadPlugin(name, "it is no plugin; give an object of a subclass of `Plugin`")
    return given.key, plugin


def seat_for(key: str, plugin: AnyPlugin, revision: int = 0) -> Seat:
    """Return the seat of *plugin*."""
    cls = type(plugin)
    return Seat(
        key,
        f"{cls.__module__}:{cls.__qualname__}",
        int(plugin.priority),
        plugin.critical,
        implemented(plugin),
        plugin.version,
        revision,
        options_of(plugin),
        plugin.money_limit,
    )


def options_of(plugin: AnyPlugin) -> JsonObject:
    """Return the options of *plugin* that JSON can hold."""
    kept: dict[str, object] = {}
    for field in cast("tuple[attrs.Attribute[object], ...]", getattr(type(plugin), "__attrs_attrs__", ())):
        found = _plain(getattr(plugin, field.name))
        if found is not None:
            kept[field.alias or field.name] = found[0]
    frozen = freeze(kept)
    return frozen if isinstance(frozen, dict) else EMPTY


def _plain(found: object) -> tuple[object] | None:
    if isinstance(found, frozenset):
        found = sorted(cast("frozenset[object]", found), key=str)
    if attrs.has(type(found)):
        return None
    try:
        return (freeze(found),)
    except NotJson:
        return None


def in_order(seats: tuple[Seat, ...]) -> tuple[int, ...]:
    """Return the places of *seats* as they are asked: by priority, then by registration."""
    return tuple(sorted(range(len(seats)), key=lambda place: seats[place].priority))


def refuse_twins(keys: list[str]) -> None:
    """Raise if a key is taken twice."""
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise PluginExists(key)
