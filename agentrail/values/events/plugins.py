"""Events of plugins, and those that belong to one subscriber."""

from __future__ import annotations

from agentrail.values.events.envelope import Ephemeral, Event
from agentrail.values.json import Json, JsonObject
from agentrail.values.value import value


@value
class PluginEvent(Event):
    """A plugin emitted something."""

    plugin: str
    """Which plugin."""
    name: str
    """The name it gave."""
    payload: Json
    """What it said."""


@value
class PluginError(Event):
    """A plugin broke; its state stayed the old one."""

    plugin: str
    """Which plugin."""
    hook: str
    """Where."""
    error: str
    """What went wrong."""


@value
class PluginSlow(Event):
    """The hooks of one step took too long."""

    plugins: tuple[str, ...]
    """The plugins that ran in it."""
    elapsed_ms: int
    """How long the step took."""


@value
class PluginOptsUpdated(Event):
    """A hot update of a plugin's options was carried out or refused."""

    plugin: str
    """Which plugin."""
    success: bool
    """Whether the new options apply."""
    error: str | None = None
    """Why not."""
    dropped: tuple[str, ...] = ()
    """Options that were changed at run time and are the code's again, because that says something else than it did."""


@value
class PluginAttached(Event):
    """A plugin joined the session."""

    plugin: str
    """Which plugin."""
    success: bool = True
    """Whether it runs."""
    error: str | None = None
    """Why not."""


@value
class PluginDetached(Event):
    """A plugin left the session."""

    plugin: str
    """Which plugin."""
    success: bool = True
    """Whether it left."""
    error: str | None = None
    """Why not."""


@value
class PluginUpgraded(Event):
    """A plugin's stored state was brought to its new version."""

    plugin: str
    """Which plugin."""
    from_version: int
    """The version of the stored state."""
    to_version: int
    """The version now."""


@value
class AskStarted(Event):
    """A plugin asked the world for something; its hook waits."""

    ask_id: str
    """Which question."""
    plugin: str
    """Who asks."""
    hook: str
    """At which hook."""
    request: str
    """The kind of request."""


@value
class AskAnswered(Event):
    """A plugin's question was answered, or given up."""

    ask_id: str
    """Which question."""
    plugin: str
    """Who asked."""
    status: str
    """`ok`, `failed`, `timed_out` or `dropped`."""


@value
class UnknownEvent(Event):
    """An event of a newer version than this reader."""

    kind: str
    """Its name."""
    body: JsonObject
    """What it said."""


@value
class Gap(Ephemeral):
    """For this subscriber, events are missing here."""

    from_seq: int
    """Behind this number …"""
    from_n: int
    """… and this one."""
    to_seq: int
    """Up to this number …"""
    to_n: int
    """… and this one."""


@value
class Heartbeat(Ephemeral):
    """For this subscriber: nothing happened, and the connection lives."""
