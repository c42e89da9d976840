"""Rows of the table that leave a session in its phase and ask for nothing: no step tells if one of them got wider."""

from collections.abc import Mapping
from typing import Final

from agentrail.core.machine.table import TABLE
from tests.kit import Phase

OPEN: Final = (Phase.IDLE, Phase.RUNNING, Phase.STREAMING, Phase.EXECUTING_TOOLS)
BUSY: Final = OPEN[1:]
ENDED: Final = (Phase.ENDED,)

STILL: Final[Mapping[tuple[Phase, ...], str]] = {
    OPEN: (
        "WithdrawSent DisallowSent LabelSent FilesRewoundSent SwitchModelSent ChangeToolsSent UpdatePluginSent "
        "AttachPluginSent DetachPluginSent SuspendSent TraceSent ActorRestarted CrashedTooOften SessionWoke"
    ),
    (*OPEN, *ENDED): "ElsewhereUsed HooksWereSlow SleepDue",
    BUSY: "PromptSent CompactSent ResumeSent",
    (Phase.RUNNING, Phase.STREAMING): "ApproveSent RejectSent RespondSent ResultSent",
    (Phase.IDLE, Phase.STREAMING, Phase.EXECUTING_TOOLS, *ENDED): ("CompactionEnded CompactionFailed SubagentStarted"),
    (Phase.IDLE, Phase.EXECUTING_TOOLS, *ENDED): "StreamEnded StreamCut StreamStalled",
    (Phase.IDLE, *ENDED): "AskSettled",
    ENDED: ("ToolReturned ToolRaised ToolStopped CallsEnded CallProbed TimerFired SubagentReported SubagentEnded"),
}
"""By phases: the inputs that change no phase and ask for no effect there, and there alone."""


def test_these_rows_and_no_others_hold_the_session_still() -> None:
    still = {
        (phase, kind.__name__)
        for phase, rows in TABLE.items()
        for kind, rule in rows.items()
        if rule.to == {phase} and not rule.may
    }
    assert still == {(phase, name) for phases, names in STILL.items() for phase in phases for name in names.split()}
