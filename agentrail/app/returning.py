"""A stored session and the code that there is now: what fits, what is new, what is gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from agentrail.app.agents import Build, recipes
from agentrail.app.chain import chain_of, links_of
from agentrail.app.equipping import (
    LateValidator,
    attachments,
    judge_for,
    own_model,
    refuse_misnamed,
    sources_of,
    surroundings,
    tools_of,
)
from agentrail.app.models import check_options
from agentrail.app.pricing import PriceList
from agentrail.app.spec import SessionSpec
from agentrail.codec import decode
from agentrail.codec.hints import fields_of
from agentrail.core.inputs import SessionReturned
from agentrail.core.state import State
from agentrail.errors import PluginMismatch
from agentrail.hooks.live import Live
from agentrail.hooks.plugin import AnyPlugin
from agentrail.hooks.seats import Seat, options_of, seat_for
from agentrail.ports.model import Model
from agentrail.ports.tool import Tool
from agentrail.runtime.commands import updated
from agentrail.runtime.parts import Found, Outfit
from agentrail.runtime.rebuilding import revived
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.tools import ToolSpec


def reunited(
    stored: State,
    records: int,
    spec: SessionSpec,
    known: Callable[[str], Model],
    build: Build,
    *,
    pause: bool,
) -> Found:
    """Return *stored* with its code: what was recorded holds, the specification gives what can only be code.

    Plugins and tools of the specification that the session never had join it; those that it had and let go stay gone.
    """
    own: dict[str, Model] = {}
    prices = PriceList(spec.prices)
    judge = judge_for(own, known, prices)
    revision = 1 + _last_revision(stored)
    plugins = dict(attachments(spec))
    if not stored.setup.path:
        refuse_misnamed(spec, (*stored.tools, *stored.gone_tools))
    row = [_seated(stored, seat, plugins, judge) for seat in stored.seats]
    row += _joining(stored, plugins, judge, revision)
    seats = tuple(sorted((seat for seat, _ in row), key=lambda seat: seat.priority))
    tools = tools_of(spec)
    sources = sources_of(spec)
    changed, gone = _compared(stored, tools, [source.name for source in sources])
    code = _code(stored, tools, changed, revision)
    around = surroundings(spec, stored.setup.working_dir)
    outfit = Outfit(judge, code, own, spec.services, around, LateValidator, prices, sources, recipes(spec, build))
    outfit.revision = revision
    for (name, number), tool in code.items():
        judge.tool(name, number, LateValidator(tool))
    for link, _ in chain_of(spec.model, EMPTY):
        own_model(outfit, link)
    for name, options in links_of(stored):
        check_options(own.get(name) or known(name), options)
    lost = tuple(f"the source of tools `{source.name}`, which is started again" for source in outfit.sources)
    returned = SessionReturned(
        records, seats, changed, gone, revision, _without(stored, plugins, judge), lost if stored.turns else (), pause
    )
    states = tuple(state for _, state in row[: len(stored.seats)])
    return stored.but(plugin_states=states), outfit, returned


def _last_revision(stored: State) -> int:
    """Return the highest number of a change of plugins or tools that the session remembers."""
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


def _seated(stored: State, seat: Seat, plugins: Mapping[str, AnyPlugin], judge: Live) -> tuple[Seat, object]:
    """Return the seat of a plugin as it is now, and what the plugin remembers."""
    place = stored.seats.index(seat)
    state = stored.plugin_states[place]
    plugin = plugins.get(seat.key)
    if plugin is None:
        raise PluginMismatch(stored.session_id, seat.key, "it is not in the specification")
    if plugin.version < seat.version:
        problem = f"its state was written by version {seat.version}, and the code is version {plugin.version}"
        raise PluginMismatch(stored.session_id, seat.key, problem)
    plugin = _with_options(stored.session_id, seat.key, plugin, seat.options)
    if plugin.version == seat.version:
        state = revived(stored.session_id, seat.key, plugin, state)
    judge.seat(seat.key, seat.revision, plugin)
    return seat_for(seat.key, plugin, seat.revision), state


def _with_options(session_id: str, key: str, plugin: AnyPlugin, stored: JsonObject) -> AnyPlugin:
    """Return *plugin* with the options that the session has recorded."""
    now = options_of(plugin)
    changed = {name: found for name, found in stored.items() if name in now and now[name] != found}
    if not changed:
        return plugin
    hints = {field.alias: field.hint for field in fields_of(type(plugin))}
    try:
        given = {name: decode(hints[name], found) for name, found in changed.items()}
        return updated(plugin, given)
    except Exception as error:  # a class may refuse options as it likes
        raise PluginMismatch(session_id, key, f"it does not take its stored options: {error}") from error


def _joining(stored: State, plugins: Mapping[str, AnyPlugin], judge: Live, revision: int) -> list[tuple[Seat, object]]:
    """Return the seats of plugins that the session has never had."""
    had = {seat.key for seat in stored.seats} | {change.key for change in stored.changes} | {*stored.gone_plugins}
    joining: list[tuple[Seat, object]] = []
    for key, plugin in plugins.items():
        if key not in had:
            judge.seat(key, revision, plugin)
            joining.append((seat_for(key, plugin, revision), None))
    return joining


def _without(stored: State, plugins: Mapping[str, AnyPlugin], judge: Live) -> tuple[str, ...]:
    """Make the code known of plugins whose change waits, and return the keys of those that have none."""
    missing: list[str] = []
    for change in stored.changes:
        if change.seat is None:
            continue
        plugin = plugins.get(change.key)
        if plugin is None:
            missing.append(change.key)
        else:
            new = _with_options(stored.session_id, change.key, plugin, change.seat.options)
            judge.seat(change.key, change.seat.revision, new)
    return tuple(missing)


# Tools


def _compared(
    stored: State, tools: Mapping[str, Tool], sources: Collection[str]
) -> tuple[tuple[ToolSpec, ...], tuple[str, ...]]:
    """Return the tools that are new or have changed, and the names of those that nobody has any more."""
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


def _code(
    stored: State, tools: Mapping[str, Tool], changed: Iterable[ToolSpec], revision: int
) -> dict[tuple[str, int], Tool]:
    """Return the code of the tools by name and revision: those that are as they were keep theirs."""
    others = {spec.name for spec in changed}
    kept = {
        (name, attached.revision): tools[name]
        for name, attached in stored.tools.items()
        if name in tools and name not in others
    }
    return kept | {(name, revision): tools[name] for name in others}
