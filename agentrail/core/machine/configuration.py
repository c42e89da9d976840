"""Changes of a living session: its title and labels, its model, its tools and its plugins."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

from agentrail.core.machine.deferred_tools import tell_changes
from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.state import AttachedTool, Phase, PluginChange
from agentrail.errors import ToolExists, UnknownPlugin, UnknownTool, UsageError
from agentrail.hooks.actions import Answered, ChangeTools, Failed
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.hook_types import BeforePluginOptsUpdate, Hook
from agentrail.hooks.ruling import Ruling, Verdict
from agentrail.values.events.life import FilesRewound, LabelsChanged
from agentrail.values.events.plugins import PluginAttached, PluginDetached, PluginOptsUpdated
from agentrail.values.events.tools import ToolAttached, ToolDetached, ToolsUpdated

REPORTS: Final = {"update": PluginOptsUpdated, "attach": PluginAttached, "detach": PluginDetached}
"""Event that reports the outcome, by kind of plugin change."""


MAX_PATHS: Final = 100
"""The most paths that the event of a rewind names."""

MAX_LABELS: Final = 64
"""The most labels of one session."""


def on_label(draft: StepDraft, command: commands.LabelSent) -> None:
    """Handle `label`: change title and labels; refuse it if there would be too many labels."""
    state = draft.state
    labels = tuple(sorted({*state.labels}.difference(command.remove).union(command.add)))
    if len(labels) > MAX_LABELS:
        draft.refuse(UsageError("too-many-labels", len(labels), MAX_LABELS))
        return
    draft.answer = commands.DONE
    title = state.title if command.title is None else command.title
    if (title, labels) != (state.title, state.labels):
        state.title, state.labels = title, labels
        draft.emit(LabelsChanged(title, labels))


def on_files_rewound(draft: StepDraft, command: commands.FilesRewoundSent) -> None:
    """Report files that `rewind` has brought back."""
    draft.answer = commands.DONE
    if command.count:
        paths = tuple([file.path for file in command.rewound.files[:MAX_PATHS]])
        draft.emit(FilesRewound(command.since, paths, command.count))


def on_switch_model(draft: StepDraft, command: commands.SwitchModelSent) -> None:
    """Handle `switch_model`: use the model from the next turn on."""
    draft.answer = commands.DONE
    draft.switch_model(command.model, command.options, None, command.spares, command.priced)


def on_change_tools(draft: StepDraft, command: commands.ChangeToolsSent) -> None:
    """Attach and detach tools; if one of the changes is impossible, refuse all."""
    state = draft.state
    for name in command.detach:
        if name not in state.tools:
            draft.refuse(UnknownTool.among(name, state.tools))
            return
    closed = tuple(
        name for name, attached in state.tools.items() if attached.source and attached.source in command.closed
    )
    detach = tuple(dict.fromkeys((*command.detach, *closed)))
    leaving = frozenset(detach)
    tools = {name: attached for name, attached in state.tools.items() if name not in leaving}
    for spec in command.attach:
        if spec.name in tools and not command.replace:
            draft.refuse(ToolExists(spec.name))
            return
        tools[spec.name] = AttachedTool(spec, command.revision, command.source)
    draft.answer = commands.DONE
    if not command.source:
        state.removed_tools = removed_names(state.removed_tools, (*detach, *command.closed), tools)
    elif command.source in state.removed_tools:  # the source has been attached again since
        state.removed_tools = tuple(name for name in state.removed_tools if name != command.source)
    put_tools(draft, tools)
    report_tools(draft, tuple([spec.name for spec in command.attach]), detach, command.source, command.problems)


def change_for(draft: StepDraft, key: str, tool_change: ChangeTools) -> Answered | Failed:
    """Attach and detach tools for the plugin *key*, all or none; return the answer for the plugin."""
    state = draft.state
    unknown = next((name for name in tool_change.detach if name not in state.tools), None)
    if unknown is not None:
        return Failed(f"there is no tool `{unknown}`")
    attached = next(attached for attached in state.plugins if attached.key == key)
    brought = {spec.name: AttachedTool(spec, attached.revision, plugin=key) for spec in attached.tools}
    tools = {name: tool for name, tool in state.tools.items() if name not in tool_change.detach}
    for name in tool_change.attach:
        if name not in brought:
            return Failed(f"`{key}` brings no tool `{name}`; name it in its `BroughtTools`")
        if name in tools and tools[name].plugin != key:
            return Failed(f"there is another tool `{name}`")
        tools[name] = brought[name]
    attach = tuple([name for name in dict.fromkeys(tool_change.attach) if state.tools.get(name) != tools[name]])
    detach = tuple(dict.fromkeys(tool_change.detach))
    if attach or detach:
        state.removed_tools = removed_names(state.removed_tools, detach, tools)
        put_tools(draft, tools)
        report_tools(draft, attach, detach, key)
    return Answered(None)


def report_tools(
    draft: StepDraft, attach: tuple[str, ...], detach: tuple[str, ...], source: str, problems: tuple[str, ...] = ()
) -> None:
    """Emit events for tools that were attached and detached."""
    draft.emit(*map(ToolDetached, detach), *map(ToolAttached, attach), ToolsUpdated(attach, detach, source, problems))


def put_tools(draft: StepDraft, tools: Mapping[str, AttachedTool]) -> None:
    """Set the session's tools; approvals "for always" of a changed tool of a source end.

    The model is told of found tools that have changed.
    """
    state = draft.state
    renewed = {
        name
        for name, _ in state.approved_always
        if (old := state.tools.get(name)) and (old.source or old.plugin) and not _is_same(old, tools.get(name))
    }
    state.approved_always = frozenset(pair for pair in state.approved_always if pair[0] not in renewed)
    state.standing_approvals = tuple(approval for approval in state.standing_approvals if approval.tool not in renewed)
    replaced, state.tools = state.tools, tools
    tell_changes(draft, replaced)


def _is_same(old: AttachedTool, new: AttachedTool | None) -> bool:
    """Whether two attached tools differ in their revision at most."""
    return new is not None and old == new.but(revision=old.revision)


def removed_names(removed: tuple[str, ...], more: Iterable[str], present: Container[str]) -> tuple[str, ...]:
    """Return the names removed so far, so that recovery does not add them again from the specification."""
    return tuple(name for name in dict.fromkeys((*removed, *more)) if name not in present)


# Plugins


def on_update_plugin(draft: StepDraft, command: commands.UpdatePluginSent) -> None:
    """Handle `update_plugin`: queue new options for a plugin; later ones replace earlier ones."""
    _queue(draft, PluginChange("update", command.attached.key, command.attached, command.options))


def on_attach_plugin(draft: StepDraft, command: commands.AttachPluginSent) -> None:
    """Handle `attach_plugin`: queue a plugin to add."""
    _queue(draft, PluginChange("attach", command.attached.key, command.attached))


def on_detach_plugin(draft: StepDraft, command: commands.DetachPluginSent) -> None:
    """Handle `detach_plugin`: queue a plugin to remove."""
    _queue(draft, PluginChange("detach", command.key))


def _queue(draft: StepDraft, change: PluginChange) -> None:
    """Queue a plugin change; refuse it if the plugin to attach is there already, or the other one is not."""
    state = draft.state
    keys = _keys_to_be(draft)
    if change.kind == "attach" and change.key in keys:
        draft.refuse(UsageError("plugin-exists", change.key))
        return
    if change.kind != "attach" and change.key not in keys:
        draft.refuse(UnknownPlugin.among(change.key, keys))
        return
    draft.answer = commands.DONE
    last_wins = tuple(
        old for old in state.plugin_changes if not (old.kind == change.kind == "update" and old.key == change.key)
    )
    state.plugin_changes = (*last_wins, change)
    if state.phase is Phase.IDLE and state.turn is None:
        draft.settles = True


def drop_changes(draft: StepDraft) -> None:
    """Drop the queued plugin changes because the session ends, and report each."""
    waiting, draft.state.plugin_changes = draft.state.plugin_changes, ()
    for change in waiting:
        event_class = REPORTS[change.kind]
        draft.emit(event_class(change.key, success=False, error="the session has ended"))


def _keys_to_be(draft: StepDraft) -> list[str]:
    """Return the keys that the session's plugins will have after all queued changes."""
    keys = [attached.key for attached in draft.state.plugins]
    for change in draft.state.plugin_changes:
        if change.kind == "attach":
            keys.append(change.key)
        elif change.kind == "detach" and change.key in keys:
            keys.remove(change.key)
    return keys


