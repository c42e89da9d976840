"""Changes of a session's code by its handle: what callers pass is checked, and made into an input with its code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import attrs

from agentrail.api.command_checks import UpdatePlugin, check_flag
from agentrail.core.vocabulary.commands import AttachPluginSent, UpdatePluginSent
from agentrail.core.vocabulary.state import State
from agentrail.errors import BadOptions, NotJson, UnknownPlugin, UsageError
from agentrail.hooks.attachments import (
    AttachedPlugin,
    attached_plugin,
    refuse_unknown_models,
    refuse_unknown_tools,
    unkeyed,
    updated_plugin,
)
from agentrail.hooks.plugin import AnyPlugin, Attachable
from agentrail.ports.protocol_members import has_members
from agentrail.ports.tool import Tool, ToolSource
from agentrail.runtime.inbox.letter import NewCode
from agentrail.values.json import Json, JsonObject, freeze, freeze_object
from agentrail.values.untrusted_values import described

if TYPE_CHECKING:
    from agentrail.runtime.actor.session import Session


def attach_input(
    session: Session, plugin: Attachable, as_tool: Callable[[object], Tool]
) -> tuple[AttachPluginSent, NewCode]:
    """Return the input that attaches *plugin*, and its code; raise if it does not fit the session."""
    key, bare = unkeyed(plugin)
    attached = _attached_plugin(session, key, bare)
    return AttachPluginSent(attached), session.code.joining(attached, bare, as_tool)


def changed_options(
    session: Session, change: UpdatePlugin, as_tool: Callable[[object], Tool]
) -> tuple[UpdatePluginSent, NewCode]:
    """Return the input that gives a plugin other options, and its code; raise if it does not take them."""
    check_flag("pin", change.pin)
    key, options, code = change.plugin, change.options, session.code
    old = attached_as(session.state, key)
    try:
        new = updated(code.hook_runner.plugin(old), options)
    except Exception as error:
        raise BadOptions(key, described(error)) from error
    attached = updated_plugin(old, _attached_plugin(session, key, new), options, pin=change.pin)
    if change.pin:
        refuse_lost_pins(attached, new, options)
    return UpdatePluginSent(attached, plain_options(options)), code.joining(attached, new, as_tool)


def _attached_plugin(session: Session, key: str, plugin: AnyPlugin) -> AttachedPlugin:
    """Return the description of *plugin*; raise an error if it names unknown models or tools."""
    code = session.code
    attached = attached_plugin(key, plugin, code.next_revision())
    refuse_unknown_models(key, plugin, code.hook_runner.why_no_model, later=True)
    refuse_unknown_tools(key, plugin, session.state.tools, more=bool(code.sources or code.agents))
    return attached


def source_of(tools: tuple[object, ...], source_names: Collection[str], *, replace: bool) -> ToolSource | None:
    """Return *tools* if it is a source of tools (an MCP server), `None` if not; raise if it cannot be attached."""
    source = next((tool for tool in tools if has_members(tool, ToolSource)), None)
    if source is None:
        return None
    if len(tools) > 1:
        raise UsageError("source-alone", source.name)
    if source.name in source_names and not replace:
        raise UsageError("source-exists", source.name)
    source.check()
    return source


def told_apart(
    names: tuple[str, ...], tools: Collection[str], sources: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split *names* into tools and sources of tools; an unknown name counts as a tool, which the machine refuses."""
    closed = tuple(name for name in names if name in sources and name not in tools)
    return tuple(name for name in names if name not in closed), closed


def updated(plugin: AnyPlugin, options: Mapping[str, object]) -> AnyPlugin:
    """Return *plugin* with new options; errors that its class raises about them pass through."""
    change: object = dataclasses.replace if dataclasses.is_dataclass(type(plugin)) else attrs.evolve
    return cast("Callable[..., AnyPlugin]", change)(plugin, **options)  # `TypeError` if it is of neither kind


def refuse_lost_pins(new: AttachedPlugin, plugin: AnyPlugin, names: Iterable[str]) -> None:
    """Raise `BadOptions` if a pinned option of *plugin*, one of *names*, would not be restored from its stored form."""
    from agentrail.codec.plugin_types import hints_of, why_read_otherwise  # noqa: PLC0415 - few sessions pin options

    hints = hints_of(type(plugin))
    cls: type[object] = type(plugin)
    attributes = {field.alias: field.name for field in attrs.fields(cls)} if attrs.has(cls) else {}
    for name in names:
        if name not in new.pinned:
            which = "new" if name not in new.options else "old"
            problem: str | None = f"its {which} value is none that JSON can hold"
        elif name not in hints:
            problem = "its class has no type hint for it that can be resolved"
        else:
            problem = why_read_otherwise(hints[name], getattr(plugin, attributes.get(name, name)), new.options[name])
        if problem is not None:
            instead = "give it without `pin`, or declare the option as text, numbers or tuples of them"
            raise BadOptions(new.key, f"`{name}` cannot be pinned: {problem}; {instead}")


def attached_as(state: State, key: str) -> AttachedPlugin:
    """Return the plugin of this key as attached, or as queued to be; raise `UnknownPlugin` if there is none."""
    joining = [
        change.attached for change in state.plugin_changes if change.kind == "attach" and change.attached is not None
    ]
    for attached in (*state.plugins, *joining):
        if attached.key == key:
            return attached
    raise UnknownPlugin.among(key, (attached.key for attached in state.plugins))


def plain_options(options: Mapping[str, object]) -> JsonObject:
    """Return those of *options* that JSON can hold."""
    plain: dict[str, Json] = {}
    for name, value in options.items():
        with suppress(NotJson):
            plain[name] = freeze(value)
    return freeze_object(plain)
