"""Inputs of the machine: calls to the session's handle (`commands`), results of its effects, timers and life events."""

from __future__ import annotations

from typing import Final, TypeAlias, get_args

from agentrail.core.vocabulary.commands import ActorCommand, Command
from agentrail.hooks.actions import AskAnswer
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.ruling import Section
from agentrail.values.events.envelope import Event
from agentrail.values.events.plugins import PluginError
from agentrail.values.messages import Message
from agentrail.values.personal import Kept, Personal
from agentrail.values.rewinds import FileSpan
from agentrail.values.stream import NOTHING_YET, Failure, Partial, Response
from agentrail.values.tools import Err, Ok, Probed, ToolResult, ToolSpec
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import TAG, Value


class SessionOpened(Value, tag_field=TAG):
    """The session was just spawned; always its first input."""

    incarnation: Kept[str] = ""
    """Random text for ids (see `State.incarnation`)."""


class ActorRestarted(Value, tag_field=TAG):
    """The session's actor crashed and was started again from the journal."""

    cause: Personal[str]
    """The exception that crashed the actor, as text."""
    input: Kept[str] = ""
    """Kind of the command that crashed the actor each time, and was put aside; empty if none was."""


class CrashedTooOften(Value, tag_field=TAG):
    """The session's actor crashed too often: it is started again only if a caller asks for that."""

    cause: Personal[str]
    """The exception that crashed the actor, as text."""
    input: Kept[str] = ""
    """Kind of message that crashed the actor each time; empty if the messages differed."""


class SessionReturned(Value, tag_field=TAG):
    """The session was rebuilt from its journal, maybe with newer code: its plugins and tools may have changed."""

    records: int
    """Number of journal records that the session was rebuilt from."""
    attached_plugins: tuple[AttachedPlugin, ...]
    """All plugins that the session has from now on, those that it had before included."""
    tools: tuple[ToolSpec, ...] = ()
    """Tools that are new or whose definition changed."""
    removed_tools: Kept[tuple[str, ...]] = ()
    """Names of tools that no longer exist in the code."""
    revision: int = 0
    """Serial number of this change of tools."""
    without: Kept[tuple[str, ...]] = ()
    """Keys of plugins with a queued change whose code no longer exists."""
    lost: Kept[tuple[str, ...]] = ()
    """What else (beside tools and plugins) the code no longer has, in words for the model."""
    pause: bool = False
    """Whether an open turn stays paused until `resume` or an abort."""
    options: Kept[tuple[tuple[str, tuple[str, ...]], ...]] = ()
    """Plugins whose options changed: the key, and the names of run-time changes that the code's values replaced."""
    waiting: tuple[AttachedPlugin, ...] = ()
    """Plugins with a queued change, described as they will be after it."""
    sections: tuple[Section, ...] = ()
    """Sections of skills and memory files that have changed, or have no text because their file is gone."""
    incarnation: Kept[str] = ""
    """Random text for ids (see `State.incarnation`)."""


class SessionBranched(Value, tag_field=TAG):
    """The session starts as a fork of another one, maybe with newer code."""

    origin: Kept[str]
    """Id of the session that this one was forked from."""
    at: int
    """Number of the last record that the fork shares with it."""
    left_behind: Personal[tuple[str, ...]] = ()
    """What the original did after that record and cannot be undone, in words."""
    attached_plugins: tuple[AttachedPlugin, ...] = ()
    """All plugins that the fork has from now on, those that it had before included."""
    tools: tuple[ToolSpec, ...] = ()
    """Tools that are new or whose definition changed."""
    removed_tools: Kept[tuple[str, ...]] = ()
    """Names of tools that no longer exist in the code."""
    revision: int = 0
    """Serial number of this change of tools."""
    options: Kept[tuple[tuple[str, tuple[str, ...]], ...]] = ()
    """Plugins whose options changed: the key, and the names of run-time changes that the code's values replaced."""
    incarnation: Kept[str] = ""
    """Random text for ids (see `State.incarnation`)."""


class SleepDue(Value, tag_field=TAG):
    """The session was idle for `hibernate_after` seconds: its actor may free its memory."""


