"""`ask_plugins`: has a row of plugins rule on one hook, as a session would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from agentrail.hooks.attachments import AttachedPlugin, attached_plugin, in_order, refuse_twins, unkeyed
from agentrail.hooks.context import Context
from agentrail.hooks.hook_runner import PluginRow
from agentrail.hooks.hook_types import Hook
from agentrail.hooks.live_runner import LiveRunner
from agentrail.hooks.plugin import Attachable
from agentrail.hooks.ruling import Ruling
from agentrail.testing.probe_plugins import can_store
from agentrail.values.argument_checks import checked

NO_STATES: Final[Mapping[str, object]] = MappingProxyType({})
NO_CONTEXT: Final = Context()


@checked
def ask_plugins(
    plugins: Sequence[Attachable],
    hook: Hook,
    *,
    states: Mapping[str, object] = NO_STATES,
    context: Context = NO_CONTEXT,
) -> Ruling:
    """Return how *plugins* rule on *hook* together, in the order of their priorities.

    *states* are their states by key; of those that are not there, the ones that `init` makes.
    """
    keyed = dict(map(unkeyed, plugins))
    refuse_twins([unkeyed(plugin)[0] for plugin in plugins])
    runner = LiveRunner(can_store)
    row: list[AttachedPlugin] = []
    for key, plugin in keyed.items():
        runner.attach(key, 0, plugin)
        row.append(attached_plugin(key, plugin))
    ordered = tuple([row[index] for index in in_order(tuple(row))])
    row_states: list[object] = []
    for attached in ordered:
        if attached.key in states:
            row_states.append(states[attached.key])
        else:
            first = runner.init(attached, lambda: context)
            row_states.append(first.states[0][1] if first.states else None)
    return runner.run(hook, PluginRow(ordered, tuple(row_states)), lambda: context)
