"""The transition table: for each phase and kind of input, the phases and effects to which a step may lead."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, get_args

from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.effects import (
    CancelAsk,
    CancelCalls,
    CancelCompaction,
    CancelRequest,
    CarryOut,
    ClearTimer,
    CloseSession,
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
    CallsEnded,
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


class TableRule(Value, gc=True):
    """What one kind of input may do in one phase."""

    to: frozenset[Phase]
    """Phases in which the step may leave the session; empty if the input is illegal in this phase."""
    may: frozenset[type[Value]]
    """Types of the effects that the step may ask for."""
    why: str
    """Explanation of this rule, printed in the docs."""


InputTypes: TypeAlias = tuple[type[Value], ...]
Rows: TypeAlias = dict[type[Value], TableRule]


def illegal(why: str) -> TableRule:
    """Return a rule: the input raises `IllegalInput` in its phase."""
    return TableRule(frozenset(), frozenset(), why)


def goes(*to: Phase, may: InputTypes = (), why: str) -> TableRule:
    """Return a rule: the input may lead to the phases *to* and ask for the effects *may*."""
    return TableRule(frozenset(to), frozenset(may), why)


def each(inputs: InputTypes, rule: TableRule) -> Rows:
    """Return a dict that gives each of *inputs* the same rule."""
    return dict.fromkeys(inputs, rule)


NEW, IDLE, RUNNING = Phase.NEW, Phase.IDLE, Phase.RUNNING
STREAMING, EXECUTING, ENDED = Phase.STREAMING, Phase.EXECUTING_TOOLS, Phase.ENDED

# Inputs that share rules

WATCHED: Final[InputTypes] = get_args(commands.ActorCommand)
CRASHED: Final = (ActorRestarted, CrashedTooOften)
SLEEP: Final = (SleepDue, SessionWoke)
TALK: Final = (commands.PromptSent, commands.SteerSent)
DECISIONS: Final = (commands.ApproveSent, commands.RejectSent, commands.RespondSent, commands.ResultSent)
SETTINGS: Final = (commands.SwitchModelSent, commands.ChangeToolsSent)
PLUGIN_CHANGES: Final = (commands.UpdatePluginSent, commands.AttachPluginSent, commands.DetachPluginSent)
STREAM: Final = (StreamEnded, StreamCut, StreamStalled)
CALLS: Final = (ToolReturned, ToolRaised, ToolStopped, CallsEnded, CallProbed)
COMPACTIONS: Final = (CompactionEnded, CompactionFailed)
COMMANDS: Final[InputTypes] = (*get_args(commands.Command), *WATCHED)
SUBAGENTS: Final = (SubagentStarted, SubagentReported, SubagentEnded, ElsewhereUsed)
RESULTS: Final = (*STREAM, *CALLS, TimerFired, AskSettled, *COMPACTIONS, HooksWereSlow, *SUBAGENTS)

# Effects that occur together

ON: Final = (StartRequest, StartCompaction, CarryOut, SetTimer, ClearTimer)
"""Effects of going on until the session has to wait: with the turn's next request, or with the next prompt."""
LEAVE: Final = (CancelCalls, CancelAsk)
"""Effects of taking calls out of their turn, and of dropping paused hooks."""
END: Final = (CloseSession, CancelCalls, SetTimer, ClearTimer, StopSubagents)
"""Effects of ending a session: its background calls are cancelled and its sub-agents stopped first."""

AGAIN: Final = (ResumeSubagents, StartCall, ProbeCall, *LEAVE, *ON)
"""Effects of continuing, after a restart or a decision, the work that was under way before."""

# Rules that several phases share

LATE: Final = "it comes late, from work that was cancelled, and changes nothing"
OPENED: Final = illegal("the session is open already")
BACK: Final = (
    "timers are set again; an interrupted call runs again, is probed or is given up, by its effect class; "
    "the turn goes on, or rests if the caller asked for that"
)


def stays(phase: Phase, why: str, may: InputTypes = ()) -> TableRule:
    """Return a rule: the input leaves the session in *phase*."""
    return goes(phase, may=may, why=why)


