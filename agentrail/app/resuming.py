"""Finds the code of a stored session: compares its plugins, tools and models with those of a specification."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import TypeAlias

from agentrail.app.model_chain import chain_of, links_of
from agentrail.app.model_registry import check_options
from agentrail.app.session_code import (
    LateValidator,
    attachments,
    brought_by,
    files_of,
    judge_for,
    own_model,
    prices_of,
    refuse_misnamed,
    sources_of,
    surroundings,
    tools_of,
)
from agentrail.app.spec import SessionSpec
from agentrail.app.subagent_code import Build, recipes
from agentrail.codec.plugin_types import decode_state
from agentrail.codec.type_hints import hints_of, readable
from agentrail.core.vocabulary.inputs import SessionReturned
from agentrail.core.vocabulary.state import Attached, State
from agentrail.errors import PluginMismatch
from agentrail.hooks.attachments import AttachedPlugin, options_of, seat_for
from agentrail.hooks.live import Live
from agentrail.hooks.plugin import AnyPlugin, Remainder
from agentrail.ports.model import Model
from agentrail.ports.tool import Tool
from agentrail.runtime.actor.journal_log import revived
from agentrail.runtime.commands import updated
from agentrail.runtime.resources import Found, SessionCode
from agentrail.tools.as_tool import as_tool
from agentrail.values.json import EMPTY, Json, freeze_object
from agentrail.values.tools import ToolSpec

Others: TypeAlias = dict[str, tuple[str, ...]]
"""The plugins whose options differ from the stored ones, by key, with the names of the options that are reset."""


def reunited(
    stored: State,
    records: int,
    spec: SessionSpec,
    known: Callable[[str], Model],
    build: Build,
    *,
    pause: bool,
) -> Found:
    """Return the session *stored* with the code of *spec*; its own options and models stay as stored.

    The options of its plugins are those of *spec*.

    Only those that were changed at run time are kept, unless a critical plugin resets them; the result names the reset
    ones. Plugins and tools of *spec* that the session never had are added. Those that it once had and that were
    removed stay removed.
    """
    own: dict[str, Model] = {}
    prices = prices_of(spec)
    judge = judge_for(spec, own, known, prices)
    revision = 1 + _last_revision(stored)
    plugins = dict(attachments(spec))
    if not stored.setup.path:
        refuse_misnamed(spec, (*stored.tools, *stored.gone_tools))
    held = frozenset(given.key for given in spec.plugins if isinstance(given, Remainder))
    others: Others = {}
    row = [_seated(stored, seat, plugins, held, others, judge) for seat in stored.seats]
    row += _joining(stored, plugins, judge, revision)
    seats = tuple(sorted((seat for seat, _ in row), key=lambda seat: seat.priority))
    tools = tools_of(spec)
    brought_by(plugins.values(), tools)
    waiting, without = _waiting(stored, plugins, held, others, judge)
    brought = _brought((*waiting, *seats), judge)
    tools |= {name: tool for seat, name, tool in brought if _brings(seat, stored.tools.get(name))}
    sources = tuple(source for source in sources_of(spec) if source.name not in stored.gone_tools)
    changed, gone = _compared(stored, tools, [source.name for source in sources])
    tool_code = _tool_code(stored, tools, changed, revision)
    tool_code |= {(name, seat.revision): tool for seat, name, tool in brought}
    here = surroundings(spec, stored.setup.working_dir)
    code = SessionCode(
        judge, tool_code, own, spec.services, here, LateValidator, prices, sources, recipes(spec, build), spec.compactor
    )
    code.section_files = files_of(spec, here)
    code.revision = revision
    for (name, number), tool in tool_code.items():
        judge.tool(name, number, LateValidator(tool))
    _take_models(code, stored, spec, known)
    lost = tuple(f"the source of tools `{source.name}`, which is started again" for source in code.sources)
    told = lost if stored.turns else ()
    reset = tuple(others.items())
    returned = SessionReturned(records, seats, changed, gone, revision, without, told, pause, reset, waiting)
    states = tuple(state for _, state in row[: len(stored.seats)])
    return stored.but(plugin_states=states), code, returned


def _take_models(code: SessionCode, stored: State, spec: SessionSpec, known: Callable[[str], Model]) -> None:
    """Register the model objects of *spec* in *code*; raise if a stored model of the session refuses its options."""
    for link, _ in chain_of(spec.model, EMPTY):
        own_model(code, link)
    for name, options in links_of(stored):
        check_options(code.models.get(name) or known(name), options)


def _last_revision(stored: State) -> int:
    """Return the highest revision in *stored*: each change of plugins or tools of a session has a number."""
    calls = () if stored.batch is None else stored.batch.calls
    joining = (change.seat.revision for change in stored.changes if change.seat is not None)
    numbers = (
        *(seat.revision for seat in stored.seats),
        *(attached.revision for attached in stored.tools.values()),
        *(call.revision for call in calls),
        *joining,
    )
    return max(numbers, default=0)


# Plugins


def _seated(
    stored: State,
    seat: AttachedPlugin,
    plugins: Mapping[str, AnyPlugin],
    held: Container[str],
    others: Others,
    judge: Live,
) -> tuple[AttachedPlugin, object]:
    """Return the plugin's description with the options that hold now, and its state.

    Add it to *others* if its options differ from the stored ones. Raise `PluginMismatch` if there is no code for it.
    """
    place = stored.seats.index(seat)
    state = stored.plugin_states[place]
    plugin = plugins.get(seat.key)
    if plugin is None:
        raise PluginMismatch(stored.session_id, seat.key, "it is not in the specification")
    if plugin.version < seat.version:
        problem = f"its state was written by version {seat.version}, and the code is version {plugin.version}"
        raise PluginMismatch(stored.session_id, seat.key, problem)
    plugin, now, dropped = _resolved(stored.session_id, plugin, seat, held=seat.key in held)
    if plugin.version == seat.version:
        state = revived(stored.session_id, seat.key, plugin, state)
    judge.seat(seat.key, seat.revision, plugin)
    if dropped or any(now.options[name] != found for name, found in seat.options.items() if name in now.options):
        others[seat.key] = dropped
    return now, state


def _resolved(
    session_id: str, plugin: AnyPlugin, seat: AttachedPlugin, *, held: bool
) -> tuple[AnyPlugin, AttachedPlugin, tuple[str, ...]]:
    """Return *plugin* with the options that hold now, its description, and the names of stored options that do not.

    Options that were changed at run time hold. But if the options of a critical plugin in the code differ from those at
    the session's start, its changed options are dropped, except the pinned ones. With *held*, all stored options hold.
    """
    now = options_of(plugin)
    stored = seat.options
    keep = [name for name in (stored if held else seat.changed) if name in now and name in stored]
    if keep and not held:
        hints = hints_of(type(plugin))
        keep = [name for name in keep if name in hints and readable(hints[name]) is None]
    began = {**stored, **seat.changed}
    if plugin.critical and not held and any(now[name] != began[name] for name in began if name in now):
        keep = [name for name in keep if name in seat.pinned]
    plugin = _with_options(
        session_id, seat.key, plugin, {name: stored[name] for name in keep if now[name] != stored[name]}
    )
    dropped = tuple(
        name for name in seat.changed if name not in keep and (name not in stored or stored.get(name) != now.get(name))
    )
    changed = seat.changed if held else freeze_object({name: now[name] for name in keep})
    pinned = tuple(name for name in seat.pinned if name in keep)
    return plugin, seat_for(seat.key, plugin, seat.revision).but(changed=changed, pinned=pinned), dropped


def _with_options(session_id: str, key: str, plugin: AnyPlugin, changed: Mapping[str, Json]) -> AnyPlugin:
    """Return *plugin* with the options *changed*, which are JSON as stored."""
    if not changed:
        return plugin
    hints = hints_of(type(plugin))
    try:
        given = {name: decode_state(hints[name], found) for name, found in changed.items()}
        return updated(plugin, given)
    except Exception as error:  # a plugin class may refuse options by any exception
        raise PluginMismatch(session_id, key, f"it does not take its stored options: {error}") from error


def _joining(
    stored: State, plugins: Mapping[str, AnyPlugin], judge: Live, revision: int
) -> list[tuple[AttachedPlugin, object]]:
    """Return the description of each plugin that the session has never had; its state is `None` until `init`."""
    had = {seat.key for seat in stored.seats} | {change.key for change in stored.changes} | {*stored.gone_plugins}
    joining: list[tuple[AttachedPlugin, object]] = []
    for key, plugin in plugins.items():
        if key not in had:
            judge.seat(key, revision, plugin)
            joining.append((seat_for(key, plugin, revision), None))
    return joining


def _waiting(
    stored: State, plugins: Mapping[str, AnyPlugin], held: Container[str], others: Others, judge: Live
) -> tuple[tuple[AttachedPlugin, ...], tuple[str, ...]]:
    """Return the descriptions of plugins that were still to be attached, and the keys of those without code now."""
    missing: list[str] = []
    seats: list[AttachedPlugin] = []
    for change in stored.changes:
        if change.seat is None:
            continue
        plugin = plugins.get(change.key)
        if plugin is None:
            missing.append(change.key)
        else:
            new, seat, dropped = _resolved(stored.session_id, plugin, change.seat, held=change.key in held)
            judge.seat(change.key, change.seat.revision, new)
            if dropped or any(name not in seat.changed for name in change.options):
                others[change.key] = tuple(dict.fromkeys((*others.get(change.key, ()), *dropped)))
            seats.append(seat)
    return tuple(seats), tuple(missing)


# Tools


def _brought(seats: Iterable[AttachedPlugin], judge: Live) -> list[tuple[AttachedPlugin, str, Tool]]:
    """Return the tools that the plugins of *seats* bring: plugin, name and tool."""
    made = [(seat, as_tool(tool)) for seat in seats for tool in judge.plugin(seat).tools_brought]
    return [(seat, tool.spec.name, tool) for seat, tool in made]


def _brings(seat: AttachedPlugin, attached: Attached | None) -> bool:
    """Whether the plugin of *seat* has attached the tool *attached* to the session."""
    return attached is not None and attached.plugin == seat.key


def _compared(
    stored: State, tools: Mapping[str, Tool], sources: Collection[str]
) -> tuple[tuple[ToolSpec, ...], tuple[str, ...]]:
    """Return the tools that are new or have changed, and the names of the stored tools that no longer exist."""
    gone = tuple(
        name for name, attached in stored.tools.items() if name not in tools and attached.source not in sources
    )
    changed = [
        tool.spec
        for name, tool in tools.items()
        if (name in stored.tools and stored.tools[name].spec != tool.spec)
        or (name not in stored.tools and name not in stored.gone_tools)
    ]
    return tuple(changed), gone


def _tool_code(
    stored: State, tools: Mapping[str, Tool], changed: Iterable[ToolSpec], revision: int
) -> dict[tuple[str, int], Tool]:
    """Return the tools by name and revision; a tool that has not changed keeps its old revision."""
    others = {spec.name for spec in changed}
    kept = {
        (name, attached.revision): tools[name]
        for name, attached in stored.tools.items()
        if name in tools and name not in others
    }
    return kept | {(name, revision): tools[name] for name in others}
