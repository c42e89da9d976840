"""Events of a session's life, of prompts and turns, and of steering."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, TypeAlias

from agentrail.values.events.envelope import Ephemeral, Event
from agentrail.values.messages import Message
from agentrail.values.personal import Kept, Personal
from agentrail.values.usage import Usage


class SessionStarted(Event):
    """A new session has started: its plugins have agreed."""

    model: Kept[str]
    """Name of the session's model."""


class SessionRestarted(Event):
    """The session's actor crashed and was started again."""

    cause: Personal[str]
    """The exception that crashed the actor, as text."""


class SessionRecovered(Event):
    """The session was rebuilt from its journal."""

    records: int
    """Number of journal records that the session was rebuilt from."""


class SessionForked(Event):
    """The session was started as a fork of another one."""

    origin: Kept[str]
    """Id of the session that this one was forked from."""
    at: int
    """Number of the last record that the fork shares with it."""
    left_behind: Personal[tuple[str, ...]] = ()
    """Calls that the original made after that record and that cannot be undone, as text."""


class SessionHibernated(Event):
    """The session freed its memory; the next message wakes it."""


class SessionWoken(Event):
    """A hibernating session was rebuilt from its journal because a message came."""


class SessionQuarantined(Event):
    """The session crashed too often and is not restarted; it can be read and forked."""

    cause: Personal[str]
    """The exception that crashed the actor, as text."""


class InputQuarantined(Event):
    """A message that crashed the session's actor again and again was set aside.

    A command of a caller: after two crashes; its caller gets an error, and the session goes on. Any other message:
    after three, and the session is set aside with it.
    """

    input: Kept[str]
    """Kind of the message."""
    cause: Personal[str]
    """The exception that crashed the actor, as text."""


class SessionEnded(Event):
    """The session has ended for good; always its last event."""

    reason: Personal[str]
    """Why the session ended."""


class HandedOff(Event):
    """Another agent of `SessionSpec.handoffs` goes on with the conversation."""

    from_: Kept[str]
    """Name of the agent that handed over."""
    to: Kept[str]
    """Name of the agent that goes on."""
    call_id: Kept[str]
    """Id of the call by which the model asked for it."""


class LabelsChanged(Event):
    """The session has another title, or other labels."""

    title: Personal[str]
    """The title, empty if there is none."""
    labels: Kept[tuple[str, ...]]
    """All labels, sorted."""


class FilesRewound(Event):
    """`rewind` has brought back files that the agent had changed."""

    since: int
    """Number of the record after which the changes were taken back."""
    paths: Personal[tuple[str, ...]]
    """Paths of these files; the first hundred."""
    count: int
    """How many there are."""


class AgentStart(Event):
    """A turn has started."""

    ref: Kept[str]
    """Id of the prompt that the turn answers."""


class AgentEnd(Event):
    """A turn has finished normally."""

    ref: Kept[str]
    """Id of the prompt that the turn answered."""
    reason: Kept[str]
    """Why it ended: `end`, `max_rounds`, `left`, `superseded`, `length` or `refused`."""
    messages: tuple[Message, ...]
    """Messages that the turn added to the history."""
    usage: Usage
    """Usage of the turn."""
    fits: bool = False
    """Whether the last text of the model is a JSON object that fits the schema which the prompt asked for."""

    if not TYPE_CHECKING:  # hidden from type checkers, which report the old name as an error

        @property
        def stop_reason(self) -> str:
            """The old name of `reason`. A pattern with it would match nothing, in silence, if it were not there."""
            warnings.warn(
                "`AgentEnd`: `stop_reason` is called `reason` now; write `reason`", FutureWarning, stacklevel=2
            )
            return self.reason


class AgentAbort(Event):
    """An abort was carried out; if a turn was open, it has ended."""

    ref: Kept[str | None]
    """Id of the prompt whose turn was aborted; `None` if no turn was open."""
    kind: Kept[str]
    """`user`, `plugin`, `provider_error`, `overflow`, `loop`, `deadline`, `stopped`, `critical` or `answer`."""
    reason: Personal[str | None] = None
    """Why: the reason given with the abort; `None` if there was none."""


class AbortPending(Ephemeral):
    """An abort has stopped all work, but is not yet recorded in the journal."""


class AgentResumed(Event):
    """The turn continues after it has waited, or was interrupted by steering."""

    trigger: Kept[str]
    """What made the turn go on: `tool_approved`, `tool_rejected`, `tool_approval_timeout`, `user_respond`, `steering`.
    """


class PromptReceived(Event):
    """A prompt was taken, and its turn starts."""

    ref: Kept[str]
    """Id of the prompt."""
    text: Personal[str]
    """Text of the prompt, as it goes into the history."""
    replaced_by: Kept[tuple[str, ...]] = ()
    """Keys of the plugins that replaced the text, in order."""


class PromptQueued(Event):
    """A prompt waits for the open turn to end."""

    ref: Kept[str]
    """Id of the prompt."""
    text: Personal[str]
    """Text of the prompt."""
    position: int
    """Place of the prompt in the queue, from 1."""


class PromptDropped(Event):
    """A queued prompt was dropped by an abort or the session's end."""

    ref: Kept[str]
    """Id of the prompt."""
    text: Personal[str]
    """Text of the prompt."""


class PromptRejected(Event):
    """A plugin refused a prompt, or an abort came before its turn started."""

    ref: Kept[str]
    """Id of the prompt."""
    reason: Personal[str]
    """Reason that the plugin or the abort gave."""
    plugin: Kept[str | None] = None
    """Key of the plugin that refused the prompt; `None` if it was an abort."""


class PromptWithdrawn(Event):
    """A caller took a queued prompt back."""

    ref: Kept[str]
    """Id of the prompt."""
    text: Personal[str]
    """Text of the prompt."""


class SteeringReceived(Event):
    """A steering text was queued, refused, or dropped from the queue."""

    ref: Kept[str]
    """Id of the text."""
    text: Personal[str]
    """The text itself."""
    status: Kept[str]
    """`queued`, `rejected_full`, `rejected_plugin` or `dropped`."""
    reason: Personal[str | None] = None
    """Why a plugin refused the text; `None` if none did."""
    replaced_by: Kept[tuple[str, ...]] = ()
    """Keys of the plugins that replaced the text, in order."""


class SteeringApplied(Event):
    """All queued steering texts were added to the conversation as one user message."""

    refs: Kept[tuple[str, ...]]
    """Ids of the steering texts, in order."""
    count: int
    """Number of the steering texts."""


AnyLifeEvent: TypeAlias = (
    AbortPending
    | AgentAbort
    | AgentEnd
    | AgentResumed
    | AgentStart
    | FilesRewound
    | HandedOff
    | InputQuarantined
    | PromptDropped
    | PromptQueued
    | PromptReceived
    | PromptRejected
    | PromptWithdrawn
    | SessionEnded
    | LabelsChanged
    | SessionForked
    | SessionHibernated
    | SessionQuarantined
    | SessionRecovered
    | SessionRestarted
    | SessionStarted
    | SessionWoken
    | SteeringApplied
    | SteeringReceived
)
"""The events of this module, in the order of the catalogue."""
