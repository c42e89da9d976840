"""Calls that change the session's model, tools or plugins, in every state; and calls added later."""

from collections.abc import Callable
from typing import Final

import pytest

from agentrail.core.vocabulary.commands import (
    AttachPluginSent,
    ChangeToolsSent,
    DetachPluginSent,
    LabelSent,
    RespondSent,
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
from agentrail.core.vocabulary.state import AttachedTool, PluginChange
from agentrail.errors import IllegalInput, ToolExists, UnknownPlugin, UnknownTool, UsageError
from agentrail.events import (
    InputQuarantined,
    LabelsChanged,
    PluginAttached,
    PluginDetached,
    PluginOptsUpdated,
    SessionQuarantined,
    SessionRestarted,
    ToolAttached,
    ToolCalls,
    ToolDetached,
    ToolsUpdated,
)
from agentrail.hooks.attachments import attached_plugin
from agentrail.models import Failure, FailureKind, FrozenObject, Response, Text, Usage
from agentrail.plugins import Answered, AnyPlugin
from agentrail.tools import ToolSpec, Unknown, ok
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import LOOK, Bench, plug, ruled
from tests.cells.scenes import executing, idle, resting, running, streaming
from tests.cells.tables import CRASHES, OPENS, RETURNS, STATES
from tests.each_case import each_case
from tests.kit import (
    DONE,
    EMPTY,
    AbortSent,
    AnyInput,
    ApproveSent,
    CompactSent,
    PromptSent,
    Refused,
    RejectSent,
    Ruling,
    SteerSent,
    StopSent,
    TimerFired,
    ToolReturned,
)

IN: Final[dict[str, Callable[..., Bench]]] = {
    "idle": idle,
    "resting": resting,
    "running": running,
    "streaming": streaming,
    "executing_tools": lambda *plugins: executing(plugins=plugins),
}
BUSY: Final = tuple(state for state in STATES if state != "idle")
DIG: Final = ToolSpec("dig", "digs")
SEAT: Final = attached_plugin("P", plug(), 0)


def other(*, first: object = None) -> AnyPlugin:
    return plug("Other", first=first)


def test_title_and_labels_are_changed_at_once() -> None:
    for make in IN.values():
        bench = make()
        bench.send(LabelSent(("red", "blue"), (), "a title")).expect_only(
            answer=DONE,
            events=[LabelsChanged("a title", ("blue", "red"))],
            title="a title",
            labels=("blue", "red"),
        )
        bench.send(LabelSent(("green", "red"), ("red", "blue", "gone"))).expect_only(
            answer=DONE, events=[LabelsChanged("a title", ("green", "red"))], labels=("green", "red")
        )
        bench.send(LabelSent(("red",), ("blue",), "a title")).expect_only(answer=DONE)
        bench.send(LabelSent(title="")).expect_only(answer=DONE, events=[LabelsChanged("", ("green", "red"))], title="")
        many = tuple(f"l{number}" for number in range(63))
        bench.send(LabelSent(many)).expect_only(answer=Refused.of(UsageError("too-many-labels", 65, 64)))
        bench.send(LabelSent(many, ("red",)))
        assert len(bench.state.labels) == 64


def test_attached_tools_are_there_at_once() -> None:
    for make in IN.values():
        bench = make()
        bench.hook_runner.tool("dig", 7, lambda _args, _meter: None)
        old = bench.state
        tools = {**old.tools, "dig": AttachedTool(DIG, 7)}
        bench.send(ChangeToolsSent(attach=(DIG,), revision=7)).expect_only(
            answer=DONE,
            events=[ToolAttached("dig"), ToolsUpdated(("dig",), ())],
            tools=tools,
        )
        bench.send(ChangeToolsSent(attach=(DIG,), revision=8)).expect_only(answer=Refused.of(ToolExists("dig")))


def test_detached_tools_are_gone_at_once() -> None:
    for make in IN.values():
        bench = make()
        old = bench.state
        remaining = {name: tool for name, tool in old.tools.items() if name != "solo"}
        bench.send(ChangeToolsSent(detach=("solo",), revision=1)).expect_only(
            answer=DONE,
            events=[ToolDetached("solo"), ToolsUpdated((), ("solo",))],
            tools=remaining,
            removed_tools=("solo",),
        )
        text = "`look`, `edit`, `keep`, `store`"
        bench.send(ChangeToolsSent(detach=("solo",), revision=2)).expect_only(
            answer=Refused.of(UnknownTool("solo", text))
        )


def test_replaced_tools_are_the_new_ones_at_once() -> None:
    for make in IN.values():
        bench = make()
        new = LOOK.but(description="reads better")
        old = bench.state
        tools = {**old.tools, "look": AttachedTool(new, 3)}
        bench.send(ChangeToolsSent(attach=(new,), replace=True, revision=3)).expect_only(
            answer=DONE,
            events=[ToolAttached("look"), ToolsUpdated(("look",), ())],
            tools=tools,
        )


def test_a_change_of_tools_is_made_whole_or_not_at_all() -> None:
    for make in IN.values():
        bench = make()
        bench.send(ChangeToolsSent(attach=(DIG, LOOK), detach=("solo",), revision=1)).expect_only(
            answer=Refused.of(ToolExists("look"))
        )
        bench.send(ChangeToolsSent(attach=(DIG,), detach=("no",), revision=1)).expect_only(
            answer=Refused.of(UnknownTool("no", "`look`, `edit`, `keep`, `solo`, `store`"))
        )


def test_changed_tools_are_offered_from_the_next_request() -> None:
    for state in ("running", "streaming", "executing_tools"):
        bench = IN[state]()
        bench.send(ChangeToolsSent(attach=(DIG,), detach=("solo",), revision=1))
        if state == "executing_tools":
            bench.returns("c3")
        else:
            bench.answers("")
        offered = bench.got[-1].step.effects[-1]
        names = [spec.name for spec in getattr(offered, "request").tools]  # noqa: B009 - the request of its effect
        assert names == ["look", "edit", "keep", "store", "dig"]


def test_new_options_apply_at_once() -> None:
    bench = idle(other())
    new = bench.attach(other(), 1)
    bench.send(UpdatePluginSent(new, FrozenObject(level=2))).expect_only(
        answer=DONE,
        events=[PluginOptsUpdated("Other", success=True)],
        rulings=(*ruled("before_plugin_opts_update"), Ruling("on_options", states=((0, None),))),
        plugins=(new,),
    )


def test_new_options_wait_until_no_turn_is_open() -> None:
    for state in BUSY:
        bench = IN[state](other())
        new = bench.attach(other(), 1)
        change = PluginChange("update", "Other", new, FrozenObject(level=2))
        bench.send(UpdatePluginSent(new, FrozenObject(level=2))).expect_only(answer=DONE, plugin_changes=(change,))


def test_a_plugin_joins_at_once() -> None:
    bench = idle()
    attached = bench.attach(other(first=5))
    bench.send(AttachPluginSent(attached)).expect_only(
        answer=DONE,
        events=[PluginAttached("Other")],
        rulings=(Ruling("init", states=((0, 5),)),),
        plugins=(attached,),
        plugin_states=(5,),
    )
    bench.send(AttachPluginSent(attached)).expect_only(answer=Refused.of(UsageError("plugin-exists", "Other")))


def test_a_plugin_joins_when_no_turn_is_open() -> None:
    for state in BUSY:
        bench = IN[state]()
        attached = bench.attach(other())
        bench.send(AttachPluginSent(attached)).expect_only(
            answer=DONE, plugin_changes=(PluginChange("attach", "Other", attached),)
        )
        bench.send(AttachPluginSent(attached)).expect_only(answer=Refused.of(UsageError("plugin-exists", "Other")))


def test_a_plugin_leaves_at_once() -> None:
    bench = idle(other(), plug("Second", first=2))
    bench.send(DetachPluginSent("Other")).expect_only(
        answer=DONE,
        events=[PluginDetached("Other")],
        plugins=bench.got[-1].before.plugins[1:],
        plugin_states=(2,),
        removed_plugins=("Other",),
    )
    bench.send(DetachPluginSent("Other")).expect_only(answer=Refused.of(UnknownPlugin("Other", "`Second`")))


def test_a_plugin_leaves_when_no_turn_is_open() -> None:
    for state in BUSY:
        bench = IN[state](other())
        bench.send(DetachPluginSent("Other")).expect_only(
            answer=DONE, plugin_changes=(PluginChange("detach", "Other"),)
        )
        other_value = "`Holds`" if state == "resting" else "none"
        bench.send(DetachPluginSent("Other")).expect_only(answer=Refused.of(UnknownPlugin("Other", other_value)))


def test_an_unknown_plugin_cannot_be_updated() -> None:
    for state, make in IN.items():
        bench = make()
        other_value = "`Holds`" if state == "resting" else "none"
        bench.send(UpdatePluginSent(bench.attach(other()), FrozenObject(level=2))).expect_only(
            answer=Refused.of(UnknownPlugin("Other", other_value))
        )


# Calls that come later, and calls that no state takes


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
        SwitchModelSent("n"),
        ChangeToolsSent(),
        UpdatePluginSent(SEAT, EMPTY),
        AttachPluginSent(SEAT),
        DetachPluginSent("P"),
        CompactSent(),
        WithdrawSent("p"),
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


WATCHED: Final[dict[str, AnyInput]] = {
    "suspend": SuspendSent(),
    "resume": ResumeSent(),
    "trace": TraceSent(),
}


def demand_illegal(bench: Bench, input_: AnyInput) -> None:
    with pytest.raises(IllegalInput):
        bench.send(input_)


@pytest.mark.parametrize(("call", "state"), [(call, state) for call in WATCHED for state in STATES])
def test_what_is_about_the_actor_leaves_the_session_as_it_is(call: str, state: str) -> None:
    bench = IN[state]()
    bench.send(WATCHED[call]).expect_only(answer=DONE)


@pytest.mark.parametrize("state", STATES)
def test_a_crash_that_was_repaired_is_reported_and_nothing_else(state: str) -> None:
    bench = IN[state]()
    bench.send(ActorRestarted("KeyError: x")).expect_only(events=[SessionRestarted("KeyError: x")])


@pytest.mark.parametrize("state", STATES)
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
