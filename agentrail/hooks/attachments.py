"""Descriptions of a session's plugins as data (`AttachedPlugin`), and the checks when plugins are attached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, cast

import attrs

from agentrail.errors import BadOptions, BadPlugin, NotJson, UsageError
from agentrail.errors.agentrail_error import listed, nearest
from agentrail.hooks.declarations import BroughtTools, IdleHooks, MoneyLimit, UsageLimits, WorkTime
from agentrail.hooks.hook_types import HOOK_NAMES
from agentrail.hooks.plugin import (
    ON_EVENT,
    SCREEN,
    AnyPlugin,
    Attachable,
    Keyed,
    Plugin,
    check_plugin,
    find_declaration,
    name_and_options,
)
from agentrail.hooks.plugin_checks import check_attributes
from agentrail.values.json import EMPTY, JsonObject, freeze, freeze_object
from agentrail.values.personal import Kept
from agentrail.values.tools import HasSpec, ToolSpec
from agentrail.values.untrusted_values import brief, names_of
from agentrail.values.value import Value

LIKE: Final = 0.7
"""If tools may be added later: similarity (0 to 1) to a tool's name from which a name in options is misspelt."""
UNLIKE: Final = 0.4
"""The least similarity (0 to 1) of a tool's name that an error suggests."""
STATE_LIMIT: Final = 64 * 1024
"""The most bytes of a plugin's state as JSON."""


class AttachedPlugin(Value):
    """Description of a plugin in a session as data, without its code and its state."""

    key: Kept[str]
    """Name of the plugin in the session, unique there."""
    plugin: Kept[str]
    """Class of the plugin, as `module:name`."""
    priority: int
    """Order: plugins with lower numbers are asked first."""
    critical: bool
    """Whether a failure of the plugin refuses or aborts what its hook is about, instead of only being reported."""
    hooks: Kept[frozenset[str]]
    """Names of the hooks that the plugin implements."""
    version: int = 1
    """Version of the plugin's state, from its class; `upgrade` is called if the stored version is lower."""
    revision: int = 0
    """How often the plugin's options were updated in this session."""
    options: Kept[JsonObject] = EMPTY
    """Options of the plugin, as far as they are JSON."""
    money_limit: MoneyLimit | None = None
    """The plugin's limit on the session's cost; `None` if it sets none."""
    changed: Kept[JsonObject] = EMPTY
    """For the options that were changed at run time: their values in the code, to notice when the code changes.

    `None` for a value that JSON cannot hold. An option with a new value that JSON cannot hold is named here, and is not
    among `options`: a session that comes back tells that it was dropped.
    """
    pinned: Kept[tuple[str, ...]] = ()
    """Names of run-time options that are kept even if the code changes."""
    tools: tuple[ToolSpec, ...] = ()
    """Descriptions of the tools that the plugin may attach."""
    counts_work: bool = False
    """Whether the time in which the session works is counted for the plugin."""


def _advice(value: object) -> str:
    """Return what to write instead of *value*, which was given as a plugin and is none."""
    if isinstance(value, type) and issubclass(value, AnyPlugin):
        return f"give an object of the class: `{value.__name__}(…)`"
    if isinstance(value, tuple | list | Mapping):
        return 'a plugin with a key of your own is `Keyed("key", plugin)`, from `agentrail.plugins`'
    return "give an object of a subclass of `Plugin`"


def unkeyed(attachable: Attachable) -> tuple[str, AnyPlugin]:
    """Return key and plugin of *attachable*; raise `BadPlugin` if it is no plugin and no `Keyed`, or is invalid."""
    plugin = cast("object", attachable.plugin if isinstance(attachable, Keyed) else attachable)
    if not isinstance(plugin, AnyPlugin):
        name = getattr(plugin, "__name__", type(plugin).__name__)
        raise BadPlugin(name, f"it is no plugin; {_advice(plugin)}")
    check_attributes(plugin)
    key: object = attachable.key
    if type(key) is not str or not key:
        raise BadPlugin(type(plugin).__name__, f"its `key` is {brief(key)}; give `Keyed` a text")
    return key, plugin


def implemented(plugin: AnyPlugin) -> frozenset[str]:
    """Return the names of the methods (hooks, `on_event`, `screen`) that *plugin* overrides, without idle ones."""
    cls, names = type(plugin), {*HOOK_NAMES, ON_EVENT, SCREEN}
    idle = find_declaration(plugin, IdleHooks)
    if idle is not None:
        names.difference_update(idle.hooks)
    return frozenset(name for name in names if getattr(cls, name, None) is not getattr(Plugin, name))


