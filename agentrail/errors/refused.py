"""Errors for refusals: by a person, a plugin, a sandbox or a limit."""

from __future__ import annotations

from agentrail.errors.agentrail_error import RefusedError, error


@error
class PluginRefused(RefusedError):
    """A plugin refuses to run in this session; plugins raise it, with the reason, in `init` or `on_options`."""

    wording = "plugin `{plugin}` refuses: {reason}"

    reason: str
    """Why it refuses."""
    plugin: str = ""
    """Key of the plugin; the session fills it in."""


@error
class SessionRefused(RefusedError):
    """A plugin, or an abort, refused the start of a session."""

    wording = "session `{session}` does not start: {by} ended `session_start`: {reason}"

    session: str
    """Id of the session."""
    by: str
    """Key of the plugin that refused it, or who aborted it."""
    reason: str
    """Why it was refused."""


@error
class PromptWasRejected(RefusedError):
    """A plugin refused a prompt."""

    wording = "prompt `{ref}` was rejected: {reason}"

    ref: str
    """Ref of the prompt."""
    reason: str
    """Why it was refused."""


@error
class PromptWasDropped(RefusedError):
    """A queued prompt was removed from the queue before its turn began."""

    wording = "prompt `{ref}` was dropped from the queue: {reason}"

    ref: str
    """Ref of the prompt."""
    reason: str
    """Why it was removed."""


@error
class TurnAborted(RefusedError):
    """The turn that the caller waited for was aborted."""

    wording = "the turn of prompt `{ref}` was aborted ({kind}): {reason}"

    ref: str
    """Ref of the prompt."""
    kind: str
    """The kind of the abort."""
    reason: str
    """Why it was aborted."""


@error
class AnswerUnfit(RefusedError):
    """The answer does not fit `returns`: the model was asked again as often as allowed, or the class refuses it."""

    wording = "the answer to prompt `{ref}` does not fit `returns`: {reason}"

    ref: str
    """Ref of the prompt."""
    reason: str
    """Why the answer does not fit."""


@error
class NoAnswer(RefusedError):
    """The turn has ended, or waits for a person, without an answer that fits `returns`."""

    wording = (
        "the turn of prompt `{ref}` has no answer for `returns` ({stop_reason}); if it waits for a person (`held`), "
        "decide the calls in `status().held`, and call `ask` with the same `command` again to go on waiting"
    )

    ref: str
    """Ref of the prompt."""
    stop_reason: str
    """Why the turn ended, or what it waits for."""


@error
class QueueFull(RefusedError):
    """The prompt queue is full."""

    wording = "the prompt queue is full ({limit}); wait for a turn to end, or withdraw one"

    limit: int
    """The most prompts in the queue."""


@error
class SteeringQueueFull(RefusedError):
    """The steering queue is full."""

    wording = "the steering queue is full ({limit}); it empties before the next request"

    limit: int
    """The most messages in the queue."""


@error
class MailboxFull(RefusedError):
    """The mailbox of a session is full: of prompts, of messages to the open turn, or of aborts with command ids."""

    wording = (
        "the mailbox of `{session}` is full ({messages} messages, {size} bytes): nothing was posted; "
        "await `prompt`, which waits for room, or send it again when some of that is handled"
    )

    session: str
    """Id of the session."""
    messages: int
    """Number of messages in it."""
    size: int
    """Size of these messages, in bytes."""


@error
class PathRefused(RefusedError):
    """A sandbox refuses this path, whether or not there is a file."""

    wording = "the path {path!r} is refused: {why}"

    path: str
    """The path, as it was given."""
    why: str
    """Why it is refused."""


@error
class CommandRefused(RefusedError):
    """A sandbox refuses this command, or all commands."""

    wording = "the command is refused: {why}"

    why: str
    """Why it is refused."""


@error
class SandboxMissing(RefusedError):
    """A program that confines commands is missing or does not work here, so the command was not run."""

    wording = (
        "nothing was run, because `{program}` cannot confine it: {problem}; install it, or choose `LocalSandbox` on "
        "purpose"
    )

    program: str
    """Name of the program."""
    problem: str
    """Why it cannot confine the command."""


@error
class WebRefused(RefusedError):
    """A URL must not be fetched, such as that of a private address."""

    wording = "the address {url!r} is refused: {why}"

    url: str
    """The URL."""
    why: str
    """Why it is refused."""