def anywhere(phase: Phase) -> Rows:
    """Return the rules that are the same in each phase between the opening and the end of a session."""
    return {
        **each((SessionOpened, SessionBranched), OPENED),
        **each(SETTINGS, stays(phase, "a new model is used from the next turn on, new tools from the next request on")),
        **each(
            PLUGIN_CHANGES, stays(phase, "the change waits until no turn is open; the last update of a plugin wins")
        ),
        commands.WithdrawSent: stays(phase, "the prompt is removed from the queue, if it is still there"),
        commands.DisallowSent: stays(phase, "the approval for always ends, if it is still there"),
        commands.LabelSent: stays(phase, "title and labels are changed, unless there would be too many labels"),
        commands.FilesRewoundSent: stays(phase, "an event reports the files that came back"),
        HooksWereSlow: stays(phase, "an event reports the slow hooks"),
        **each(WATCHED, stays(phase, "the session's actor does what is asked; the session itself stays as it is")),
        **each(CRASHED, stays(phase, "an event reports it; work under way goes on, unless the session is set aside")),
        **each(SLEEP, stays(phase, "an event reports it; a session with work to do does not go to sleep")),
        **each(
            CALLS, stays(phase, "a call that left its turn ended; an event reports it if it lingered", (ClearTimer,))
        ),
        **each(STREAM, stays(phase, LATE)),
        **each(COMPACTIONS, stays(phase, "it comes too late; the usage of its summary is counted")),
        SubagentStarted: stays(phase, "an event reports the new sub-agent"),
        SubagentReported: stays(
            phase, "events and usage are taken over; time limits stop while a person decides", (SetTimer, ClearTimer)
        ),
        ElsewhereUsed: stays(phase, "what other sessions used counts for the limits that a sub-agent shares"),
        SubagentEnded: stays(
            phase, "an event reports it, and the next request too if it ran in the background", (ClearTimer,)
        ),
    }


NOBODY_WAITS: Final = (
    "no call can be held while the model is asked, so the id is refused, unless it names a doubt to end"
)
WHILE_ASKED: Final = "the prompt is queued until the turn ends"
UNTIL_REQUEST: Final = "the context is compacted before the next request"

_NEW: Rows = {
    SessionOpened: goes(
        *(IDLE, RUNNING, ENDED),
        may=(ReportStart, CloseSession, CarryOut, SetTimer),
        why="plugins get their first states, and `session_start` runs; a plugin may refuse, or ask for something first",
    ),
    SessionBranched: goes(
        *(IDLE, ENDED),
        may=(ReportStart, CloseSession, SetTimer),
        why="the fork is idle, with the original's held calls held again; it ends if a plugin cannot upgrade its state",
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
            why="the text starts a turn, unless a plugin refuses it; a turn at rest is ended for it, or it is queued",
        ),
    ),
    commands.AbortSent: goes(
        *(IDLE, RUNNING),
        may=(*ON, CancelCalls, StopSubagents),
        why="an event reports the abort; held calls are given up and their turn ends; then the next prompt is taken",
    ),
    commands.ApproveSent: goes(
        *(IDLE, RUNNING, EXECUTING),
        may=AGAIN,
        why="the plugins after the holder are asked, then the call runs; if one blocks it, the batch may be done",
    ),
    **each(
        (commands.RejectSent, commands.RespondSent, commands.ResultSent),
        goes(
            *(IDLE, RUNNING, EXECUTING),
            may=AGAIN,
            why="the call gets its result; when all calls have one, the model is asked again, or the turn ends",
        ),
    ),
    commands.CompactSent: goes(
        *(IDLE, RUNNING),
        may=(StartCompaction, CarryOut, SetTimer),
        why="the context is compacted at once, but not while a turn rests, nor if a plugin skips it",
    ),
    commands.StopSent: goes(
        ENDED, RUNNING, may=END, why="sub-agents end, then `session_end` runs, then the session ends"
    ),
    commands.ResumeSent: goes(
        *(IDLE, RUNNING, EXECUTING),
        may=AGAIN,
        why="a turn that a restart has paused goes on; the actor handles the messages that have waited",
    ),
    SessionReturned: goes(*(IDLE, RUNNING, EXECUTING), may=(ReportStart, *AGAIN), why=BACK),
    TimerFired: goes(
        *(IDLE, RUNNING, EXECUTING),
        may=AGAIN,
        why="nobody decided about a held call in time, a lingering call took too long, or a cancelled one does not end",
    ),
    AskSettled: stays(IDLE, "the hook that asked was dropped; the usage is counted"),
}

