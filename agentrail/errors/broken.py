"""Errors for a broken contract: in the code of agentrail, of a plugin or of a journal."""

from __future__ import annotations

from agentrail.errors.agentrail_error import BrokenContractError, error


@error
class BrokenPlugin(BrokenContractError):
    """A plugin returned an action that its hook does not accept, or raised an exception."""

    wording = "plugin `{plugin}` in `{hook}`: {problem}"

    plugin: str
    """Key of the plugin."""
    hook: str
    """Name of the hook."""
    problem: str
    """What is wrong."""


@error
class StateNotStorable(BrokenContractError):
    """The state of a plugin cannot be stored."""

    wording = (
        "the state of plugin `{plugin}` cannot be stored: {problem}; keep frozen attrs classes of plain values, up to "
        "{limit} bytes"
    )

    plugin: str
    """Key of the plugin."""
    problem: str
    """What is wrong."""
    limit: int
    """The most bytes of a state."""


@error
class LeftItsRow(BrokenContractError):
    """A step of the machine did something that its row of the transition table does not allow."""

    wording = "a step on `{input_}` in state `{phase}` left its row of the table: {what}; please report this"

    phase: str
    """Phase of the session."""
    input_: str
    """Kind of the input."""
    what: str
    """What the table does not allow."""


@error
class CommandSetAside(BrokenContractError):
    """A command crashed its session's actor again when it was handled again, and was put aside; nothing was done."""

    wording = (
        "session `{session}` crashed twice on this `{command}` and has put it aside ({cause}); the session goes on "
        "without it; please report this"
    )

    session: str
    """Id of the session."""
    command: str
    """Kind of the command, such as `PromptSent`."""
    cause: str
    """The exception that crashed the actor, as text."""


@error
class ReplayDiffers(BrokenContractError):
    """Replaying a record of a session gives another result than the record has."""

    wording = "session `{session}`, record {number}: the replay differs in {what}"

    session: str
    """Id of the session."""
    number: int
    """Number of the record."""
    what: str
    """The part in which they differ."""


@error
class BrokenJournal(BrokenContractError):
    """A journal raised an exception that means a bug in its code, not a failure of its disk or server."""

    wording = (
        "the journal was to {attempt} and raised {problem}; where it cannot be used just now a journal raises a "
        "`JournalFailed`, or what its disk or its connection raised; report this to whoever wrote it"
    )

    attempt: str
    """What the journal was to do."""
    problem: str
    """The exception, as text."""
