"""The 16 actions that a hook may return, and the requests (`Ask`) that a plugin may make, with their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import ClassVar, Final, Generic, Literal, Never, Self, TypeAlias, cast, get_args, get_origin

from typing_extensions import TypeVar

from agentrail.values.events.envelope import Event
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.messages import Message
from agentrail.values.personal import Kept, Personal, ToolName
from agentrail.values.tools import Err, Ok
from agentrail.values.value import TAG, Authored, AuthoredKind, Value


class CallModel(Authored, tag_field=TAG):
    """Request for `Ask`: send a prompt to a model, outside the conversation."""

    prompt: Personal[str]
    """The prompt, which follows *messages*; empty if they are all that the model gets."""
    model: Kept[str | None] = None
    """Name of the model; `None` if it is the session's."""
    system: Personal[str] = ""
    """System prompt for this request."""
    messages: tuple[Message, ...] = ()
    """Messages before the prompt. The record keeps them whole, so give few."""
    returns: Kept[JsonObject] = EMPTY
    """JSON Schema of the object that the answer must fit; if empty, the answer is the model's text."""
    max_tokens: int | None = None
    """The most tokens of the answer; `None` if the model's options say it."""
    options: Kept[JsonObject] = EMPTY
    """Options for the model's provider; if empty, the session's options count if it uses this model.

    A model that is named gets no others, so that a key of the session's model never goes to another address. If `model`
    is `None`, they come on top of the session's.
    """


class RunTool(Authored, tag_field=TAG):
    """Request for `Ask`: run one of the session's tools."""

    name: ToolName
    """Name of the tool."""
    args: Personal[JsonObject] = EMPTY
    """Arguments of the call."""


class ReadFile(Authored, tag_field=TAG):
    """Request for `Ask`: read a text file in the working directory; it is answered with `None` if there is none."""

    path: Personal[str]
    """Path of the file."""


class WriteFile(Authored, tag_field=TAG):
    """Request for `Ask`: write a whole text file in the working directory, with the folders above it.

    No plugin rules on it, so the path must be the plugin's own; for one of the model's, run the tool `write_file`.
    """

    path: Personal[str]
    """Path of the file."""
    text: Personal[str]
    """All that the file is to hold; at most 8 MiB. No-op if the file holds it already."""
    replaces: Personal[str | None] = None
    """The text that the file holds now; `None` if there is no file. If it holds another, the answer is `Failed`."""


class FindFiles(Authored, tag_field=TAG):
    """Request for `Ask`: find files and folders by name, on the disk or among what git tracks.

    The answer is a list of paths, relative to the working directory: each ends in the first part that has one of the
    names. A folder that is not there has nothing in it. It is `Failed` if not all could be looked at, or if more than
    100 paths were found.
    """

    names: Personal[tuple[str, ...]]
    """Names of files and folders, where `*` is any text and `?` any character; case does not matter."""
    folders: Personal[tuple[str, ...]] = ()
    """Folders to look through on the disk, with all in them; links are not followed."""
    tracked: Kept[tuple[str, ...]] = ()
    """Folders of which to look through the files that git tracks, by the index of the repository around each."""
    ignored: bool = True
    """Whether to look on the disk also at what `.gitignore` names, and at `.git` itself."""


class FindGitPrograms(Authored, tag_field=TAG):
    """Request for `Ask`: find what could make a git command in the working directory run a program, if it only reads.

    The answer is a list of texts: settings of the repository that are not known to be harmless, without their values,
    hooks, and repositories in it. It is `Failed` if there is no repository, or if not all could be looked at.
    """


class CallService(Authored, tag_field=TAG):
    """Request for `Ask`: call a service, one of those that the program gave to the session."""

    name: Kept[str]
    """Name of the service."""
    payload: Personal[Json] = None
    """Data passed to the service."""


class ChangeTools(Authored, tag_field=TAG):
    """Request for `Ask`: attach tools that the plugin brings, and detach tools of the session; all or none."""

    attach: Kept[tuple[str, ...]] = ()
    """Names of tools in the plugin's `BroughtTools`. One that it has attached before is replaced."""
    detach: tuple[ToolName, ...] = ()
    """Names of tools of the session."""


Errand: TypeAlias = CallModel | RunTool | ReadFile | WriteFile | FindFiles | FindGitPrograms | CallService
"""A request that the runtime carries out; the others are carried out in the step."""

AskRequest: TypeAlias = Errand | ChangeTools


class Answered(Authored, tag_field=TAG):
    """Answer to an `Ask` that succeeded."""

    value: Personal[Json]
    """Text or object of the model, text of tool or file, paths, the service's answer; `None` for other requests.

    `None` is also the answer to `ReadFile` if there is no such file.
    """


class Failed(Authored, tag_field=TAG):
    """Answer to an `Ask` that failed."""

    error: Personal[str]
    """The reason of the failure."""


class TimedOut(Authored, tag_field=TAG):
    """Answer to an `Ask` that did not finish before its deadline."""

    seconds: float
    """Length of the deadline in seconds."""


AskAnswer: TypeAlias = Answered | Failed | TimedOut


S_co = TypeVar("S_co", covariant=True, default=Never)


