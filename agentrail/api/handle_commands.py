"""Commands with live objects, such as a tool or a model; the handle converts them to commands that can be stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from agentrail.core.vocabulary.commands import ActorCommand, Command
from agentrail.hooks.plugin import Attachable
from agentrail.ports.model import ModelChain
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.value import Value


class HandleCommand(Value, gc=True):
    """Base class of commands that the handle converts, so that the machine gets another command."""


class UseModel(HandleCommand):
    """Another model, from the next turn on."""

    model: ModelChain
    """Name of the model; or names: the first is asked, the others in its place if it fails."""
    options: JsonObject = EMPTY
    """Options for the provider, without secrets and without those that say where requests go."""


class EditTools(HandleCommand):
    """Tools that are added, removed or replaced, all or none."""

    do: Literal["attach", "detach", "replace"]
    """What is done."""
    tools: tuple[object, ...]
    """To attach or replace: names under which the host knows tools; to detach: names of the session's tools."""


class AttachPlugin(HandleCommand):
    """A plugin is added as soon as no turn is open."""

    plugin: Attachable | str
    """The name under which the host knows the plugin."""


class UpdatePlugin(HandleCommand):
    """Options of a plugin are changed as soon as no turn is open."""

    plugin: str
    """Key of the plugin in the session."""
    options: Mapping[str, object]
    """The options that change."""
    pin: bool = False
    """Whether the options survive changes of the code."""


class MessageTask(HandleCommand):
    """A message to a sub-agent that runs."""

    child: str
    """Id of the sub-agent's session."""
    text: str
    """The message."""


class CancelTask(HandleCommand):
    """A sub-agent is to be stopped."""

    child: str
    """Id of the sub-agent's session."""


AnyCommand: TypeAlias = Command | ActorCommand | HandleCommand
"""What `send` of a handle takes."""
