"""The row of plugins of a session, as data."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final, cast

import attrs

from agentrail.errors import BadOptions, BadPlugin, NotJson, PluginExists
from agentrail.errors.branches import listed
from agentrail.hooks.context import MoneyLimit
from agentrail.hooks.plugin import AnyPlugin, Attachable, Keyed, check_plugin, implemented
from agentrail.values.foreign import money, number, shown
from agentrail.values.json import EMPTY, JsonObject, freeze, freeze_object
from agentrail.values.value import Value, value

LIKE: Final = 0.7
"""How like two names are, from 0 to 1, of which one is taken for the other misspelt."""
UNLIKE: Final = 0.4
"""How like they are at least if one is offered instead of the other."""
MOST_SAID: Final = 2**31
"""The most that a priority or a version may be, or its opposite."""
STATE_LIMIT: Final = 64 * 1024
"""Bytes that the state of one plugin may take when it is written."""


@value
class AttachedPlugin(Value):
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
    changed: JsonObject = EMPTY
    """What the code says of the options that were changed at run time."""
    pinned: tuple[str, ...] = ()
    """Those of them that stay when the code says something else."""


def unkeyed(given: Attachable) -> tuple[str, AnyPlugin]:
    """Return the key and the plugin of *given*; raise `BadPlugin` for what is none."""
    plugin = cast("object", given.plugin if isinstance(given, Keyed) else given)
    if not isinstance(plugin, AnyPlugin):
        name = getattr(plugin, "__name__", type(plugin).__name__)
        raise BadPlugin(name, "it is no plugin; give an object of a subclass of `Plugin`")
    return given.key, plugin


def seat_for(key: str, plugin: AnyPlugin, revision: int = 0) -> AttachedPlugin:
    """Return the seat of *plugin*; raise `BadPlugin` if it can change, or what it says about itself will not do."""
    check_plugin(plugin)
    cls = type(plugin)
    limit = plugin.money_limit
    for name, found, fits in (
        ("priority", plugin.priority, _is_small(plugin.priority)),
        ("version", plugin.version, _is_small(plugin.version)),
        ("critical", plugin.critical, type(cast("object", plugin.critical)) is bool),
        ("money_limit", limit, limit is None or (type(limit) is MoneyLimit and money(limit.max_usd) is not None)),
    ):
        if not fits:
            raise BadPlugin(key, f"its `{name}` is {shown(found)}, which will not do")
    return AttachedPlugin(
        key,
        f"{cls.__module__}:{cls.__qualname__}",
        int(plugin.priority),
        plugin.critical,
        implemented(plugin),
        plugin.version,
        revision,
        options_of(plugin),
        limit,
    )


def updated_seat(old: AttachedPlugin, new: AttachedPlugin, names: Iterable[str], *, pin: bool) -> AttachedPlugin:
    """Return *new*, the seat that *old* becomes when its options *names* are changed at run time."""
    kept = [name for name in names if name in old.options and name in new.options]
    changed = {**{name: old.options[name] for name in kept}, **old.changed}
    pinned = {*old.pinned, *kept} if pin else {*old.pinned} - {*kept}
    return new.but(changed=freeze_object(changed), pinned=tuple(sorted(pinned)))


def _is_small(found: object) -> bool:
    plain = number(found)
    return type(plain) is int and abs(plain) <= MOST_SAID


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


def in_order(seats: tuple[AttachedPlugin, ...]) -> tuple[int, ...]:
    """Return the places of *seats* as they are asked: by priority, then by registration."""
    return tuple(sorted(range(len(seats)), key=lambda place: seats[place].priority))


def refuse_unknown_tools(key: str, plugin: AnyPlugin, tools: Collection[str], *, more: bool) -> None:
    """Raise `BadOptions` if *plugin* names a tool that is not among *tools*, with the nearest one.

    With *more*, others may come by themselves: then only a name that is like one of *tools* is taken for a mistake.
    """
    for name in plugin.tools_named:
        if name in tools:
            continue
        near = get_close_matches(name, tools, 1, LIKE if more else UNLIKE)
        if near or not more:
            meant = f"did you mean `{near[0]}`?" if near else f"its tools are {listed(tools)}."
            later = "For a tool that is attached later, write a pattern such as"
            raise BadOptions(key, f"they name the tool `{name}`, and the session has none; {meant} {later} `{name}*`")


def refuse_twins(keys: list[str]) -> None:
    """Raise if a key is taken twice."""
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise PluginExists(key)
