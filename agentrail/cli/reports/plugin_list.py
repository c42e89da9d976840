"""`agentrail plugins`: the plugins of an agent in the order in which they are asked, and whether that order matters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from agentrail.app.session_code import attachments
from agentrail.app.spec import SessionSpec
from agentrail.cli.agents.chosen_agent import spec_of
from agentrail.cli.chat_options import ChatOptions
from agentrail.cli.command_options import NamedAgent
from agentrail.cli.output.exit_status import DONE, json_line
from agentrail.cli.output.screen import ERASE, clean, clipped, one_line
from agentrail.cli.settings.default_agent import Mode
from agentrail.codec.json_text import to_text
from agentrail.hooks.attachments import AttachedPlugin, attached_plugin, in_order, unkeyed
from agentrail.hooks.hook_types import HOOKS
from agentrail.hooks.plugin import ON_EVENT, SCREEN
from agentrail.testing.turns.orders import OrderMatters, order_report
from agentrail.values.json import JsonObject
from agentrail.values.value import Value

WIDTH: Final = 110
"""Columns of a line."""

SETTLED: Final = {True: "their priorities settle it", False: "the order in `plugins=[…]` settles it"}
"""What decides who of two is asked first, by whether their priorities differ."""


class ListedPlugins(Value, gc=True):
    """The plugins of an agent, and the pairs of them whose order matters."""

    attached_plugins: tuple[AttachedPlugin, ...]
    """The plugins, in the order in which they are asked."""
    orders: tuple[OrderMatters, ...]
    """Pairs of them, and hooks, for which the order matters."""
    examples: int
    """How many scripts were played with each pair; 0 if none was."""


def main(agent: NamedAgent | None, folder: Path | None, mode: Mode | None, examples: int, *, as_json: bool) -> int:
    """Print the plugins of the agent in their order, and return the exit status."""
    plugins = listed_plugins(spec_of(ChatOptions(agent, folder=folder, mode=mode)), examples)
    for line in _json_lines(plugins) if as_json else _lines(plugins):
        print(line)
    return DONE


def listed_plugins(spec: SessionSpec, examples: int) -> ListedPlugins:
    """Return the plugins of *spec*; test with *examples* scripts for each pair whether their order matters."""
    keyed = attachments(spec)
    attached_plugins = tuple(attached_plugin(key, plugin) for key, plugin in keyed)
    orders = order_report(spec.plugins, examples=examples, progress=_show_progress) if examples else ()
    if sys.stderr.isatty():
        print(ERASE, end="", file=sys.stderr, flush=True)
    return ListedPlugins(tuple(attached_plugins[index] for index in in_order(attached_plugins)), orders, examples)


def _show_progress(count: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"{ERASE}orders: {count} of {total} pairs", end="", file=sys.stderr, flush=True)


def _hooks(attached: AttachedPlugin) -> list[str]:
    """Return the names of the hooks that a plugin has, in the order in which they run in a turn."""
    return [name for name in (*(hook.hook_name for hook in HOOKS), ON_EVENT, SCREEN) if name in attached.hooks]


def _lines(plugins: ListedPlugins) -> list[str]:
    if not plugins.attached_plugins:
        return ["This agent has no plugins."]
    lines: list[str] = []
    for number, attached in enumerate(plugins.attached_plugins, 1):
        critical = ", critical: its failure stops what it rules on" if attached.critical else ""
        lines.append(f"{number}. {clean(attached.key)} ({attached.plugin}), priority {attached.priority}{critical}")
        lines.append(f"   hooks: {', '.join(_hooks(attached)) or 'none'}")
        for name, value in attached.options.items():
            lines.append(clipped(f"   {name} = {one_line(clean(to_text(value)))}", WIDTH))
    return [*lines, "", *_order_lines(plugins)]


def _order_lines(plugins: ListedPlugins) -> list[str]:
    if not plugins.examples:
        return ["Whether their order matters was not tried."]
    if len(plugins.attached_plugins) == 1:
        return ["There is one plugin, so no order of two can matter."]
    tried = f"{plugins.examples:,} random scripts for each two of them"
    if not plugins.orders:
        return [f"Their order made no difference in {tried}."]
    lines = [f"Where their order matters, by {tried}:"]
    for matters in plugins.orders:
        first, second = unkeyed(matters.first)[0], unkeyed(matters.second)[0]
        lines.append(f"  {matters.hook}: {first} is asked before {second}; {SETTLED[matters.settled]}")
    return [*lines, "`agentrail.testing.order_report` gives a script for each, with what happens in both orders."]


def _json_lines(plugins: ListedPlugins) -> list[str]:
    rows: list[JsonObject] = [
        {
            "plugin": attached.key,
            "class": attached.plugin,
            "priority": attached.priority,
            "critical": attached.critical,
            "hooks": _hooks(attached),
            "options": attached.options,
        }
        for attached in plugins.attached_plugins
    ]
    rows += [
        {
            "first": unkeyed(matters.first)[0],
            "second": unkeyed(matters.second)[0],
            "hook": matters.hook,
            "settled_by_priority": matters.settled,
        }
        for matters in plugins.orders
    ]
    return [json_line(row) for row in rows]