_RUNNING: Rows = {
    **anywhere(RUNNING),
    commands.PromptSent: stays(RUNNING, WHILE_ASKED),
    commands.SteerSent: goes(
        *(RUNNING, IDLE),
        may=(CancelRequest, *ON),
        why="the text joins the next request; with `now`, a request that is out, or the pause before a retry, is cut",
    ),
    commands.AbortSent: goes(
        *(IDLE, RUNNING, ENDED),
        may=(CancelRequest, CancelCompaction, *LEAVE, *ON, ReportStart, CloseSession, StopSubagents),
        why="the turn ends, or the prompt is rejected, or the session does not start; then the next prompt is taken",
    ),
    **each(DECISIONS, stays(RUNNING, NOBODY_WAITS)),
    commands.CompactSent: stays(RUNNING, UNTIL_REQUEST),
    commands.StopSent: goes(
        *(ENDED, RUNNING),
        may=(CancelRequest, CancelCompaction, CancelAsk, *END, ReportStart),
        why="the turn is aborted first, then sub-agents end; a session that was starting does not start",
    ),
    SubagentStarted: stays(RUNNING, "an event reports it; a session that is stopping stops it too", (StopSubagents,)),
    SubagentEnded: goes(
        *(RUNNING, ENDED),
        may=(CloseSession, ClearTimer),
        why="an event reports the end; a stopping session ends when its last sub-agent has",
    ),
    SessionReturned: goes(
        *(IDLE, RUNNING, EXECUTING, ENDED),
        may=(ReportStart, ResumeSubagents, StartCall, CancelAsk, CloseSession, *ON),
        why=BACK,
    ),
    StreamEnded: goes(
        *(IDLE, RUNNING, EXECUTING),
        may=(StartCall, CancelAsk, *ON),
        why="a response without chunks: its calls are ruled on and run, or it is final, or empty and requested again",
    ),
    StreamCut: goes(
        *(RUNNING, IDLE),
        may=ON,
        why="the request failed: it is retried, maybe after a compaction or with the next model, or the turn aborts",
    ),
    StreamStalled: goes(
        *(RUNNING, IDLE),
        may=(CancelRequest, *ON),
        why="an event reports the stall; after `stall_limit` of them the request is cut and made again",
    ),
    TimerFired: goes(
        *(RUNNING, IDLE, EXECUTING, ENDED),
        may=(CancelRequest, CancelCompaction, *LEAVE, StartCall, *ON, ReportStart, CloseSession),
        why="a retry is due; or something took too long: an ask, the turn, a lingering call, or a cancelled one",
    ),
    AskSettled: goes(
        *(RUNNING, IDLE, EXECUTING, ENDED),
        may=(StartCall, CancelAsk, *ON, ReportStart, CloseSession),
        why="the hook that waited goes on, then the work that waited for it",
    ),
    **each(
        COMPACTIONS,
        goes(RUNNING, IDLE, may=ON, why="the request goes out; the turn is aborted if the context is still too long"),
    ),
}