class SessionWoke(Value, tag_field=TAG):
    """A hibernating session was rebuilt from its journal because a message came for it."""


class StreamEnded(Value, tag_field=TAG):
    """A response is complete."""

    request_id: Kept[str]
    """Id of the request that was answered."""
    response: Response
    """The complete response."""
    first_chunk_ms: int | None = None
    """Milliseconds from the sending of the request to its first chunk; `None` if the response came at once."""


class StreamCut(Value, tag_field=TAG):
    """A request failed, or its response broke off."""

    request_id: Kept[str]
    """Id of the request."""
    partial: Partial
    """Text and usage received before the failure."""
    failure: Failure
    """Why the request failed."""


class StreamStalled(Value, tag_field=TAG):
    """No chunk of the response came for `stall_timeout` seconds."""

    request_id: Kept[str]
    """Id of the request."""
    elapsed_s: float
    """Seconds since the last chunk, or since the request was sent if none has come."""
    partial: Partial = NOTHING_YET
    """Text and usage received before the stall."""


class ToolReturned(Value, tag_field=TAG):
    """A tool returned a result."""

    call_id: Kept[str]
    """Id of the call."""
    attempt: int
    """Number of the attempt."""
    result: ToolResult
    """What the tool returned."""
    jobs: Personal[tuple[str, ...] | None] = None
    """Background shell commands that run now; `None` if they did not change."""
    files: FileSpan | None = None
    """The snapshots of files around the call; `None` if none were taken."""


class ToolRaised(Value, tag_field=TAG):
    """A tool raised an exception."""

    call_id: Kept[str]
    """Id of the call."""
    attempt: int
    """Number of the attempt."""
    error: Personal[str]
    """Type and message of the exception."""
    files: FileSpan | None = None
    """The snapshots of files around the call; `None` if none were taken."""


class ToolStopped(Value, tag_field=TAG):
    """A tool that was cancelled has ended."""

    call_id: Kept[str]
    """Id of the call."""
    attempt: int
    """Number of the attempt."""
    files: FileSpan | None = None
    """The snapshots of files around the call; `None` if none were taken."""


class CallsEnded(Value, tag_field=TAG):
    """Several tool calls had ended before the session handled the end of the first: one step handles all of them."""

    ended: tuple[ToolReturned | ToolRaised | ToolStopped, ...]
    """How each call ended, in the order in which they did."""


class CallProbed(Value, tag_field=TAG):
    """Result of a `ProbeCall`: what became of a call that was running when an earlier process ended."""

    call_id: Kept[str]
    """Id of the call."""
    attempt: int
    """Number of the attempt."""
    outcome: Probed
    """The result of the call, or that it never started, or that its outcome is unknown."""


class TimerFired(Value, tag_field=TAG):
    """A timer that the session had set came due."""

    timer: Kept[str]
    """Name of the timer."""
    partial: Partial = NOTHING_YET
    """Text and usage of the running response so far; given only when the time limit of the turn is over."""


class AskSettled(Value, tag_field=TAG):
    """A plugin's ask has ended, with its result or error."""

    ask_id: Kept[str]
    """Id of the request (see `CarryOut`)."""
    answer: AskAnswer
    """The answer for the plugin."""
    usage: Usage = NOTHING_USED
    """Tokens that a model call for the plugin used."""


class CompactionEnded(Value, tag_field=TAG):
    """The context was shortened."""

    compaction_id: Kept[str]
    """Id of the compaction."""
    messages: tuple[Message, ...]
    """The conversation after the compaction."""
    removed: int
    """Number of messages that the compaction removed."""
    note: Personal[str]
    """What the compaction did, in words."""
    usage: Usage = NOTHING_USED
    """Usage of the model that wrote the summary."""


class CompactionFailed(Value, tag_field=TAG):
    """The context could not be shortened."""

    compaction_id: Kept[str]
    """Id of the compaction."""
    error: Personal[str]
    """Why the compaction failed."""
    usage: Usage = NOTHING_USED
    """Usage of the model that was to write the summary."""
    failure: Failure | None = None
    """Why no model could be reached, if that is why it failed; its `unreached_ms` are those of all attempts."""