def change_plugins(draft: StepDraft) -> None:
    """Apply the first queued plugin change; other plugins are asked first about new options."""
    state = draft.state
    change = state.plugin_changes[0]
    if change.kind == "update":
        draft.due.appendleft(("before_plugin_opts_update", change.key))
        return
    state.plugin_changes = state.plugin_changes[1:]
    if change.kind == "attach" and change.attached is not None:
        _attach(draft, change.attached)
    else:
        _detach(draft, change.key)
    draft.settles = True


def _attach(draft: StepDraft, attached: AttachedPlugin) -> None:
    """Attach a plugin now: let it make its first state, and report success or failure."""
    state = draft.state
    ruling = draft.hook_runner.init(attached, draft.context)
    draft.rulings.append(ruling)
    if ruling.verdict is not Verdict.PASS:
        draft.emit(PluginAttached(attached.key, success=False, error=ruling.reason))
        return
    _insert(draft, attached, ruling)
    state.removed_plugins = removed_names(state.removed_plugins, (), (attached.key,))
    draft.emit(PluginAttached(attached.key))


def _detach(draft: StepDraft, key: str) -> None:
    """Detach the plugin *key* now, with the tools that it brought, and report it."""
    state = draft.state
    index = _index_of(draft, key)
    if index is None:
        draft.emit(PluginDetached(key, success=False, error="it was never attached"))
        return
    _detach_at(draft, index)
    state.removed_plugins = removed_names(state.removed_plugins, (key,), ())
    draft.emit(PluginDetached(key))
    theirs = tuple(name for name, attached in state.tools.items() if attached.plugin == key)
    if theirs:
        put_tools(draft, {name: attached for name, attached in state.tools.items() if name not in theirs})
        report_tools(draft, (), theirs, key)