class Unchanged(Enum):
    """Placeholder for the state in an action that leaves the plugin's state as it was."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED


class Emission(Value):
    """A custom event that a plugin emits with its action."""

    name: str
    """Name of the event."""
    payload: Json = None
    """Data of the event."""


Emitted: TypeAlias = Emission | Event


class Action(Value, Generic[S_co], kw_only=True, gc=True):
    """Base class of the actions, which the methods of plugins return."""

    kind: ClassVar[str] = ""
    short_circuits: ClassVar[bool] = False

    emits: tuple[Emitted, ...] = ()
    """Events emitted in addition to what the action does."""

    def emitting(self, name: str, payload: Json = None) -> Self:
        """Return this action with one more event: *name* with *payload*."""
        return self.but(emits=(*self.emits, Emission(name, payload)))

    def reporting(self, event: Event) -> Self:
        """Return this action with one more event: *event*, from the catalogue."""
        return self.but(emits=(*self.emits, event))


class Continue(Action[S_co], Generic[S_co]):
    """Change nothing."""

    kind = "continue"

    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state; the default leaves it unchanged."""
    family: str | None = None
    """Command family of `Context.approved_always` without which the plugin would have held the call; the event of the
    call's start then says who approved it, and when. `None` if no such approval was needed.
    """


class Intervene(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Add a text to the conversation."""

    kind = "intervene"

    text: str
    """The text, for the model."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


class AddContext(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Add messages to this request alone, after or before its own; its record has them, the history never has them."""

    kind = "add_context"

    text: str = ""
    """A text for the model, after all messages, where the provider's cache still fits; empty if there is none."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""
    front: Sequence[Message] = ()
    """Messages before all others: of the user, or texts of the model. If they change, all after them is read anew."""
    behind: Sequence[Message] = ()
    """Messages after all others, before the text: of the user, or texts of the model."""


class Abort(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Abort the turn; before a turn has started (`session_start`, `before_prompt`), refuse what was asked."""

    kind = "abort"
    short_circuits = True

    reason: str
    """Reason, reported in events."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


class Skip(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Ask no further plugin."""

    kind = "skip"
    short_circuits = True

    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


class BlockTool(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Do not run this call: give it an error result with the reason."""

    kind = "block_tool"
    short_circuits = True

    reason: str
    """Reason, for the model."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


class ReplaceToolArgs(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Run the call with other arguments."""

    kind = "replace_tool_args"

    args: Mapping[str, Json]
    """All arguments of the call, not only those that change."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


class _Announcing(Action[S_co], Generic[S_co], kw_only=True, metaclass=AuthoredKind):
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


class Emit(_Announcing[S_co], Generic[S_co]):
    """Publish one or more events: a name with a payload, several such pairs, or an event of the catalogue."""

    kind = "emit"

    name: str | Sequence[tuple[str, Json]] | Event
    """Name of the event, or a sequence of (name, payload) pairs, or a catalogue event."""
    payload: Json = None
    """Data of the event; used only with a name."""

    @property
    def emissions(self) -> tuple[Emitted, ...]:
        """All events that this action publishes, in order."""
        if isinstance(self.name, str):
            return (Emission(self.name, self.payload), *self.emits)
        if isinstance(self.name, Event):
            return (self.name, *self.emits)
        return (*(Emission(name, payload) for name, payload in self.name), *self.emits)


class SwitchModel(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Use another model from the next request on (in `before_request`: for this request already)."""

    kind = "switch_model"

    model: str
    """Name of the model."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""
    provider_options: JsonObject = EMPTY
    """Options for the model's provider."""


class ReplacePrompt(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Put another text in place of what the user said, for the history and the model; images stay."""

    kind = "replace_prompt"

    text: str
    """The whole new text; it may not be empty."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


class ReplaceResponse(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Put another text in place of the response's, for the history and all readers; its thoughts and tool calls stay.

    A form that was asked for (`returns`) is checked with the new text. Deltas of the old one have been published.
    """

    kind = "replace_response"

    text: str
    """The whole new text; it may not be empty."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


class ReplaceMessages(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Show the model (or the compaction) other messages; the history itself does not change."""

    kind = "replace_messages"

    messages: Sequence[Message]
    """All messages to show."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


class ReplaceToolResult(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Put another result into the history."""

    kind = "replace_tool_result"

    result: Ok | Err
    """The new result."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""


class HoldTool(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Hold the call until a person approves or rejects it."""

    kind = "hold_tool"

    hint: str
    """Text for the person who decides: what the call would do."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""
    timeout: float | None = 120.0
    """Seconds to wait for a decision; then the call is refused; `None` if there is no limit."""
    family: str | None = None
    """Command family that "approve always" would let pass; `None` if no such approval is possible."""


class SetSection(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Set a named section of the system prompt.

    A changed section of the layers `skills` and `memory` makes the provider read again all messages, which it had in
    its cache. Sections of the layer `dynamic` follow the messages, so a change of them costs nothing else.
    """

    kind = "set_section"

    key: str
    """Name of the section."""
    text: str | None
    """The text; `None` removes the section."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""
    layer: Literal["skills", "memory", "dynamic"] = "dynamic"
    """Layer of the system prompt that the section belongs to."""


class Ask(Action[S_co], Generic[S_co], metaclass=AuthoredKind):
    """Have the runtime carry out a request."""

    kind = "ask"

    request: AskRequest
    """The request to carry out."""
    state: S_co | Unchanged = UNCHANGED
    """The plugin's new state."""
    deadline: float = 10.0
    """The most seconds that the request may take; then its answer is `TimedOut`."""


AnyAction: TypeAlias = (
    Continue[object]
    | Intervene[object]
    | Abort[object]
    | Skip[object]
    | BlockTool[object]
    | ReplaceToolArgs[object]
    | Emit[object]
    | SwitchModel[object]
    | ReplacePrompt[object]
    | ReplaceResponse[object]
    | ReplaceMessages[object]
    | ReplaceToolResult[object]
    | HoldTool[object]
    | SetSection[object]
    | Ask[object]
    | AddContext[object]
)

ACTIONS: Final = cast("tuple[type[Action[object]], ...]", tuple(map(get_origin, get_args(AnyAction))))
