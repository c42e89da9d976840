"""The transition table: for each phase and kind of input, the phases a step may lead to and the effects it may ask for.

It covers every pair, is checked at every step, and is printed in the docs. Tests demand that each entry is really used.
Two things are allowed with every rule and are not listed. A plugin's `on_event` may ask for `WriteLog`. A critical
plugin that fails in `on_event` aborts the open turn, as the rule of `AbortSent` allows in the phase reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, get_args

from agentrail.core.machine.table_rows import Kinds, Rows, TableRule, each, goes, illegal
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.effects import (
    CancelAsk,
    CancelCalls,
    CancelCompaction,
    CancelRequest,
    CarryOut,
    ClearTimer,
    CloseSession,
    OpenStream,
    ProbeCall,
    ReportStart,
    ResumeSubagents,
    SetTimer,
    StartCall,
    StartCompaction,
    StartRequest,
    StopSubagents,
)
from agentrail.core.vocabulary.inputs import (
    ActorRestarted,
    AskSettled,
    CallProbed,
    CompactionEnded,
    CompactionFailed,
    CrashedTooOften,
    ElsewhereUsed,
    HooksWereSlow,
    SessionBranched,
    SessionOpened,
    SessionReturned,
    SessionWoke,
    SleepDue,
    StreamBegan,
    StreamCut,
    StreamEnded,
    StreamStalled,
    SubagentEnded,
    SubagentReported,
    SubagentStarted,
    TimerFired,
    ToolRaised,
    ToolReturned,
    ToolStopped,
)
from agentrail.core.vocabulary.state import Phase
from agentrail.values.value import Value

NEW, IDLE, RUNNING = Phase.NEW, Phase.IDLE, Phase.RUNNING
STREAMING, EXECUTING, ENDED = Phase.STREAMING, Phase.EXECUTING_TOOLS, Phase.ENDED

# Inputs that share rules

WATCHED: Final[Kinds] = get_args(commands.ActorCommand)
CRASHED: Final = (ActorRestarted, CrashedTooOften)
SLEEP: Final = (SleepDue, SessionWoke)
TALK: Final = (commands.PromptSent, commands.SteerSent)
DECISIONS: Final = (commands.ApproveSent, commands.RejectSent, commands.RespondSent)
SETTINGS: Final = (commands.SwitchModelSent, commands.ChangeToolsSent)
PLUGIN_CHANGES: Final = (commands.UpdatePluginSent, commands.AttachPluginSent, commands.DetachPluginSent)
STREAM: Final = (StreamBegan, StreamEnded, StreamCut, StreamStalled)
CALLS: Final = (ToolReturned, ToolRaised, ToolStopped, CallProbed)
COMPACTIONS: Final = (CompactionEnded, CompactionFailed)
COMMANDS: Final[Kinds] = (*get_args(commands.Command), *WATCHED)
SUBAGENTS: Final = (SubagentStarted, SubagentReported, SubagentEnded, ElsewhereUsed)
RESULTS: Final = (*STREAM, *CALLS, TimerFired, AskSettled, *COMPACTIONS, HooksWereSlow, *SUBAGENTS)

# Effects that occur together

ON: Final = (StartRequest, StartCompaction, CarryOut, SetTimer, ClearTimer)
"""Effects of continuing until something must be waited for: this turn's next request, or the next prompt's turn."""
LEAVE: Final = (CancelCalls, CancelAsk)
"""Effects of taking calls out of their turn, and of dropping paused hooks."""
END: Final = (CloseSession, CancelCalls, SetTimer, ClearTimer, StopSubagents)
"""Effects of ending a session: its background calls are cancelled and its sub-agents stopped first."""

AGAIN: Final = (ResumeSubagents, StartCall, ProbeCall, *LEAVE, *ON)
"""Effects of continuing, after a restart, what was under way before."""

# Rules that several phases share

NOTED: Final = "it is noted, and nothing waits for it"
LATE: Final = "it belongs to something that was cancelled: it changes nothing"
OPENED: Final = illegal("the session was opened before")
BACK: Final = "what was under way goes on by what doing it again would mean, or rests; timers are set again"


def stays(phase: Phase, why: str, may: Kinds = ()) -> TableRule:
    """Return the rule of an input that leaves the session in *phase*."""
    return goes(phase, may=may, why=why)


def anywhere(phase: Phase) -> Rows:
    """Return rules that are the same in every phase in which a session lives."""
    return {
        **each((SessionOpened, SessionBranched), OPENED),
        **each(SETTINGS, stays(phase, "it applies at once to what is to come; the request that is out stays as it is")),
        **each(PLUGIN_CHANGES, stays(phase, "the row of plugins changes when no turn is open; the last write wins")),
        commands.WithdrawSent: stays(phase, "a queued prompt is taken back, if it is still queued"),
        HooksWereSlow: stays(phase, "it is reported"),
        **each(WATCHED, stays(phase, "it is about the session's actor: the session itself stays as it is")),
        **each(CRASHED, stays(phase, "it is reported; what was under way goes on, unless the actor is given up")),
        **each(SLEEP, stays(phase, "it is reported; a session that has something to do does not go to sleep")),
        **each(CALLS, stays(phase, "work that has left its turn ended: it is told, or only forgotten", (ClearTimer,))),
        **each(STREAM, stays(phase, LATE)),
        **each(COMPACTIONS, stays(phase, LATE)),
        SubagentStarted: stays(phase, "it is told"),
        SubagentReported: stays(
            phase, "what happens in it is told and counted; waiting for a person stops clocks", (SetTimer, ClearTimer)
        ),
        ElsewhereUsed: stays(phase, "limits that a sub-agent shares count it"),
        SubagentEnded: stays(
            phase, "it is told, with the next request too if it went on in the background", (ClearTimer,)
        ),
    }


NOBODY_WAITS: Final = "nothing can be held while the model is asked: the id is unknown"
WHILE_ASKED: Final = "it is queued until the turn ends"
UNTIL_REQUEST: Final = "the context is compacted before the next request"

_NEW: Rows = {
    SessionOpened: goes(
        *(IDLE, RUNNING, ENDED),
        may=(ReportStart, CloseSession, CarryOut, SetTimer),
        why="plugins get their first states; one may refuse, or ask for something first",
    ),
    SessionBranched: goes(
        *(IDLE, ENDED),
        may=(ReportStart, CloseSession, SetTimer),
        why="it rests; what was held is held again; a plugin may not be able to bring its state forward",
    ),
    **each((*COMMANDS, *CRASHED, *RESULTS, SessionReturned), illegal("the session has not been opened")),
    **each(SLEEP, illegal("the session has not been opened")),
}

_IDLE: Rows = {
    **anywhere(IDLE),
    **each(
        TALK,
        goes(
            *(IDLE, RUNNING),
            may=ON,
            why="it starts a turn, unless a plugin refuses it; what rests is superseded, or it queues behind it",
        ),
    ),
    commands.AbortSent: goes(
        *(IDLE, RUNNING),
        may=(*ON, CancelCalls, StopSubagents),
        why="the event is sent always; held calls are given up and their turn ends, then the next prompt is taken",
    ),
    commands.ApproveSent: goes(
        *(IDLE, RUNNING, EXECUTING),
        may=AGAIN,
        why="the call goes on behind the plugin that held it; if a later one stops it, the batch may be done",
    ),
    **each(
        (commands.RejectSent, commands.RespondSent),
        goes(
            *(IDLE, RUNNING, EXECUTING),
            may=AGAIN,
            why="the call has its result; with the last one the model goes on, or the turn ends",
        ),
    ),
    commands.CompactSent: goes(
        *(IDLE, RUNNING),
        may=(StartCompaction, CarryOut, SetTimer),
        why="the context is compacted at once; not while a turn rests, and not if a plugin skips it",
    ),
    commands.StopSent: goes(
        ENDED, RUNNING, may=END, why="sub-agents end, then `session_end` runs, and everything else ends"
    ),
    commands.ResumeSent: goes(
        *(IDLE, RUNNING, EXECUTING),
        may=AGAIN,
        why="a turn that rests since the session came back goes on; the actor handles what has waited",
    ),
    SessionReturned: goes(*(IDLE, RUNNING, EXECUTING), may=(ReportStart, *AGAIN), why=BACK),
    TimerFired: goes(
        *(IDLE, RUNNING, EXECUTING),
        may=AGAIN,
        why="nobody decided in time about a held call; or background work was too slow to end",
    ),
    AskSettled: stays(IDLE, "nobody waits for it any more; what it used counts"),
}

_RUNNING: Rows = {
    **anywhere(RUNNING),
    commands.PromptSent: stays(RUNNING, WHILE_ASKED),
    commands.SteerSent: goes(
        *(RUNNING, IDLE),
        may=(CancelRequest, *ON),
        why="it joins the next request; with `now` the one that is out, or a back-off, is cut for it",
    ),
    commands.AbortSent: goes(
        *(IDLE, RUNNING, ENDED),
        may=(CancelRequest, CancelCompaction, *LEAVE, *ON, ReportStart, CloseSession, StopSubagents),
        why="the turn ends, or the prompt is refused, or the session does not start; the next prompt is taken",
    ),
    **each(DECISIONS, stays(RUNNING, NOBODY_WAITS)),
    commands.CompactSent: stays(RUNNING, UNTIL_REQUEST),
    commands.StopSent: goes(
        *(ENDED, RUNNING),
        may=(CancelRequest, CancelCompaction, CancelAsk, *END, ReportStart),
        why="the turn is aborted first, then sub-agents end; a session that was starting does not start",
    ),
    SubagentStarted: stays(RUNNING, "it is told; it comes too late for a session that stops", (StopSubagents,)),
    SubagentEnded: goes(
        *(RUNNING, ENDED),
        may=(CloseSession, ClearTimer),
        why="it is told; a session that stops has waited for the last of them",
    ),
    SessionReturned: goes(*(IDLE, RUNNING, ENDED), may=(ReportStart, ResumeSubagents, CloseSession, *ON), why=BACK),
    StreamBegan: goes(STREAMING, RUNNING, may=(OpenStream,), why="the first chunk came: the deltas are let out"),
    StreamEnded: goes(
        *(IDLE, RUNNING, EXECUTING),
        may=(StartCall, CancelAsk, *ON),
        why="a response without chunks: its calls are ruled and run; or it is final, or nothing, and asked for again",
    ),
    StreamCut: goes(
        *(RUNNING, IDLE),
        may=ON,
        why="the request failed: it is tried again, or after a compaction, or the turn is aborted",
    ),
    StreamStalled: goes(
        *(RUNNING, IDLE),
        may=(CancelRequest, *ON),
        why="it is reported; one stall too many and the request is tried again",
    ),
    TimerFired: goes(
        *(RUNNING, IDLE, EXECUTING, ENDED),
        may=(CancelRequest, CancelCompaction, *LEAVE, StartCall, *ON, ReportStart, CloseSession),
        why="a back-off is over, a plugin waited too long, the turn took too long, or background work did",
    ),
    AskSettled: goes(
        *(RUNNING, IDLE, EXECUTING, ENDED),
        may=(StartCall, CancelAsk, *ON, ReportStart, CloseSession),
        why="the hook that waited goes on, and whatever it held up",
    ),
    **each(
        COMPACTIONS, goes(RUNNING, IDLE, may=ON, why="the request goes out; a forced one that changed nothing aborts")
    ),
}

_STREAMING: Rows = {
    **anywhere(STREAMING),
    commands.PromptSent: stays(STREAMING, WHILE_ASKED),
    commands.SteerSent: goes(
        *(STREAMING, RUNNING, IDLE),
        may=(CancelRequest, *ON),
        why="it waits for the gap; with `now` the stream is cut and the text that had come is kept",
    ),
    commands.AbortSent: goes(
        *(IDLE, RUNNING),
        may=(CancelRequest, *LEAVE, *ON, StopSubagents),
        why="the stream is cut, the text that had come is kept, the turn ends; the next prompt is taken",
    ),
    **each(DECISIONS, stays(STREAMING, NOBODY_WAITS)),
    commands.CompactSent: stays(STREAMING, UNTIL_REQUEST),
    commands.StopSent: goes(
        ENDED, RUNNING, may=(CancelRequest, CancelAsk, *END), why="the turn is aborted first, then sub-agents end"
    ),
    SessionReturned: goes(
        *(STREAMING, IDLE, RUNNING, EXECUTING), may=(ReportStart, ResumeSubagents, StartCall, CancelAsk, *ON), why=BACK
    ),
    StreamEnded: goes(
        *(STREAMING, IDLE, RUNNING, EXECUTING),
        may=(StartCall, CancelAsk, *ON),
        why="its calls are ruled and run; or it is final; `after_response` may ask for something first",
    ),
    StreamCut: goes(
        *(STREAMING, RUNNING, IDLE), may=ON, why="the response broke off: it is tried again, or the turn is aborted"
    ),
    StreamStalled: goes(
        *(STREAMING, RUNNING, IDLE), may=(CancelRequest, *ON), why="it is reported; one too many and the request is cut"
    ),
    TimerFired: goes(
        *(STREAMING, RUNNING, IDLE, EXECUTING),
        may=(CancelRequest, *LEAVE, StartCall, *ON),
        why="the turn took too long, `after_response` waited too long, or background work was too slow",
    ),
    AskSettled: goes(
        *(STREAMING, RUNNING, IDLE, EXECUTING), may=(StartCall, CancelAsk, *ON), why="`after_response` goes on"
    ),
}

_BATCH_GOES_ON: Final = (EXECUTING, RUNNING, IDLE)
_EXECUTING: Rows = {
    **anywhere(EXECUTING),
    commands.PromptSent: stays(EXECUTING, WHILE_ASKED),
    commands.SteerSent: goes(
        *_BATCH_GOES_ON,
        may=(*LEAVE, *ON),
        why="every call that is not immune is taken out of the batch; with the last one the model goes on",
    ),
    commands.AbortSent: goes(
        *(IDLE, RUNNING),
        may=(*LEAVE, *ON, StopSubagents),
        why="calls are cancelled or go on in the background; the turn ends",
    ),
    commands.ApproveSent: goes(
        *_BATCH_GOES_ON,
        may=(StartCall, *LEAVE, *ON),
        why="the call goes on beside the batch; a later plugin may stop it",
    ),
    commands.RejectSent: stays(EXECUTING, "the call has its result; the others go on", (ClearTimer, SetTimer)),
    commands.RespondSent: goes(
        *_BATCH_GOES_ON, may=(*LEAVE, *ON), why="the call has its answer, and `after_tool` may end the turn for it"
    ),
    commands.CompactSent: stays(EXECUTING, UNTIL_REQUEST),
    commands.StopSent: goes(
        ENDED, RUNNING, may=(CancelAsk, *END), why="the turn is aborted first, with all its tools; then sub-agents end"
    ),
    SessionReturned: goes(*_BATCH_GOES_ON, may=(ReportStart, *AGAIN), why=BACK),
    **each(
        (ToolReturned, ToolRaised, ToolStopped),
        goes(
            *_BATCH_GOES_ON,
            may=(StartCall, *LEAVE, *ON),
            why="the call has its result, or runs again; the next one starts; with the last one the model goes on",
        ),
    ),
    CallProbed: goes(
        *_BATCH_GOES_ON,
        may=(StartCall, CancelAsk, *ON),
        why="the call has its result, or runs, or nobody knows; the next one starts",
    ),
    SubagentEnded: goes(
        *_BATCH_GOES_ON,
        may=(StartCall, *LEAVE, *ON),
        why="the call that waits has its result; the batch goes on",
    ),
    TimerFired: goes(
        *_BATCH_GOES_ON,
        may=(StartCall, *LEAVE, *ON),
        why="a call, a hold, a plugin or the turn took too long; or cancelled work did, and makes room",
    ),
    AskSettled: goes(
        *_BATCH_GOES_ON, may=(StartCall, *LEAVE, *ON), why="the hook that waited goes on, and what it held up"
    ),
}

_ENDED: Rows = {
    **each((SessionOpened, SessionBranched), OPENED),
    **each((*COMMANDS, *CRASHED, SessionReturned, SessionWoke), illegal("the session has ended")),
    SleepDue: stays(ENDED, LATE),
    **each(RESULTS, stays(ENDED, LATE)),
}

TABLE: Final[Mapping[Phase, Mapping[type[Value], TableRule]]] = MappingProxyType(
    {
        phase: MappingProxyType({**rows})
        for phase, rows in (
            (NEW, _NEW),
            (IDLE, _IDLE),
            (RUNNING, _RUNNING),
            (STREAMING, _STREAMING),
            (EXECUTING, _EXECUTING),
            (ENDED, _ENDED),
        )
    }
)
"""The rule of each phase and each kind of input, for every pair."""