def _insert(draft: StepDraft, attached: AttachedPlugin, ruling: Ruling) -> None:
    """Insert a plugin into the session's list, after all of the same priority; *ruling* has its first state."""
    state = draft.state
    index = sum(other.priority <= attached.priority for other in state.plugins)
    state.plugins = (*state.plugins[:index], attached, *state.plugins[index:])
    state.plugin_states = (*state.plugin_states[:index], ruling.states[0][1], *state.plugin_states[index:])


def _detach_at(draft: StepDraft, index: int) -> None:
    """Remove the plugin at *index*, and its state."""
    state = draft.state
    state.plugins = (*state.plugins[:index], *state.plugins[index + 1 :])
    state.plugin_states = (*state.plugin_states[:index], *state.plugin_states[index + 1 :])


def _index_of(draft: StepDraft, key: str) -> int | None:
    """Return the index of the plugin *key*; `None` if the session does not have it."""
    return next((index for index, attached in enumerate(draft.state.plugins) if attached.key == key), None)


def begin_opts_update(draft: StepDraft, key: str) -> Hook | None:
    """Build the hook that asks the other plugins about new options of one."""
    state = draft.state
    change = state.plugin_changes[0]
    index = _index_of(draft, key)
    problem = "it was never attached" if index is None else ""
    if index is not None and change.attached is not None and change.attached.plugin != state.plugins[index].plugin:
        problem = f"they are for a `{change.attached.plugin}`, which another plugin has replaced"
    if problem:
        state.plugin_changes = state.plugin_changes[1:]
        draft.emit(PluginOptsUpdated(key, success=False, error=problem))
        draft.settles = True
        return None
    return BeforePluginOptsUpdate(key, change.options)


def finish_opts_update(draft: StepDraft, key: str, _hook: Hook, ruling: Ruling) -> None:
    """Apply new options, or report which plugin refused them."""
    state = draft.state
    change, state.plugin_changes = state.plugin_changes[0], state.plugin_changes[1:]
    index = _index_of(draft, key)
    draft.settles = True
    if ruling.verdict is not Verdict.PASS:
        error = f"{ruling.by} refused: {ruling.reason}" if ruling.reason else f"{ruling.by} refused"
        draft.emit(PluginOptsUpdated(key, success=False, error=error))
        return
    if index is None or change.attached is None:
        return
    decided = draft.hook_runner.options(change.attached, state.plugin_states[index], change.options)
    draft.rulings.append(decided)
    if decided.verdict is not Verdict.PASS:
        draft.emit(PluginOptsUpdated(key, success=False, error=decided.reason))
        return
    if change.attached.priority == state.plugins[index].priority:
        state.plugins = (*state.plugins[:index], change.attached, *state.plugins[index + 1 :])
        state.plugin_states = (*state.plugin_states[:index], decided.states[0][1], *state.plugin_states[index + 1 :])
    else:
        _detach_at(draft, index)
        _insert(draft, change.attached, decided)
    draft.emit(PluginOptsUpdated(key, success=True))
