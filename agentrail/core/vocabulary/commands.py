"""Inputs that callers send to a session: one class for each method of its handle.

The machine answers each with `Accepted`, `Done` or `Refused`.
"""

from __future__ import annotations

from typing import Final, Literal, Self, TypeAlias

from agentrail.core.vocabulary.errors_as_data import data_of, made_of
from agentrail.core.vocabulary.options import Spare
from agentrail.errors import AgentrailError
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.values.content import Part, ToolCall
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.personal import Kept, Personal, ToolName
from agentrail.values.rewinds import FileSpan, Rewound
from agentrail.values.stream import NOTHING_YET, Partial
from agentrail.values.tools import Err, Ok, ToolSpec
from agentrail.values.value import TAG, Value


class Accepted(Value, tag_field=TAG):
    """Answer to `prompt` and `steer`: the text was journaled and will be handled."""

    ref: Kept[str]
    """Id of the accepted text (a prompt or a steering text) in later events."""
    status: Kept[str]
    """`started` or `queued`."""
    position: int = 0
    """Place of the text in the queue, from 1; 0 if its turn started at once."""
    dropped: tuple[ToolCall, ...] = ()
    """The calls that waited for a person, and that this text has dropped: they do not run."""


class Done(Value, tag_field=TAG):
    """Answer to a call that was carried out, or that will be as soon as its turn allows."""


class Refused(Value, tag_field=TAG):
    """Answer to a call that changed nothing.

    It holds the error as data. An exception has a traceback, whose frames may hold the answer: a cycle.
    """

    name: Kept[str]
    """Name of the error's class, one of `agentrail.errors`."""
    facts: Personal[tuple[Json, ...]] = ()
    """The arguments that the error is made with."""

    def __post_init__(self) -> None:
        made_of(self.name, self.facts)

    @classmethod
    def of(cls, error: AgentrailError) -> Self:
        """Return the refusal with *error*."""
        return cls(*data_of(error))

    @property
    def error(self) -> AgentrailError:
        """The error that the handle raises to the caller, made anew each time: each has a traceback of its own."""
        return made_of(self.name, self.facts)


Answer: TypeAlias = Accepted | Done | Refused
DONE = Done()


class PromptSent(Value, tag_field=TAG):
    """`prompt` was called."""

    parts: tuple[Part, ...]
    """Text and images of the prompt."""
    cleared: bool = False
    """Whether an abort with `clear_queue` came while the prompt was still in the mailbox; it is then dropped."""
    returns: Kept[JsonObject] = EMPTY
    """The JSON Schema of an object that the turn's answer must fit; if empty, the session's own holds."""
    asked_by: Kept[tuple[str, ...]] = ()
    """For the prompt of a sub-agent: who asked for the turn of its parent."""


class SteerSent(Value, tag_field=TAG):
    """`steer` was called."""

    text: Personal[str]
    """The text for the model."""
    when: Kept[str] = "gap"
    """`gap`: a response under way ends first; `now`: it is cut. Running tools are cancelled either way, unless immune.
    """
    partial: Partial = NOTHING_YET
    """Text and usage of the running response, as received so far."""
    message: bool = False
    """Whether it is a message to a sub-agent at work: it stops nothing, and is refused if the task is done."""
    asked_by: Kept[tuple[str, ...]] = ()
    """For a message: who asked for the turn of its sender."""


When: TypeAlias = Literal["gap", "now"]
"""When a steering text reaches the model: after the response under way (`gap`), or at once, by cutting it (`now`)."""

Kill: TypeAlias = Literal["none", "killable", "all"]
"""Which running calls an abort cancels: none, those whose tool may be killed, or all."""

WHENS: Final[tuple[When, ...]] = ("gap", "now")
"""The values of `When`."""

KILLS: Final[tuple[Kill, ...]] = ("none", "killable", "all")
"""The values of `Kill`, from the one that stops fewest calls to the one that stops most."""


class AbortSent(Value, tag_field=TAG):
    """`abort` was called; several calls that wait in the mailbox are joined into one."""

    reason: Personal[str | None] = None
    """Why."""
    kill_tools: Kept[str] = "killable"
    """Which running calls are cancelled: none, those whose tool may be killed, or all."""
    clear_queue: bool = False
    """Whether queued prompts are dropped too."""
    partial: Partial = NOTHING_YET
    """Text and usage of the running response, as received so far."""
    turn: Kept[str] = ""
    """Id of the prompt whose turn is meant: if it is not open by then, nothing happens. Empty: whatever is open."""

    def covers(self, other: AbortSent) -> bool:
        """Whether this abort stops and drops everything that *other* would; *other* need not be sent then."""
        kills = KILLS.index(self.kill_tools) >= KILLS.index(other.kill_tools)
        return kills and self.clear_queue >= other.clear_queue and self.turn in {"", other.turn}

    def joined(self, other: AbortSent) -> AbortSent:
        """Return one abort that does what this one and *other* do, which is for the same turn.

        The reason is the first one given.
        """
        return self.but(
            reason=other.reason if self.reason is None else self.reason,
            kill_tools=max(self.kill_tools, other.kill_tools, key=KILLS.index),
            clear_queue=self.clear_queue or other.clear_queue,
        )


class ApproveSent(Value, tag_field=TAG):
    """`approve` was called."""

    approval_id: Kept[str]
    """Id of the held call; or `SESSION:CALL` of a stopped call, as the hint names it, to end the doubt about it."""
    args: Personal[JsonObject | None] = None
    """Edited arguments, in place of those that were held."""
    always: bool = False
    """Whether later calls of its family pass too."""
    auto_resume: bool = True
    """Whether the turn goes on once nothing is held."""
    four_eyes: bool = False
    """Whether it is refused if the person has asked for the turn of the call, or decides about later calls too."""
    digest: Personal[str] = ""
    """`digest` of what the person was shown: it is refused if the call is another by now. Empty: not compared."""


