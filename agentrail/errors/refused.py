"""Errors for refusals: by a person, a plugin, a sandbox or a limit."""

from __future__ import annotations

from agentrail.errors.branches import RefusedError


class PluginRefused(RefusedError):
    """A plugin refuses to run in this session; plugins raise it, with the reason, in `init` or `on_options`."""

    wording = "plugin `{1}` refuses: {0}"

    def __init__(self, reason: str, plugin: str = "") -> None:
        super().__init__(reason, plugin)


class SessionRefused(RefusedError):
    """A plugin, or an abort, refused the start of a session."""

    wording = "session `{0}` does not start: {1} ended `session_start`: {2}"

    def __init__(self, session: str, by: str, reason: str) -> None:
        super().__init__(session, by, reason)


class PromptWasRejected(RefusedError):
    """A plugin refused a prompt."""

    wording = "prompt `{0}` was rejected: {1}"

    def __init__(self, ref: str, reason: str) -> None:
        super().__init__(ref, reason)


class PromptWasDropped(RefusedError):
    """A queued prompt was removed from the queue before its turn began."""

    wording = "prompt `{0}` was dropped from the queue: {1}"

    def __init__(self, ref: str, reason: str) -> None:
        super().__init__(ref, reason)


class TurnAborted(RefusedError):
    """The turn that the caller waited for was aborted."""

    wording = "the turn of prompt `{0}` was aborted ({1}): {2}"

    def __init__(self, ref: str, kind: str, reason: str) -> None:
        super().__init__(ref, kind, reason)


class AnswerUnfit(RefusedError):
    """The answer does not fit `returns`: the model was asked again as often as allowed, or the class refuses it."""

    wording = "the answer to prompt `{0}` does not fit `returns`: {1}"

    def __init__(self, ref: str, reason: str) -> None:
        super().__init__(ref, reason)


class NoAnswer(RefusedError):
    """The turn has ended, or waits for a person, without an answer that fits `returns`."""

    wording = (
        "the turn of prompt `{0}` has no answer for `returns` ({1}); if it waits for a person (`held`), decide the "
        "calls in `status().held`, and call `ask` with the same `command` again to go on waiting"
    )

    def __init__(self, ref: str, stop_reason: str) -> None:
        super().__init__(ref, stop_reason)


class QueueFull(RefusedError):
    """The prompt queue is full."""

    wording = "the prompt queue is full ({0}); wait for a turn to end, or withdraw one"

    def __init__(self, limit: int) -> None:
        super().__init__(limit)


class SteeringQueueFull(RefusedError):
    """The steering queue is full."""

    wording = "the steering queue is full ({0}); it empties before the next request"

    def __init__(self, limit: int) -> None:
        super().__init__(limit)


class MailboxFull(RefusedError):
    """The mailbox of a session is full: of prompts, of messages to the open turn, or of aborts with command ids."""

    wording = (
        "the mailbox of `{0}` is full ({1} messages, {2} bytes): nothing was posted; "
        "await `prompt`, which waits for room, or send it again when some of that is handled"
    )

    def __init__(self, session: str, messages: int, size: int) -> None:
        super().__init__(session, messages, size)


class ToolChanged(RefusedError):
    """The tool of a held call was detached or replaced after the question about the call was asked."""

    wording = "cannot approve `{0}`: its tool `{1}` was detached or redefined since; reject it"

    def __init__(self, approval: str, tool: str) -> None:
        super().__init__(approval, tool)


class PathRefused(RefusedError):
    """A sandbox refuses this path, whether or not there is a file."""

    wording = "the path {0!r} is refused: {1}"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)


class CommandRefused(RefusedError):
    """A sandbox refuses this command, or all commands."""

    wording = "the command is refused: {0}"

    def __init__(self, why: str) -> None:
        super().__init__(why)


class SandboxMissing(RefusedError):
    """A program that confines commands is missing or does not work here, so the command was not run."""

    wording = "nothing was run, because `{0}` cannot confine it: {1}; install it, or choose `LocalSandbox` on purpose"

    def __init__(self, program: str, problem: str) -> None:
        super().__init__(program, problem)


class WebRefused(RefusedError):
    """A URL must not be fetched, such as that of a private address."""

    wording = "the address {0!r} is refused: {1}"

    def __init__(self, url: str, why: str) -> None:
        super().__init__(url, why)