def brought_tools(plugin: AnyPlugin) -> Sequence[HasSpec]:
    """Return the tools that *plugin* may attach by `Ask(ChangeTools(…))`."""
    brought = find_declaration(plugin, BroughtTools)
    return () if brought is None else brought.tools


def attached_plugin(key: str, plugin: AnyPlugin, revision: int = 0) -> AttachedPlugin:
    """Return the description of *plugin*; raise `BadPlugin` if it is mutable or declares something invalid."""
    check_plugin(plugin)
    limits = find_declaration(plugin, UsageLimits)
    counts_work = find_declaration(plugin, WorkTime) is not None
    return AttachedPlugin(
        key,
        class_name(plugin),
        int(plugin.priority),
        plugin.critical,
        implemented(plugin),
        plugin.version,
        revision,
        options_of(plugin),
        None if limits is None else limits.money_limit,
        tools=tuple([tool.spec for tool in brought_tools(plugin)]),
        counts_work=counts_work or (limits is not None and limits.counts_work),
    )


def class_name(plugin: AnyPlugin) -> str:
    """Return the class of *plugin* as `module:name`."""
    cls = type(plugin)
    return f"{cls.__module__}:{cls.__qualname__}"


def updated_plugin(old: AttachedPlugin, new: AttachedPlugin, names: Iterable[str], *, pin: bool) -> AttachedPlugin:
    """Return *new*, which records that the options *names* were changed at run time; *old* is the description before.

    With *pin*, these options are kept even if the code changes.
    """
    updated = tuple(names)
    pinnable = [name for name in updated if name in old.options and name in new.options]
    changed = {**{name: old.options.get(name) for name in updated}, **old.changed}
    pinned = {*old.pinned, *pinnable} if pin else {*old.pinned} - {*updated}
    return new.but(changed=freeze_object(changed), pinned=tuple(sorted(pinned)))


def options_of(plugin: AnyPlugin) -> JsonObject:
    """Return the options of *plugin*, as far as they are JSON."""
    options: dict[str, object] = {}
    fields = cast("tuple[attrs.Attribute[object], ...]", getattr(type(plugin), "__attrs_attrs__", ()))
    aliases = {field.name: field.alias or field.name for field in fields}
    for name in names_of(type(plugin)) or ():
        plain = _plain(getattr(plugin, name))
        if plain is not None:
            options[aliases.get(name, name)] = plain[0]
    frozen = freeze(options)
    return frozen if isinstance(frozen, dict) else EMPTY


def _plain(value: object) -> tuple[object] | None:
    """Return *value* as JSON, in a tuple of one; `None` if it has no JSON form."""
    if isinstance(value, frozenset):
        value = sorted(cast("frozenset[object]", value), key=str)
    if attrs.has(type(value)):  # even if `freeze` could read it as a mapping
        return None
    try:
        return (freeze(value),)
    except NotJson:
        return None


def in_order(attached_plugins: tuple[AttachedPlugin, ...]) -> tuple[int, ...]:
    """Return the indices of *attached_plugins* in the order in which they are asked: by priority, then as given."""
    return tuple(sorted(range(len(attached_plugins)), key=lambda index: attached_plugins[index].priority))


def refuse_unknown_tools(key: str, plugin: AnyPlugin, tools: Collection[str], *, more: bool) -> None:
    """Raise `BadOptions` if *plugin* names a tool that is not among *tools*, and offer the nearest name.

    With *more*, tools may be added later. Then only a name similar to one of *tools* counts as a mistake.
    """
    for name in plugin.tools_named:
        if name in tools:
            continue
        near = nearest(name, tools, LIKE if more else UNLIKE)
        if near is not None or not more:
            advice = f"did you mean `{near}`?" if near else f"its tools are {listed(tools)}."
            later = "For a tool that is attached later, write a pattern such as"
            raise BadOptions(key, f"they name the tool `{name}`, and the session has none; {advice} {later} `{name}*`")


def refuse_unknown_models(
    key: str, plugin: AnyPlugin, why_no_model: Callable[[str, JsonObject], str | None], *, later: bool = False
) -> None:
    """Raise `BadOptions` if *plugin* names a model that cannot be used, or that does not take its options.

    With *later*, the session runs already. Then a name without options is checked only when the model is used.
    """
    for model in plugin.models_named:
        name, options = name_and_options(model)
        problem = None if later and not options else why_no_model(name, freeze_object(options))
        if problem is not None:
            raise BadOptions(key, f"they name the model `{name}`: {problem}")


def refuse_twins(keys: list[str]) -> None:
    """Raise an error if two of the plugins have the same key."""
    for index, key in enumerate(keys):
        if key in keys[:index]:
            raise UsageError("plugin-exists", key)