class RejectSent(Value, tag_field=TAG):
    """`reject` was called."""

    approval_id: Kept[str]
    """Id of the held call."""
    reason: Personal[str | None] = None
    """Why; the model gets it."""
    auto_resume: bool = False
    """Whether the turn goes on once nothing is held."""
    four_eyes: bool = False
    """Whether it is refused if the person has asked for the turn of the call."""
    digest: Personal[str] = ""
    """`digest` of what the person was shown: it is refused if the call is another by now. Empty: not compared."""


class RespondSent(Value, tag_field=TAG):
    """`respond` was called."""

    ref: Kept[str]
    """Id of the question."""
    answer: Personal[str]
    """The answer."""


class ResultSent(Value, tag_field=TAG):
    """`result` was called."""

    ref: Kept[str]
    """Id of the call."""
    result: Ok | Err
    """What it gives the model."""


class SwitchModelSent(Value, tag_field=TAG):
    """`switch_model` was called."""

    model: Kept[str]
    """Name of the new model."""
    options: Kept[JsonObject] = EMPTY
    """Options for the model's provider."""
    spares: tuple[Spare, ...] = ()
    """Models to fall back to, in order."""
    priced: Kept[frozenset[str]] = frozenset()
    """Names of the models, of those named here, whose price is known."""


class ChangeToolsSent(Value, tag_field=TAG):
    """`attach_tools`, `detach_tools` or `replace_tools` was called, or a source (an MCP server) changed its tools."""

    attach: tuple[ToolSpec, ...] = ()
    """Tools to add."""
    detach: tuple[ToolName, ...] = ()
    """Names of tools to remove."""
    replace: bool = False
    """Whether an added tool may replace one of the same name."""
    revision: int = 0
    """Serial number of this change; calls keep the revision of the tool that they were made for."""
    source: Kept[str] = ""
    """Name of the source whose tools changed; empty if a caller made the change."""
    problems: Personal[tuple[str, ...]] = ()
    """Why the source offers no tools, or only some of them."""
    closed: Kept[tuple[str, ...]] = ()
    """Names of sources to remove with all their tools."""


class UpdatePluginSent(Value, tag_field=TAG):
    """`update_plugin` was called."""

    attached: AttachedPlugin
    """Description of the plugin with its new options."""
    options: Kept[JsonObject]
    """The options that change, with their new values."""


class AttachPluginSent(Value, tag_field=TAG):
    """`attach_plugin` was called."""

    attached: AttachedPlugin
    """Description of the plugin to add."""


class DetachPluginSent(Value, tag_field=TAG):
    """`detach_plugin` was called."""

    key: Kept[str]
    """Key of the plugin in the session."""


class CompactSent(Value, tag_field=TAG):
    """`compact` was called."""

    reason: Personal[str | None] = None
    """Why."""


class WithdrawSent(Value, tag_field=TAG):
    """`withdraw` was called: take a queued prompt back."""

    ref: Kept[str]
    """Id of the prompt."""


class DisallowSent(Value, tag_field=TAG):
    """`disallow` was called: take an approval for always back."""

    tool: ToolName
    """Name of the tool."""
    command_family: Personal[str]
    """Command family of the calls that were approved."""


class LabelSent(Value, tag_field=TAG):
    """`label` was called: the session gets another title or other labels."""

    add: Kept[tuple[str, ...]] = ()
    """Labels that are added."""
    remove: Kept[tuple[str, ...]] = ()
    """Labels that are removed."""
    title: Personal[str | None] = None
    """The title; it stays as it is if not given."""


class FilesRewoundSent(Value, tag_field=TAG):
    """`rewind` was called, and has brought back files."""

    since: int
    """Number of the record after which changes were taken back."""
    only: Personal[tuple[str, ...] | None]
    """The only files that were to come back; `None` if all were."""
    over_edits: bool
    """Whether files that somebody else had changed since were to come back too."""
    rewound: Rewound
    """What was done, with the first thousand files."""
    count: int
    """How many files came back."""
    files: FileSpan
    """The snapshots before and after that."""


class StopSent(Value, tag_field=TAG):
    """`stop` was called: end the session for good."""

    reason: Personal[str] = "stopped"
    """Why."""
    partial: Partial = NOTHING_YET
    """Text and usage of the running response, as received so far."""


class SuspendSent(Value, tag_field=TAG):
    """`suspend` was called: until `resume`, everything but urgent commands (abort, stop) waits in the mailbox."""


class ResumeSent(Value, tag_field=TAG):
    """`resume` was called: messages held back since `suspend` are handled, and a turn paused by a recovery goes on."""


class TraceSent(Value, tag_field=TAG):
    """`trace` was called: a caller wants to see each step of the actor from now on."""


Command: TypeAlias = (
    PromptSent
    | SteerSent
    | AbortSent
    | ApproveSent
    | RejectSent
    | RespondSent
    | ResultSent
    | SwitchModelSent
    | ChangeToolsSent
    | UpdatePluginSent
    | AttachPluginSent
    | DetachPluginSent
    | CompactSent
    | WithdrawSent
    | DisallowSent
    | LabelSent
    | FilesRewoundSent
    | StopSent
)
"""What a caller wants of the conversation or of its settings."""

ActorCommand: TypeAlias = SuspendSent | ResumeSent | TraceSent
"""What a caller wants of the session's actor; the session itself stays as it is."""
