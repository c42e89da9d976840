"""A person, a plugin or a limit said no."""

from __future__ import annotations

from agentrail.errors.branches import RefusedError


class PluginRefused(RefusedError):
    """A plugin does not want to run here: raise it, with the reason, in `init` or `on_options`."""

    wording = "plugin `{1}` refuses: {0}"

    def __init__(self, reason: str, plugin: str = "") -> None:
        super().__init__(reason, plugin)


class SessionRefused(RefusedError):
    """A plugin, or an abort, ended the start of a session."""

    wording = "session `{0}` does not start: {1} ended `session_start`: {2}"

    def __init__(self, session: str, by: str, reason: str) -> None:
        super().__init__(session, by, reason)


class PromptWasRejected(RefusedError):
    """A plugin refused a prompt."""

    wording = "prompt `{0}` was rejected: {1}"

    def __init__(self, ref: str, reason: str) -> None:
        super().__init__(ref, reason)


class PromptWasDropped(RefusedError):
    """A queued prompt was dropped before it was taken."""

    wording = "prompt `{0}` was dropped from the queue: {1}"

    def __init__(self, ref: str, reason: str) -> None:
        super().__init__(ref, reason)


class TurnAborted(RefusedError):
    """The turn that was waited for was aborted."""

    wording = "the turn of prompt `{0}` was aborted ({1}): {2}"

    def __init__(self, ref: str, kind: str, reason: str) -> None:
        super().__init__(ref, kind, reason)


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
    """As much waits for the session as may: prompts, or what is said to the open turn, or aborts with command ids."""

    wording = (
        "the mailbox of `{0}` is full ({1} messages, {2} bytes): nothing was posted; "
        "await `prompt`, which waits for room, or send it again when some of that is handled"
    )

    def __init__(self, session: str, messages: int, size: int) -> None:
        super().__init__(session, messages, size)


class ToolChanged(RefusedError):
    """A held call's tool is no longer the one that was asked about."""

    wording = "cannot approve `{0}`: its tool `{1}` was detached or redefined since; reject it"

    def __init__(self, approval: str, tool: str) -> None:
        super().__init__(approval, tool)


class PathRefused(RefusedError):
    """A sandbox does not open this path, whatever is there."""

    wording = "the path {0!r} is refused: {1}"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)


class CommandRefused(RefusedError):
    """A sandbox does not run this command, or none at all."""

    wording = "the command is refused: {0}"

    def __init__(self, why: str) -> None:
        super().__init__(why)


class SandboxMissing(RefusedError):
    """What is needed to confine a command is not there, so nothing was run."""

    wording = "nothing was run, because `{0}` cannot confine it: {1}; install it, or choose `LocalSandbox` on purpose"

    def __init__(self, program: str, problem: str) -> None:
        super().__init__(program, problem)


class WebRefused(RefusedError):
    """An address is not fetched, whatever is there."""

    wording = "the address {0!r} is refused: {1}"

    def __init__(self, url: str, why: str) -> None:
        super().__init__(url, why)
