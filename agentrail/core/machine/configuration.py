"""Changes of a living session: its title and labels, its model, its tools and its plugins."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

from agentrail.core.cache_prefix import altered_tools
from agentrail.core.machine.deferred_tools import tell_changes
from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.state import Attached, Phase, PluginChange
from agentrail.errors import PluginExists, ToolExists, TooManyLabels, UnknownPlugin, UnknownTool
from agentrail.hooks.actions import Answered, ChangeTools, Failed
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.hook_types import BeforePluginOptsUpdate, Hook
from agentrail.hooks.ruling import Ruling, Verdict
from agentrail.values.events.life import LabelsChanged
from agentrail.values.events.plugins import PluginAttached, PluginDetached, PluginOptsUpdated
from agentrail.values.events.tools import ToolAttached, ToolDetached, ToolsUpdated

REPORTS: Final = {"update": PluginOptsUpdated, "attach": PluginAttached, "detach": PluginDetached}
"""Event that reports the outcome, by kind of plugin change."""


MOST_LABELS: Final = 64
"""The most labels of one session."""


def on_label(w: StepDraft, command: commands.LabelSent) -> None:
    """Handle `label`: change title and labels; refuse it if there would be too many labels."""
    s = w.s
    labels = tuple(sorted({*s.labels}.difference(command.remove).union(command.add)))
    if len(labels) > MOST_LABELS:
        w.refuse(TooManyLabels(len(labels), MOST_LABELS))
        return
    w.answer = commands.DONE
    title = s.title if command.title is None else command.title
    if (title, labels) != (s.title, s.labels):
        s.title, s.labels = title, labels
        w.emit(LabelsChanged(title, labels))


def on_switch_model(w: StepDraft, command: commands.SwitchModelSent) -> None:
    """Handle `switch_model`: use the model from the next turn on."""
    w.answer = commands.DONE
    w.switch_model(command.model, command.options, None, command.spares, command.priced)


def on_change_tools(w: StepDraft, command: commands.ChangeToolsSent) -> None:
    """Attach and detach tools; if one of the changes is impossible, refuse all."""
    s = w.s
    for name in command.detach:
        if name not in s.tools:
            w.refuse(UnknownTool.among(name, s.tools))
            return
    closed = tuple(name for name, attached in s.tools.items() if attached.source and attached.source in command.closed)
    detach = tuple(dict.fromkeys((*command.detach, *closed)))
    leaving = frozenset(detach)
    tools = {name: attached for name, attached in s.tools.items() if name not in leaving}
    for spec in command.attach:
        if spec.name in tools and not command.replace:
            w.refuse(ToolExists(spec.name))
            return
        tools[spec.name] = Attached(spec, command.revision, command.source)
    w.answer = commands.DONE
    if not command.source:
        s.gone_tools = gone(s.gone_tools, (*detach, *command.closed), tools)
    elif command.source in s.gone_tools:  # the source has been attached again since
        s.gone_tools = tuple(name for name in s.gone_tools if name != command.source)
    put_tools(w, tools, command.source)
    _report(w, tuple([spec.name for spec in command.attach]), detach, command.source, command.problems)


def change_for(w: StepDraft, key: str, tool_change: ChangeTools) -> Answered | Failed:
    """Attach and detach tools as the plugin *key* asks; if one of the changes is impossible, make none and say why."""
    s = w.s
    unknown = next((name for name in tool_change.detach if name not in s.tools), None)
    if unknown is not None:
        return Failed(f"there is no tool `{unknown}`")
    seat = next(seat for seat in s.seats if seat.key == key)
    brought = {spec.name: Attached(spec, seat.revision, plugin=key) for spec in seat.tools}
    tools = {name: attached for name, attached in s.tools.items() if name not in tool_change.detach}
    for name in tool_change.attach:
        if name not in brought:
            return Failed(f"`{key}` brings no tool `{name}`; name it in its `BroughtTools`")
        if name in tools and tools[name].plugin != key:
            return Failed(f"there is another tool `{name}`")
        tools[name] = brought[name]
    attach = tuple([name for name in dict.fromkeys(tool_change.attach) if s.tools.get(name) != tools[name]])
    detach = tuple(dict.fromkeys(tool_change.detach))
    if attach or detach:
        s.gone_tools = gone(s.gone_tools, detach, tools)
        put_tools(w, tools, key)
        _report(w, attach, detach, key)
    return Answered(None)


def _report(
    w: StepDraft, attach: tuple[str, ...], detach: tuple[str, ...], source: str, problems: tuple[str, ...] = ()
) -> None:
    w.emit(*map(ToolDetached, detach), *map(ToolAttached, attach), ToolsUpdated(attach, detach, source, problems))


def put_tools(w: StepDraft, tools: Mapping[str, Attached], by: str = "") -> None:
    """Set the session's tools, as *by* wants; approvals "for always" of a source's tool end when it is changed.

    The model is told of found tools that have changed.
    """
    s = w.s
    w.note(altered_tools(s.tools, tools, by))
    renewed = {
        name
        for name, _ in s.approved_always
        if (before := s.tools.get(name)) and (before.source or before.plugin) and not _is_same(before, tools.get(name))
    }
    s.approved_always = frozenset(pair for pair in s.approved_always if pair[0] not in renewed)
    s.standing_approvals = tuple(approval for approval in s.standing_approvals if approval.tool not in renewed)
    replaced, s.tools = s.tools, tools
    tell_changes(w, replaced)


def _is_same(before: Attached, after: Attached | None) -> bool:
    return after is not None and before == after.but(revision=before.revision)


def gone(before: tuple[str, ...], more: Iterable[str], there: Container[str]) -> tuple[str, ...]:
    """Return the names removed so far, so that recovery does not add them again from the specification."""
    return tuple(name for name in dict.fromkeys((*before, *more)) if name not in there)


# Plugins


def on_update_plugin(w: StepDraft, command: commands.UpdatePluginSent) -> None:
    """Handle `update_plugin`: queue new options for a plugin; later ones replace earlier ones."""
    _queue(w, PluginChange("update", command.seat.key, command.seat, command.options))


def on_attach_plugin(w: StepDraft, command: commands.AttachPluginSent) -> None:
    """Handle `attach_plugin`: queue a plugin to add."""
    _queue(w, PluginChange("attach", command.seat.key, command.seat))


def on_detach_plugin(w: StepDraft, command: commands.DetachPluginSent) -> None:
    """Handle `detach_plugin`: queue a plugin to remove."""
    _queue(w, PluginChange("detach", command.key))


def _queue(w: StepDraft, change: PluginChange) -> None:
    s = w.s
    there = _keys_to_be(w)
    if change.kind == "attach" and change.key in there:
        w.refuse(PluginExists(change.key))
        return
    if change.kind != "attach" and change.key not in there:
        w.refuse(UnknownPlugin.among(change.key, there))
        return
    w.answer = commands.DONE
    last_wins = tuple(old for old in s.changes if not (old.kind == change.kind == "update" and old.key == change.key))
    s.changes = (*last_wins, change)
    if s.phase is Phase.IDLE and s.turn is None:
        w.next("settle")


def drop_changes(w: StepDraft) -> None:
    """Report queued plugin changes as dropped, because the session ends."""
    waiting, w.s.changes = w.s.changes, ()
    for change in waiting:
        event_class = REPORTS[change.kind]
        w.emit(event_class(change.key, success=False, error="the session has ended"))


def _keys_to_be(w: StepDraft) -> list[str]:
    """Return the keys of the plugins as they will be after all queued changes."""
    keys = [seat.key for seat in w.s.seats]
    for change in w.s.changes:
        if change.kind == "attach":
            keys.append(change.key)
        elif change.kind == "detach" and change.key in keys:
            keys.remove(change.key)
    return keys


def change_plugins(w: StepDraft, _: str) -> None:
    """Apply the first queued plugin change; other plugins are asked first about new options."""
    s = w.s
    change = s.changes[0]
    if change.kind == "update":
        w.next("before_plugin_opts_update", change.key)
        return
    s.changes = s.changes[1:]
    if change.kind == "attach" and change.seat is not None:
        _attach(w, change.seat)
    else:
        _detach(w, change.key)
    w.next("settle")


def _attach(w: StepDraft, seat: AttachedPlugin) -> None:
    s = w.s
    ruling = w.judge.init(seat, w.context)
    w.rulings.append(ruling)
    if ruling.verdict is not Verdict.PASS:
        w.emit(PluginAttached(seat.key, success=False, error=ruling.reason))
        return
    _seat(w, seat, ruling)
    s.gone_plugins = gone(s.gone_plugins, (), (seat.key,))
    w.emit(PluginAttached(seat.key))


def _detach(w: StepDraft, key: str) -> None:
    s = w.s
    place = _place(w, key)
    if place is None:
        w.emit(PluginDetached(key, success=False, error="it was never attached"))
        return
    _unseat(w, place)
    s.gone_plugins = gone(s.gone_plugins, (key,), ())
    w.emit(PluginDetached(key))
    theirs = tuple(name for name, attached in s.tools.items() if attached.plugin == key)
    if theirs:
        put_tools(w, {name: attached for name, attached in s.tools.items() if name not in theirs}, key)
        _report(w, (), theirs, key)


def _seat(w: StepDraft, seat: AttachedPlugin, ruling: Ruling) -> None:
    """Add a plugin to the row, behind all that have its priority; *ruling* has its state."""
    s = w.s
    place = sum(other.priority <= seat.priority for other in s.seats)
    s.seats = (*s.seats[:place], seat, *s.seats[place:])
    s.plugin_states = (*s.plugin_states[:place], ruling.states[0][1], *s.plugin_states[place:])


def _unseat(w: StepDraft, place: int) -> None:
    s = w.s
    s.seats = (*s.seats[:place], *s.seats[place + 1 :])
    s.plugin_states = (*s.plugin_states[:place], *s.plugin_states[place + 1 :])


def _place(w: StepDraft, key: str) -> int | None:
    return next((place for place, seat in enumerate(w.s.seats) if seat.key == key), None)


def begin_opts_update(w: StepDraft, key: str) -> Hook | None:
    """Build the hook that asks the other plugins about new options of one."""
    s = w.s
    change = s.changes[0]
    place = _place(w, key)
    problem = "it was never attached" if place is None else ""
    if place is not None and change.seat is not None and change.seat.plugin != s.seats[place].plugin:
        problem = f"they are for a `{change.seat.plugin}`, which another plugin has replaced"
    if problem:
        s.changes = s.changes[1:]
        w.emit(PluginOptsUpdated(key, success=False, error=problem))
        w.next("settle")
        return None
    return BeforePluginOptsUpdate(key, change.options)


def finish_opts_update(w: StepDraft, key: str, _hook: Hook, ruling: Ruling) -> None:
    """Apply new options, or report which plugin refused them."""
    s = w.s
    change, s.changes = s.changes[0], s.changes[1:]
    place = _place(w, key)
    w.next("settle")
    if ruling.verdict is not Verdict.PASS:
        error = f"{ruling.by} refused: {ruling.reason}" if ruling.reason else f"{ruling.by} refused"
        w.emit(PluginOptsUpdated(key, success=False, error=error))
        return
    if place is None or change.seat is None:
        return
    decided = w.judge.options(change.seat, s.plugin_states[place], change.options)
    w.rulings.append(decided)
    if decided.verdict is not Verdict.PASS:
        w.emit(PluginOptsUpdated(key, success=False, error=decided.reason))
        return
    if change.seat.priority == s.seats[place].priority:
        s.seats = (*s.seats[:place], change.seat, *s.seats[place + 1 :])
        s.plugin_states = (*s.plugin_states[:place], decided.states[0][1], *s.plugin_states[place + 1 :])
    else:
        _unseat(w, place)
        _seat(w, change.seat, decided)
    w.emit(PluginOptsUpdated(key, success=True))