class HooksWereSlow(Value, tag_field=TAG):
    """The plugins' hooks took too long in one step of the session."""

    plugins: Kept[tuple[str, ...]]
    """Keys of the plugins whose hooks ran in the step."""
    elapsed_ms: int
    """Duration of the step, in milliseconds."""


class SubagentStarted(Value, tag_field=TAG):
    """A tool call started a sub-agent (a child session)."""

    child: Kept[str]
    """Session id of the sub-agent."""
    call_id: Kept[str]
    """Id of the call that started the sub-agent."""
    agent: Kept[str]
    """Name of the sub-agent's kind in the parent's list of agents."""
    description: Personal[str]
    """The sub-agent's task, in a few words."""
    background: bool = False
    """Whether the call returns at once instead of waiting for the sub-agent."""
    peers: Kept[tuple[str, ...]] = ()
    """Session ids of the sub-agents with which it may exchange messages."""
    prompt: Personal[str] = ""
    """The sub-agent's prompt, which it does not have yet."""
    asked_by: Kept[tuple[str, ...]] = ()
    """Who has asked for the sub-agent's turn."""


class SubagentReported(Value, tag_field=TAG):
    """News from a running sub-agent: its events and its usage."""

    child: Kept[str]
    """Session id of the sub-agent."""
    events: tuple[Event, ...] = ()
    """Events of the sub-agent since the last report."""
    heard: int = 0
    """Sequence number of the last of these events."""
    used: Usage = NOTHING_USED
    """Total usage of the sub-agent, that of its own sub-agents included."""
    waits: bool = False
    """Whether the sub-agent can do nothing until a person decides something."""
    asked_by: Kept[tuple[str, ...]] = ()
    """Who has asked for what the sub-agent does: by its prompt, or by words that it was given since."""
    works: bool = True
    """Whether the sub-agent, or one of its own, goes on without a person."""


class SubagentEnded(Value, tag_field=TAG):
    """A sub-agent ended, and its own sub-agents with it."""

    child: Kept[str]
    """Session id of the sub-agent."""
    answer: Ok | Err
    """Final answer of the sub-agent, or why there is none; the result of the call that waits for the sub-agent."""


class ElsewhereUsed(Value, tag_field=TAG):
    """Other sessions used part of limits that this sub-agent shares with them."""

    used: Usage
    """Total usage of the other sessions since this sub-agent began."""
    worked_ms: int = 0
    """Milliseconds in which others worked and this sub-agent waited for a person."""


SubagentInput: TypeAlias = SubagentStarted | SubagentReported | SubagentEnded | ElsewhereUsed
StreamInput: TypeAlias = StreamEnded | StreamCut | StreamStalled
CallInput: TypeAlias = ToolReturned | ToolRaised | ToolStopped | CallsEnded | CallProbed

AnyInput: TypeAlias = (
    SessionOpened
    | Command
    | SessionBranched
    | ActorCommand
    | ActorRestarted
    | CrashedTooOften
    | SessionReturned
    | SleepDue
    | SessionWoke
    | StreamInput
    | CallInput
    | TimerFired
    | AskSettled
    | CompactionEnded
    | CompactionFailed
    | HooksWereSlow
    | SubagentInput
)

INPUTS: Final[tuple[type[Value], ...]] = get_args(AnyInput)


class Arrival(Value):
    """An input with the time and the random number for its step: the machine has no clock and no randomness."""

    input: AnyInput
    """The input, as the session's machine gets it."""
    at: int
    """When the input was taken from the mailbox, in milliseconds since 1970."""
    random: float = 0.5
    """A number between 0 and 1, for the jitter of back-offs."""
    partial: Partial = NOTHING_YET
    """Text and usage of the running response; set if the input has none and a critical plugin may abort the turn."""
    by: Kept[str] = ""
    """Who gave the command, in the words of the caller (`SessionHandle.by`); empty if nobody said so."""
    broken: tuple[PluginError, ...] = ()
    """Plugins whose `screen` failed for a text of the input."""
    request: Kept[str] = ""
    """Id of the request by which the command was given, in the words of the caller; empty if none was given."""
