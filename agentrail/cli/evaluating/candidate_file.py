"""`candidate_in`: the plugins in a file that a back-test is to try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import cast

from agentrail import SessionSpec
from agentrail.adapters.python_file import load
from agentrail.cli.command_options import NamedAgent
from agentrail.cli.output.bad_input import BadInputError
from agentrail.plugins import AnyPlugin, Keyed
from agentrail.what_if.candidates import PluginsOf

Plugins = Sequence[AnyPlugin | Keyed]


def candidate_in(named: NamedAgent) -> Plugins | PluginsOf:
    """Return the plugins that the file has under the name, or a function that returns them for a session.

    Without a name, they are those of its first `SessionSpec`, else all that it makes. Raise `BadInputError` if there
    are none.
    """
    file, name = named
    try:
        members = vars(load(file))
    except ImportError as error:
        raise BadInputError(f"--plugins {file}: {error}") from None
    if name:
        return _plugins_of(members.get(name), f"--plugins {file}:{name}")
    for value in members.values():
        if isinstance(value, SessionSpec):
            return list(value.plugins)
    plugins = [plugin for value in members.values() for plugin in _listed(value)]
    if not plugins:
        raise BadInputError(f"--plugins {file}: it makes no plugin, and has no SessionSpec")
    return list({id(plugin): plugin for plugin in plugins}.values())


def _plugins_of(value: object, what: str) -> Plugins | PluginsOf:
    if isinstance(value, SessionSpec):
        return list(value.plugins)
    plugins = _listed(value)
    if plugins:
        return plugins
    if callable(value) and not isinstance(value, type):
        if len(signature(value).parameters) == 1:
            return cast("PluginsOf", value)
        return _plugins_of(cast("Callable[[], object]", value)(), what)
    raise BadInputError(f"{what} is no SessionSpec, no plugins, and no function that returns such")


def _listed(value: object) -> list[AnyPlugin | Keyed]:
    """Return the plugins in *value*: itself, or all in a list or tuple of plugins; none if it has anything else."""
    group = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
    plugins = [plugin for plugin in group if isinstance(plugin, AnyPlugin | Keyed)]
    return plugins if len(plugins) == len(group) else []
