"""Events of a session's life, of its prompts and of steering."""

from __future__ import annotations

from agentrail.values.events.envelope import Ephemeral, Event
from agentrail.values.messages import Message
from agentrail.values.usage import Usage
from agentrail.values.value import value


@value
class SessionStarted(Event):
    """The session is there: its plugins have started it."""

    model: str
    """The model it begins with."""


@value
class SessionRestarted(Event):
    """The session's actor crashed and was started again."""

    cause: str
    """What it crashed of."""


@value
class SessionRecovered(Event):
    """The session came back from its journal."""

    records: int
    """How many records it was rebuilt from."""


@value
class SessionForked(Event):
    """The session shares the past of another one."""

    origin: str
    """The session it was forked from."""
    at: int
    """Behind which of that session's records."""
    left_behind: tuple[str, ...] = ()
    """What that one has done since and cannot be undone: calls, by tool and arguments; and what of it is unreadable."""


@value
class SessionHibernated(Event):
    """The session gave its memory back until the next message."""


@value
class SessionWoken(Event):
    """The session was brought up again by a message."""


@value
class SessionQuarantined(Event):
    """The session crashed too often; it can be read and forked, not talked to."""

    cause: str
    """What it crashed of."""


@value
class InputQuarantined(Event):
    """A message that crashed the session three times was set aside."""

    input: str
    """Which kind of message."""
    cause: str
    """What it crashed of."""


@value
class SessionEnded(Event):
    """The session is gone for good; nothing comes behind this."""

    reason: str
    """Why."""


@value
class AgentStart(Event):
    """A turn has started."""

    ref: str
    """The prompt it answers."""


@value
class AgentEnd(Event):
    """A turn has ended by itself."""

    ref: str
    """The prompt it answered."""
    stop_reason: str
    """`end`, `max_turns`, `left`, `superseded`, `length` or `refused`."""
    messages: tuple[Message, ...]
    """What the turn added to the history."""
    usage: Usage
    """What the turn used."""


@value
class AgentAbort(Event):
    """An abort was carried out; if a turn was open, it is over."""

    ref: str | None
    """The prompt whose turn was aborted; `None` if no turn was open."""
    kind: str
    """`user`, `plugin`, `provider_error`, `overflow`, `loop`, `deadline`, `stopped` or `critical`."""
    reason: str | None = None
    """The words of whoever aborted; `None` if there were none."""


@value
class AbortPending(Ephemeral):
    """An abort has stopped everything; its record is still being written."""


@value
class AgentResumed(Event):
    """The turn goes on because of a signal from outside."""

    trigger: str
    """`tool_approved`, `tool_rejected`, `tool_approval_timeout`, `user_respond` or `steering`."""


@value
class PromptReceived(Event):
    """A prompt was taken: its turn begins."""

    ref: str
    """Which prompt."""
    text: str
    """The text of it."""


@value
class PromptQueued(Event):
    """A prompt waits for the open turn to end."""

    ref: str
    """Which prompt."""
    text: str
    """The text of it."""
    position: int
    """Its place in the queue, from 1."""


@value
class PromptDropped(Event):
    """A queued prompt was dropped."""

    ref: str
    """Which prompt."""
    text: str
    """The text of it."""


@value
class PromptRejected(Event):
    """A prompt was refused by a plugin, or its taking was aborted."""

    ref: str
    """Which prompt."""
    reason: str
    """Why."""
    plugin: str | None = None
    """Who refused it; `None`: an abort."""


@value
class PromptWithdrawn(Event):
    """A queued prompt was taken back."""

    ref: str
    """Which prompt."""
    text: str
    """The text of it."""


@value
class SteeringReceived(Event):
    """A steering text came, or left the queue unused."""

    ref: str
    """Which text."""
    text: str
    """The text."""
    status: str
    """`queued`, `rejected_full`, `rejected_plugin` or `dropped`."""
    reason: str | None = None
    """Why it was refused."""


@value
class SteeringApplied(Event):
    """Waiting steering texts were merged into one user message."""

    refs: tuple[str, ...]
    """Which texts, in order."""
    count: int
    """How many."""
