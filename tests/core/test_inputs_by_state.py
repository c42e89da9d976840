"""Which inputs a session takes in which state; what a crash leaves as it is."""

from collections.abc import Callable
from typing import Final

import pytest

from agentrail.core.vocabulary.commands import (
    AttachPluginSent,
    ChangeToolsSent,
    DetachPluginSent,
    DisallowSent,
    FilesRewoundSent,
    LabelSent,
    RespondSent,
    ResultSent,
    ResumeSent,
    SuspendSent,
    SwitchModelSent,
    TraceSent,
    UpdatePluginSent,
    WithdrawSent,
)
from agentrail.core.vocabulary.inputs import (
    INPUTS,
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
    ToolRaised,
    ToolStopped,
)
from agentrail.errors import IllegalInput
from agentrail.events import (
    InputQuarantined,
    SessionQuarantined,
    SessionRestarted,
    ToolCalls,
)
from agentrail.hooks.attachments import attached_plugin
from agentrail.models import Failure, FailureKind, Response, Text, Usage
from agentrail.plugins import Answered
from agentrail.sandboxes import FileSpan, Rewound
from agentrail.tools import Unknown, ok
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import Bench, plug
from tests.cells.scenes import executing, idle, resting, running, streaming
from tests.each_case import each_case
from tests.kit import (
    EMPTY,
    AbortSent,
    AnyInput,
    ApproveSent,
    CompactSent,
    PromptSent,
    RejectSent,
    SteerSent,
    StopSent,
    TimerFired,
    ToolReturned,
)

OPENS: Final = frozenset({"SessionOpened", "SessionBranched"})
"""The inputs that open a new session: it takes only these, and other sessions do not take them."""

CRASHES: Final = frozenset({"ActorRestarted", "CrashedTooOften"})
"""Inputs from the supervisor about crashes, to a session that lives on."""

RETURNS: Final = frozenset({"SessionReturned", "SessionWoke"})
"""The inputs with which a session comes back from its records."""

IN: Final[dict[str, Callable[[], Bench]]] = {
    "idle": idle,
    "resting": resting,
    "running": running,
    "streaming": streaming,
    "executing_tools": executing,
}
SEAT: Final = attached_plugin("P", plug(), 0)

INPUT_EXAMPLES: Final[dict[str, AnyInput]] = {
    type(given).__name__: given
    for given in (
        SessionOpened(),
        PromptSent((Text("hello"),)),
        SteerSent("hello"),
        AbortSent(),
        ApproveSent("a"),
        RejectSent("a"),
        RespondSent("q", "yes"),
        ResultSent("r", ok("made elsewhere")),
        SwitchModelSent("n"),
        ChangeToolsSent(),
        UpdatePluginSent(SEAT, EMPTY),
        AttachPluginSent(SEAT),
        DetachPluginSent("P"),
        CompactSent(),
        WithdrawSent("p"),
        DisallowSent("n", "f"),
        FilesRewoundSent(1, None, over_edits=False, rewound=Rewound((), (), 3), count=0, files=FileSpan("a", "b")),
        LabelSent(("l",)),
        StopSent(),
        SuspendSent(),
        ResumeSent(),
        TraceSent(),
        ActorRestarted("KeyError: x"),
        CrashedTooOften("KeyError: x"),
        SessionBranched("other", 1),
        SessionReturned(1, ()),
        SleepDue(),
        SessionWoke(),
        StreamEnded("r", Response()),
        StreamCut("r", NOTHING_YET, Failure(FailureKind.PERMANENT, "Gone", "gone")),
        StreamStalled("r", 30.0),
        ToolReturned("c", 1, ok("late")),
        ToolRaised("c", 1, "late"),
        ToolStopped("c", 1),
        CallsEnded((ToolReturned("c", 1, ok("late")), ToolStopped("d", 1))),
        CallProbed("c", 1, Unknown()),
        TimerFired("retry"),
        AskSettled("ask", Answered(None)),
        CompactionEnded("k", (), 0, "late"),
        CompactionFailed("k", "late"),
        HooksWereSlow(("P",), 70),
        SubagentStarted("s.c1", "c1", "finder", "find it"),
        SubagentReported("s.c1", (ToolCalls(1),), 1),
        SubagentEnded("s.c1", ok("found")),
        ElsewhereUsed(Usage(8, 2)),
    )
}


def test_there_is_an_example_of_every_input() -> None:
    assert {type(example) for example in INPUT_EXAMPLES.values()} == set(INPUTS)


def demand_illegal(bench: Bench, input_: AnyInput) -> None:
    with pytest.raises(IllegalInput):
        bench.send(input_)


@pytest.mark.parametrize("state", IN)
def test_a_crash_that_was_repaired_is_reported_and_nothing_else(state: str) -> None:
    bench = IN[state]()
    bench.send(ActorRestarted("KeyError: x")).expect_only(events=[SessionRestarted("KeyError: x")])


@pytest.mark.parametrize("state", IN)
def test_crashes_that_were_too_many_are_reported_and_remembered(state: str) -> None:
    bench = IN[state]()
    events = [InputQuarantined("PromptSent", "KeyError: x"), SessionQuarantined("KeyError: x")]
    crashed = "KeyError: x"
    bench.send(CrashedTooOften("KeyError: x", "PromptSent")).expect_only(events=events, quarantine_cause=crashed)
    IN[state]().send(CrashedTooOften("KeyError: x")).expect_only(events=events[1:], quarantine_cause=crashed)


def _new() -> Bench:
    return Bench(opened=False)


def _ended() -> Bench:
    bench = idle()
    bench.send(StopSent())
    return bench


PHASES: Final[dict[str, Callable[[], Bench]]] = {"new": _new, **IN, "ended": _ended}


@pytest.mark.parametrize("state", PHASES)
def test_no_state_takes_what_has_no_meaning_there(state: str) -> None:
    for name, example in INPUT_EXAMPLES.items():
        if state == "new":
            legal = name in OPENS
        else:
            lives = state != "ended" or not (name.endswith("Sent") or name in CRASHES | RETURNS)
            legal = lives and name not in OPENS
        bench = PHASES[state]()
        bench.attach(plug())
        if legal:
            bench.send(example)
        else:
            demand_illegal(bench, example)


@each_case([name for name in INPUT_EXAMPLES if not name.endswith("Sent")])
def test_an_ended_session_ignores_every_result(name: str) -> None:
    if name not in OPENS | CRASHES | RETURNS:
        _ended().send(INPUT_EXAMPLES[name]).expect_nothing()


def test_the_state_that_is_given_stays_as_it_is() -> None:
    for make in IN.values():
        bench = make()
        old, picture = bench.state, repr(bench.state)
        bench.prompt("next")
        assert repr(old) == picture