_STREAMING: Rows = {
    **anywhere(STREAMING),
    commands.PromptSent: stays(STREAMING, WHILE_ASKED),
    commands.SteerSent: goes(
        *(STREAMING, RUNNING, IDLE),
        may=(CancelRequest, *ON),
        why="the text waits until the response has ended; with `now`, the stream is cut, and its text so far is kept",
    ),
    commands.AbortSent: goes(
        *(IDLE, RUNNING, STREAMING),
        may=(CancelRequest, *LEAVE, *ON, StopSubagents),
        why="the stream is cut, its text so far is kept, and the turn ends, unless another turn is meant; then the "
        "next prompt is taken",
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
        why="the response's calls are ruled on and run, or it is final; `after_response` may ask for something first",
    ),
    StreamCut: goes(
        *(STREAMING, RUNNING, IDLE), may=ON, why="the response broke off: it is requested again, or the turn aborts"
    ),
    StreamStalled: goes(
        *(STREAMING, RUNNING, IDLE),
        may=(CancelRequest, *ON),
        why="an event reports the stall; after `stall_limit` of them the request is cut and made again",
    ),
    TimerFired: goes(
        *(STREAMING, RUNNING, IDLE, EXECUTING),
        may=(CancelRequest, *LEAVE, StartCall, *ON),
        why="something took too long: the turn, an ask of `after_response`, a lingering call, or a cancelled one",
    ),
    AskSettled: goes(
        *(STREAMING, RUNNING, IDLE, EXECUTING),
        may=(StartCall, CancelAsk, *ON),
        why="`after_response`, which waited, goes on",
    ),
}

_BATCH_GOES_ON: Final = (EXECUTING, RUNNING, IDLE)
_EXECUTING: Rows = {
    **anywhere(EXECUTING),
    commands.PromptSent: stays(EXECUTING, WHILE_ASKED),
    commands.SteerSent: goes(
        *_BATCH_GOES_ON,
        may=(*LEAVE, *ON),
        why="calls that are not immune are stopped with an error result; when none is left, the model is asked again",
    ),
    commands.AbortSent: goes(
        *(IDLE, RUNNING, EXECUTING),
        may=(*LEAVE, *ON, StopSubagents),
        why="calls are cancelled or go on in the background, as `kill_tools` says, and the turn ends, unless another "
        "turn is meant",
    ),
    commands.ApproveSent: goes(
        *_BATCH_GOES_ON,
        may=(StartCall, *LEAVE, *ON),
        why="the plugins after the one that held the call are asked, then it runs beside the others",
    ),
    commands.RejectSent: stays(EXECUTING, "the call gets an error result; the others go on", (ClearTimer, SetTimer)),
    **each(
        (commands.RespondSent, commands.ResultSent),
        goes(
            *_BATCH_GOES_ON,
            may=(StartCall, *LEAVE, *ON),
            why="the call gets its answer or result; `after_tool` is asked and may abort the turn",
        ),
    ),
    commands.CompactSent: stays(EXECUTING, UNTIL_REQUEST),
    commands.StopSent: goes(
        ENDED, RUNNING, may=(CancelAsk, *END), why="the turn is aborted first, with all its tools; then sub-agents end"
    ),
    SessionReturned: goes(*_BATCH_GOES_ON, may=(ReportStart, *AGAIN), why=BACK),
    **each(
        (ToolReturned, ToolRaised, ToolStopped, CallsEnded),
        goes(
            *_BATCH_GOES_ON,
            may=(StartCall, *LEAVE, *ON),
            why="the call gets its result, or runs again; others start; with the last result the model is asked again",
        ),
    ),
    CallProbed: goes(
        *_BATCH_GOES_ON,
        may=(StartCall, *LEAVE, *ON),
        why="the probe's result is the call's; or the call runs; or it gets an error result, as nothing is known",
    ),
    SubagentEnded: goes(
        *_BATCH_GOES_ON,
        may=(StartCall, *LEAVE, *ON),
        why="the call that waited for the sub-agent gets its answer; the batch goes on",
    ),
    TimerFired: goes(
        *_BATCH_GOES_ON,
        may=(StartCall, *LEAVE, *ON),
        why="a call, a decision, an ask of a plugin or the turn took too long; or a cancelled call, and others start",
    ),
    AskSettled: goes(
        *_BATCH_GOES_ON,
        may=(StartCall, *LEAVE, *ON),
        why="the hook that waited goes on, then the work that waited for it",
    ),
}

_ENDED: Rows = {
    **each((SessionOpened, SessionBranched), OPENED),
    **each((*COMMANDS, *CRASHED, SessionReturned, SessionWoke), illegal("the session has ended")),
    SleepDue: stays(ENDED, LATE),
    **each(RESULTS, stays(ENDED, LATE)),
}

NO_INPUT: Final = illegal("it is no input of a session")
"""The rule for a value of any class that is in no row."""

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
