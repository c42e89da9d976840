"""`Candidate`: the plugins that sessions are tested with, and what each session gets of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Final, TypeGuard, cast

from agentrail.app.spec import SpecWanted
from agentrail.codec import plugin_states, plugin_types
from agentrail.core.vocabulary.state import State
from agentrail.errors import UnknownPlugin, UsageError, WrongType
from agentrail.hooks.attachments import AttachedPlugin, class_name, implemented, options_of, refuse_twins, unkeyed
from agentrail.hooks.declarations import BroughtTools, UsageLimits, WorkTime
from agentrail.hooks.live_runner import LiveRunner
from agentrail.hooks.plugin import SCREEN, AnyPlugin, Attachable, find_declaration
from agentrail.insight.candidate_row import CandidateRow
from agentrail.plugins import SecurityGuard
from agentrail.runtime.access.code_changes import updated
from agentrail.values.untrusted_values import described

Options = Mapping[str, Mapping[str, object]]
"""Options that change, by the key of the plugin and the name of the option."""

PluginsOf = Callable[[SpecWanted], Sequence[Attachable]]
"""Function that returns the plugins for a stored session."""

BUILT_IN: Final = "agentrail.plugins."
"""How the modules of the plugins begin that can be made of their stored options."""

SHIPPED: Final = "agentrail.plugins"
"""Where their names are."""

_SET_BY_SESSION: Final = "confined_tools"
"""The option of `SecurityGuard` that a session sets by its sandbox."""


class NoCodeError(Exception):
    """A session cannot be tested, because the code of one of its plugins is not here."""


class Candidate:
    """Plugins, or those that each session had, some with other options."""

    def __init__(self, plugins: Sequence[Attachable] | PluginsOf | None, options: Options) -> None:
        _check_options(options)
        if plugins is None and not options:
            raise UsageError("no-candidate")
        self._options = {key: dict(names) for key, names in options.items()}
        self._plugins_of = plugins if callable(plugins) else None
        self._row = None if plugins is None or callable(plugins) else self._rowed(plugins)

    @property
    def modules(self) -> frozenset[str]:
        """The modules that other processes need for it."""
        makers = [self._plugins_of] if self._plugins_of is not None else map(type, (self._row or {}).values())
        return frozenset(maker.__module__ for maker in makers)

    def _rowed(self, plugins: Sequence[Attachable]) -> Mapping[str, AnyPlugin]:
        """Return *plugins* by key, with the options that change."""
        _check_list(plugins)
        keyed = [unkeyed(plugin) for plugin in plugins]
        refuse_twins([key for key, _ in keyed])
        row = dict(keyed)
        for key in self._options:
            if key not in row:
                raise UnknownPlugin.among(key, row)
        return {key: self._with_options(key, plugin) for key, plugin in row.items()}

    def _with_options(self, key: str, plugin: AnyPlugin) -> AnyPlugin:
        """Return the plugin *key* with the options that change."""
        options = self._options.get(key)
        if not options:
            return plugin
        try:
            return updated(plugin, options)
        except Exception as error:
            raise UsageError("bad-candidate", key, described(error)) from error

    def row_for(self, state: State) -> tuple[CandidateRow, tuple[str, ...]]:
        """Return the plugins for a session that begins with *state*, and what cannot be compared exactly with them.

        Raise `NoCodeError` if the code of one of its own plugins is needed, and not here.
        """
        row = self._row
        if self._plugins_of is not None:
            setup = state.setup
            request = SpecWanted(state.session_id, setup.spec, setup.tenant, setup.owner, setup.user_data, state)
            row = self._rowed(self._plugins_of(request))
        is_own = row is None or (self._plugins_of is None and bool(state.setup.path))
        session_plugins = _SessionPlugins(row or {}, self._with_options, is_own=is_own)
        for attached in state.plugins:
            session_plugins.find(attached)
        recorded = {attached.key for attached in state.plugins}
        added = {} if is_own else {key: plugin for key, plugin in (row or {}).items() if key not in recorded}
        runner = LiveRunner(_storable, data=plugin_states.data_of)
        candidates = {**added, **session_plugins.made}
        notes = [
            f"it has no plugin `{key}`, whose options were to change" for key in self._options if key not in candidates
        ]
        candidate_row = CandidateRow(runner, session_plugins.find, MappingProxyType(added))
        runner.complain = candidate_row.note_failure
        return candidate_row, (*notes, *_inexact(state, candidates))


def _check_list(plugins: object) -> None:
    """Raise `WrongType` unless *plugins* are several."""
    if isinstance(plugins, str) or not isinstance(plugins, Iterable):
        raise WrongType.of("plugins", plugins, "a list of plugins, or a function of a `SpecWanted`")


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _check_options(options: object) -> None:
    """Raise `WrongType` unless *options* are other options of plugins."""
    if not _is_mapping(options) or not all(map(_is_mapping, options.values())):
        raise WrongType.of("options", options, "a mapping of plugins' keys to mappings of their options")


class _SessionPlugins:
    """The plugins that take the place of those of one session."""

    def __init__(
        self, row: Mapping[str, AnyPlugin], with_options: Callable[[str, AnyPlugin], AnyPlugin], *, is_own: bool
    ) -> None:
        self._row = row
        self._with_options = with_options
        self._is_own = is_own
        """Whether plugins that are not in the row stay as the session had them: so it is with sub-agents."""
        self._found: dict[tuple[str, int], AnyPlugin | None] = {}

    @property
    def made(self) -> Mapping[str, AnyPlugin]:
        """The plugins so far, by key."""
        return {key: plugin for (key, _), plugin in self._found.items() if plugin is not None}

    def find(self, attached: AttachedPlugin) -> AnyPlugin | None:
        """Return the plugin in the place of *attached*, with the options that were changed at run time."""
        key = attached.key, attached.revision
        if key not in self._found:
            self._found[key] = self._make(attached)
        return self._found[key]

    def _make(self, attached: AttachedPlugin) -> AnyPlugin | None:
        plugin = self._row.get(attached.key)
        if plugin is not None:
            return as_changed(plugin, attached)
        if not self._is_own:
            return None
        return self._with_options(attached.key, rebuilt(attached))


def as_changed(plugin: AnyPlugin, attached: AttachedPlugin) -> AnyPlugin:
    """Return *plugin* with the options that the session has changed at run time, and what it sets by its sandbox."""
    here, hints = options_of(plugin), plugin_types.hints_of(type(plugin))
    names = [name for name in attached.changed if name in here and name in attached.options and name in hints]
    if attached.plugin == class_name(plugin) and isinstance(plugin, SecurityGuard) and not plugin.confined_tools:
        names.append(_SET_BY_SESSION)
    changed = {name: attached.options[name] for name in names if attached.options[name] != here.get(name)}
    if not changed:
        return plugin
    return updated(plugin, {name: plugin_types.decode_state(hints[name], value) for name, value in changed.items()})


def rebuilt(attached: AttachedPlugin) -> AnyPlugin:
    """Return the plugin *attached* as its stored options make it; raise `NoCodeError` if it does not ship."""
    module, _, name = attached.plugin.partition(":")
    cls: object = getattr(import_module(SHIPPED), name, None) if module.startswith(BUILT_IN) else None
    if not isinstance(cls, type) or not issubclass(cls, AnyPlugin):
        problem = f"its plugin `{attached.key}` is `{attached.plugin}`, whose code is not here: give it in `plugins`"
        raise NoCodeError(problem)
    hints = plugin_types.hints_of(cls)
    try:
        options = {
            option: plugin_types.decode_state(hints[option], value) for option, value in attached.options.items()
        }
        return cast("Callable[..., AnyPlugin]", cls)(**options)
    except Exception as error:  # a class refuses options by any exception
        raise NoCodeError(
            f"its plugin `{attached.key}` does not take its stored options: {described(error)}"
        ) from error


def _storable(state: object) -> str | None:
    """Return why the plugin state cannot be stored; `None` if it can."""
    return None if state is None else plugin_states.storable(state)


def _inexact(state: State, plugins: Mapping[str, AnyPlugin]) -> Iterator[str]:
    """Yield what is not known of a session that begins with *state* with these *plugins*."""
    recorded = {attached.key: attached for attached in state.plugins}
    is_counted = any(attached.counts_work for attached in state.plugins)
    for key, plugin in plugins.items():
        was = recorded.get(key)
        is_new = was is None or was.plugin != class_name(plugin)
        differs = was is None or is_new or options_of(plugin) != was.options
        if differs and SCREEN in implemented(plugin):
            yield f"`{key}` screens texts, and the records have them as they were screened then"
        if is_new and find_declaration(plugin, BroughtTools) is not None:
            yield f"`{key}` brings tools that the session did not have"
        limits = find_declaration(plugin, UsageLimits)
        if differs and limits is not None:
            yield f"the limits of `{key}` are compared at its hooks alone, and not before each request is sent"
        counts_work = find_declaration(plugin, WorkTime) is not None or (limits is not None and limits.counts_work)
        if counts_work and not is_counted:
            yield f"`{key}` asks for how long the session has worked, which was not counted"
        if is_new and isinstance(plugin, SecurityGuard) and not plugin.confined_tools:
            yield f"whether commands ran in a sandbox that hides what `{key}` blocks is not stored"
