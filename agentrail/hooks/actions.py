"""What a plugin may answer: 13 actions, covariant in its state; and what it may ask the world for, with the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import ClassVar, Final, Generic, Never, Self, TypeAlias

import attrs
from typing_extensions import TypeVar

from agentrail.values.events.envelope import Event
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.messages import Message
from agentrail.values.tools import Err, Ok
from agentrail.values.value import Authored, Value, value


@value
class CallModel(Authored):
    """Ask a model something, outside the conversation."""

    prompt: str
    """What to ask."""
    model: str | None = None
    """Which model; `None`: the session's."""
    system: str = ""
    """The system prompt of the question."""


@value
class RunTool(Authored):
    """Run one of the session's tools."""

    name: str
    """Which tool."""
    args: JsonObject = EMPTY
    """With which arguments."""


@value
class ReadFile(Authored):
    """Read a text file below the working directory."""

    path: str
    """Which file."""


@value
class CallService(Authored):
    """Call a service that was given to the session."""

    name: str
    """Which service."""
    payload: Json = None
    """What it gets."""


AskRequest: TypeAlias = CallModel | RunTool | ReadFile | CallService


@value
class Answered(Value):
    """It was done."""

    value: Json
    """What came of it: the text of a model, tool or file, or a service's answer."""


@value
class Failed(Value):
    """It could not be done."""

    error: str
    """Why."""


@value
class TimedOut(Value):
    """It was not done before the deadline."""

    seconds: float
    """How long it was waited for."""


AskAnswer: TypeAlias = Answered | Failed | TimedOut


S_co = TypeVar("S_co", covariant=True, default=Never)


class Unchanged(Enum):
    """Stands for the state an action did not touch."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED


@value
class Emission(Value):
    """One thing that a plugin emits."""

    name: str
    """The name of it."""
    payload: Json = None
    """What it says."""


Emitted: TypeAlias = Emission | Event


@value
class Action(Authored, Generic[S_co]):
    """A plugin's answer to a hook."""

    kind: ClassVar[str] = ""
    short_circuits: ClassVar[bool] = False

    emits: tuple[Emitted, ...] = attrs.field(default=(), kw_only=True)
    """What it emits beside its effect."""

    def emitting(self, name: str, payload: Json = None) -> Self:
        """Return this action, emitting *name* with *payload* too."""
        return self.but(emits=(*self.emits, Emission(name, payload)))

    def reporting(self, event: Event) -> Self:
        """Return this action, emitting a catalogue *event* too."""
        return self.but(emits=(*self.emits, event))


@value
class Continue(Action[S_co], Generic[S_co]):
    """Go on to the next plugin."""

    kind = "continue"
    __often__ = True

    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


@value
class Intervene(Action[S_co], Generic[S_co]):
    """Put a text into the conversation."""

    kind = "intervene"

    text: str
    """The text."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


@value
class Abort(Action[S_co], Generic[S_co]):
    """Abort the turn, or refuse what was asked where no turn has started."""

    kind = "abort"
    short_circuits = True

    reason: str
    """Why."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


@value
class Skip(Action[S_co], Generic[S_co]):
    """Ask no later plugin; what earlier ones decided stands."""

    kind = "skip"
    short_circuits = True

    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


@value
class BlockTool(Action[S_co], Generic[S_co]):
    """This call does not run: it gets an error result with the reason."""

    kind = "block_tool"
    short_circuits = True

    reason: str
    """Why, for the model."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


@value
class ReplaceToolArgs(Action[S_co], Generic[S_co]):
    """The call gets other arguments."""

    kind = "replace_tool_args"

    args: Mapping[str, Json]
    """The new ones, whole."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


@value
class Emit(Action[S_co], Generic[S_co]):
    """Broadcast something: one name with a payload, several pairs, or an event of the catalogue."""

    kind = "emit"

    name: str | Sequence[tuple[str, Json]] | Event
    """What it is called, or the pairs, or the event."""
    payload: Json = None
    """What it says; a pair of values is one payload."""
    state: S_co | Unchanged = attrs.field(default=UNCHANGED, kw_only=True)
    """The plugin's new state."""

    @property
    def emissions(self) -> tuple[Emitted, ...]:
        """All that it emits, in order."""
        if isinstance(self.name, str):
            return (Emission(self.name, self.payload), *self.emits)
        if isinstance(self.name, Event):
            return (self.name, *self.emits)
        return (*(Emission(name, payload) for name, payload in self.name), *self.emits)


@value
class SwitchModel(Action[S_co], Generic[S_co]):
    """Use another model from the next request on (in `before_request`: for this one)."""

    kind = "switch_model"

    model: str
    """Which model."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""
    provider_options: JsonObject = EMPTY
    """Options for its provider."""


@value
class ReplaceMessages(Action[S_co], Generic[S_co]):
    """The model, or the compaction, sees other messages."""

    kind = "replace_messages"

    messages: Sequence[Message]
    """The whole list."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


@value
class ReplaceToolResult(Action[S_co], Generic[S_co]):
    """Another result goes into the history."""

    kind = "replace_tool_result"

    result: Ok | Err
    """The new one."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


@value
class HoldTool(Action[S_co], Generic[S_co]):
    """The call waits for a person."""

    kind = "hold_tool"

    hint: str
    """What the person should know."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""
    timeout: float | None = 120.0
    """Seconds to wait; `None`: for ever."""
    family: str | None = None
    """What "always" would mean; `None`: it cannot be approved for always."""


@value
class SetSection(Action[S_co], Generic[S_co]):
    """A named section of the system prompt becomes this text."""

    kind = "set_section"

    key: str
    """Which section."""
    text: str | None
    """The text; `None` removes it."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


@value
class Ask(Action[S_co], Generic[S_co]):
    """Stop here, get something done, and ask this hook again with the answer."""

    kind = "ask"

    request: AskRequest
    """What is to be done."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""
    deadline: float = 10.0
    """Seconds it may take."""


AnyAction: TypeAlias = (
    Continue[object]
    | Intervene[object]
    | Abort[object]
    | Skip[object]
    | BlockTool[object]
    | ReplaceToolArgs[object]
    | Emit[object]
    | SwitchModel[object]
    | ReplaceMessages[object]
    | ReplaceToolResult[object]
    | HoldTool[object]
    | SetSection[object]
    | Ask[object]
)

ACTIONS: Final[tuple[type[Action[object]], ...]] = (
    Continue,
    Intervene,
    Abort,
    Skip,
    BlockTool,
    ReplaceToolArgs,
    Emit,
    SwitchModel,
    ReplaceMessages,
    ReplaceToolResult,
    HoldTool,
    SetSection,
    Ask,
)
