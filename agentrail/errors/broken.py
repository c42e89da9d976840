"""Errors for a broken contract: in the code of agentrail, of a plugin or of a journal."""

from __future__ import annotations

from agentrail.errors.branches import BrokenContractError


class BrokenPlugin(BrokenContractError):
    """A plugin returned an action that its hook does not accept, or raised an exception."""

    wording = "plugin `{0}` in `{1}`: {2}"

    def __init__(self, plugin: str, hook: str, problem: str) -> None:
        super().__init__(plugin, hook, problem)


class StateNotStorable(BrokenContractError):
    """The state of a plugin cannot be stored."""

    wording = (
        "the state of plugin `{0}` cannot be stored: {1}; keep frozen attrs classes of plain values, up to {2} bytes"
    )

    def __init__(self, plugin: str, problem: str, limit: int) -> None:
        super().__init__(plugin, problem, limit)


class LeftItsRow(BrokenContractError):
    """A step of the machine did something that its row of the transition table does not allow."""

    wording = "a step on `{1}` in state `{0}` left its row of the table: {2}; please report this"

    def __init__(self, phase: str, input_: str, what: str) -> None:
        super().__init__(phase, input_, what)


class ReplayDiffers(BrokenContractError):
    """Replaying a record of a session gives another result than the record has."""

    wording = "session `{0}`, record {1}: the replay differs in {2}"

    def __init__(self, session: str, number: int, what: str) -> None:
        super().__init__(session, number, what)


class BrokenJournal(BrokenContractError):
    """A journal raised an exception that means a bug in its code, not a failure of its disk or server."""

    wording = (
        "the journal was to {0} and raised {1}; where it cannot be used just now a journal raises a "
        "`JournalFailed`, or what its disk or its connection raised; report this to whoever wrote it"
    )

    def __init__(self, attempt: str, problem: str) -> None:
        super().__init__(attempt, problem)
