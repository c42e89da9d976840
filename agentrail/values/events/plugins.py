"""Events of plugins, and events that only one subscriber gets (`Gap`, `Heartbeat`)."""

from __future__ import annotations

from typing import TypeAlias

from agentrail.values.events.envelope import Ephemeral, Event
from agentrail.values.json import Json, JsonObject
from agentrail.values.personal import Kept, Personal


class PluginEvent(Event):
    """A plugin emitted an event of its own."""

    plugin: Kept[str]
    """Key of the plugin."""
    name: Kept[str]
    """Name of the event, chosen by the plugin."""
    payload: Personal[Json]
    """Data of the event."""


class PluginError(Event):
    """A plugin failed; its state did not change."""

    plugin: Kept[str]
    """Key of the plugin."""
    hook: Kept[str]
    """Name of the hook that failed."""
    error: Personal[str]
    """What went wrong, as text."""


class PluginSlow(Event):
    """The plugins' hooks took too long in one step of the session."""

    plugins: Kept[tuple[str, ...]]
    """Keys of the plugins whose hooks ran in the step."""
    elapsed_ms: int
    """Duration of the step in milliseconds."""


class ShadowDiffers(Ephemeral):
    """Plugins in the shadow of the session would have ruled otherwise at a hook; nothing came of it."""

    plugin: Kept[str]
    """Key of the plugin that decided in the shadow, else in the session; empty if none did."""
    hook: Kept[str]
    """Name of the hook."""
    call_id: Kept[str]
    """Id of the call that it was about; empty if it was about none."""
    then: Personal[str]
    """What the plugins of the session ruled, and why."""
    now: Personal[str]
    """What it would have been with those in the shadow, and why."""


class ShadowEnded(Ephemeral):
    """The shadow of the session was let go of: it was slow, hung, or cannot follow any more."""

    reason: Personal[str]
    """Why."""


class PluginOptsUpdated(Event):
    """An update of a plugin's options was applied or refused."""

    plugin: Kept[str]
    """Key of the plugin."""
    success: bool
    """Whether the new options are in effect."""
    error: Personal[str | None] = None
    """Why the new options are not in effect; `None` on success."""
    dropped: Kept[tuple[str, ...]] = ()
    """Options that were set at run time and now have the code's value again, because the code's value has changed."""


class PluginAttached(Event):
    """A plugin was added to the session, or could not be."""

    plugin: Kept[str]
    """Key of the plugin."""
    success: bool = True
    """Whether the plugin was added."""
    error: Personal[str | None] = None
    """Why the plugin was not added; `None` on success."""


class PluginDetached(Event):
    """A plugin was removed from the session, or could not be."""

    plugin: Kept[str]
    """Key of the plugin."""
    success: bool = True
    """Whether the plugin was removed."""
    error: Personal[str | None] = None
    """Why the plugin was not removed; `None` on success."""


class PluginUpgraded(Event):
    """A plugin's stored state was converted to the version of its code."""

    plugin: Kept[str]
    """Key of the plugin."""
    from_version: int
    """Version of the stored state."""
    to_version: int
    """Version of the code."""


class AskStarted(Event):
    """A plugin asked for something (`Ask`); its hook is paused until the answer."""

    ask_id: Kept[str]
    """Id of the plugin's request."""
    plugin: Kept[str]
    """Key of the plugin."""
    hook: Kept[str]
    """Name of the paused hook."""
    request: Kept[str]
    """Kind of request, such as `RunTool`."""


class AskAnswered(Event):
    """A plugin's request was carried out, failed, or was dropped."""

    ask_id: Kept[str]
    """Id of the plugin's request."""
    plugin: Kept[str]
    """Key of the plugin."""
    status: Kept[str]
    """`ok`, `failed`, `timed_out` or `dropped`."""


class UnknownEvent(Event):
    """An event written by a newer version of the library, which this version does not know."""

    kind: Kept[str]
    """Name of the event."""
    body: Personal[JsonObject]
    """Fields of the event, as JSON."""


class Gap(Ephemeral):
    """This subscriber missed the events between two positions."""

    from_seq: int
    """Sequence number (`seq`) of the position before the gap."""
    from_n: int
    """Number of ephemeral events (`n`) of the position before the gap."""
    to_seq: int
    """Sequence number (`seq`) of the position at the gap's end."""
    to_n: int
    """Number of ephemeral events (`n`) of the position at the gap's end."""


class Heartbeat(Ephemeral):
    """Nothing has happened for a while. agentrail sends none: a server that passes events on may, to its clients."""


AnyPluginEvent: TypeAlias = (
    AskAnswered
    | AskStarted
    | Gap
    | Heartbeat
    | PluginAttached
    | PluginDetached
    | PluginError
    | PluginEvent
    | PluginOptsUpdated
    | PluginSlow
    | PluginUpgraded
    | ShadowDiffers
    | ShadowEnded
    | UnknownEvent
)
"""The events of this module, in the order of the catalogue."""
