"""Sessions that come back: by its effect class, a call that was under way runs again or is reported as unknown."""

import pytest
from attrs import frozen

from agentrail import Abort, Ask, Context, Continue, Options, Plugin
from agentrail.core.machine.step import Step
from agentrail.core.machine.step import step as make_step
from agentrail.core.vocabulary.commands import (
    AttachPluginSent,
    ChangeToolsSent,
    DetachPluginSent,
    ResumeSent,
    UpdatePluginSent,
)
from agentrail.core.vocabulary.effects import (
    CancelAsk,
    CancelCalls,
    CarryOut,
    ProbeCall,
    ReportStart,
    SetTimer,
    StartCall,
    StartCompaction,
    StartRequest,
)
from agentrail.core.vocabulary.inputs import (
    AskSettled,
    CallProbed,
    SessionReturned,
    StreamCut,
    SubagentStarted,
)
from agentrail.core.vocabulary.state import PluginChange
from agentrail.errors import PluginMismatch, PluginRefused
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AskAnswered,
    AskStarted,
    PluginAttached,
    PluginDetached,
    PluginOptsUpdated,
    PluginUpgraded,
    PromptQueued,
    RequestStart,
    Retry,
    SessionRecovered,
    SubagentEnd,
    ToolExecutionStart,
    ToolsUpdated,
    ToolUnknown,
)
from agentrail.models import Failure, FailureKind, FrozenObject, Json, JsonObject, ToolCall
from agentrail.plugins import AfterTool, Answered, CallService, Failed, Hook, RunTool, WriteFile
from agentrail.testing import Holder
from agentrail.testing.probe_plugins import Asker, Guard
from agentrail.testing.world.random_setups import TOOLS
from agentrail.tools import AskPerson, Effect, EffectClass, NotStarted, ToolSpec, Unknown, ok
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import plug
from tests.core.driving import answer, ask_for_calls, back, begin, call, ends, events, hello, names, results, session
from tests.kit import (
    DONE,
    EMPTY,
    AbortSent,
    ApproveSent,
    Arrival,
    CompactSent,
    Phase,
    Refused,
    RejectSent,
    SteerSent,
    StopSent,
    ToolReturned,
)
from tests.machinery.worlds.checked_world import CheckedWorld


def kinds(step: Step) -> list[str]:
    return [type(effect).__name__ for effect in step.effects]


# A model request


def test_a_request_is_sent_again_and_its_partial_text_is_dropped() -> None:
    world = session()
    world.apply(hello())
    begin(world)
    step = world.apply(back(world))
    assert events(step) == [
        SessionRecovered(2),
        Retry(1, 0, "the process ended", dropped_text=True),
        RequestStart("r3", "model0", 1, 2),
    ]
    (request,) = (effect for effect in step.effects if isinstance(effect, StartRequest))
    assert [message.text for message in request.request.messages] == ["hello"]
    assert ReportStart() in step.effects
    answer(world, text="here")
    assert world.state.phase is Phase.IDLE
    assert [message.text for message in world.state.history] == ["hello", "here"]


def test_a_back_off_goes_on() -> None:
    world = session()
    world.apply(hello())
    (request_id,) = world.out.live_requests
    world.apply(StreamCut(request_id, NOTHING_YET, Failure(FailureKind.TRANSIENT, "Overloaded", "later")))
    timers = world.state.timers
    step = world.apply(back(world))
    assert events(step) == [SessionRecovered(3)]
    assert [SetTimer(name, time) for name, time in timers] == [e for e in step.effects if isinstance(e, SetTimer)]
    assert world.state.timers == timers


def test_a_compaction_is_made_again() -> None:
    world = session()
    world.apply(hello())
    answer(world, text="hello to you")
    world.apply(CompactSent())
    step = world.apply(back(world))
    assert names(step) == ["SessionRecovered", "CompactEnd", "BeforeCompact", "CompactStart"]
    assert [e for e in step.effects if isinstance(e, StartCompaction)] != []


def test_a_compaction_that_a_plugin_is_asking_about_again_is_not_ended_twice() -> None:
    world = session(Asker("before_compact"))
    world.apply(hello())
    answer(world, text="hello to you")
    world.apply(CompactSent())
    (ask_id,) = world.out.live_asks
    world.apply(AskSettled(ask_id, Failed("no")))
    assert names(world.apply(back(world))) == ["SessionRecovered", "CompactEnd", "BeforeCompact", "AskStarted"]
    (ask_id,) = world.out.live_asks
    step = world.apply(back(world))
    assert names(step) == ["SessionRecovered"]
    assert [effect.ask_id for effect in step.effects if isinstance(effect, CarryOut)] == [ask_id]


# Calls


@pytest.mark.parametrize("name", ["read", "fix"])
def test_a_call_that_can_run_again_runs_again_under_the_same_key(name: str) -> None:
    world = session()
    first = ask_for_calls(world, call(name))
    step = world.apply(back(world))
    (old_effect,) = (effect for effect in first.effects if isinstance(effect, StartCall))
    (again,) = (effect for effect in step.effects if isinstance(effect, StartCall))
    assert again == old_effect.but(attempt=2)
    assert ToolExecutionStart(old_effect.call_id, name, old_effect.args, 2) in events(step)


def test_a_call_that_ends_the_process_each_time_is_given_up() -> None:
    world = session()
    ask_for_calls(world, call("read"))
    world.apply(back(world))
    world.apply(back(world))
    step = world.apply(back(world))
    assert ToolUnknown("c3", "read") in events(step)
    assert results(world.state) == ["the process ended while the call ran; it only reads, so it can be called again"]


def test_an_unsafe_call_is_told_as_unknown_and_does_not_run_again() -> None:
    world = session()
    ask_for_calls(world, call("keep"), call("read"))
    world.apply(ToolReturned("c4", 1, ok("text")))
    step = world.apply(back(world))
    assert ToolUnknown("c3", "keep") in events(step)
    assert "StartCall" not in kinds(step)
    assert results(world.state) == [
        "the process ended while the call ran; it may have taken effect; find out before calling it again",
        "text",
    ]
    assert [doubt.name for doubt in world.state.in_doubt_calls] == ["keep"]


def test_the_same_unsafe_call_is_held_for_a_person_afterwards() -> None:
    world = session()
    ask_for_calls(world, call("write"))
    world.apply(back(world))
    step = answer(world, call("write"))
    assert "ApprovalRequired" in names(step)
    assert "StartCall" not in kinds(step)


def probed(value: object) -> tuple[CheckedWorld, Step]:
    world = session()
    ask_for_calls(world, call("solo"))
    step = world.apply(back(world))
    (probe,) = (effect for effect in step.effects if isinstance(effect, ProbeCall))
    assert (probe.call_id, probe.key) == ("c3", "s/c3")
    return world, world.apply(CallProbed("c3", 1, value))  # type: ignore[arg-type]


def test_a_checkable_call_that_was_done_has_its_result() -> None:
    world, _ = probed(ok("done then"))
    assert results(world.state) == ["done then"]


def test_a_checkable_call_that_had_not_started_runs() -> None:
    world, step = probed(NotStarted())
    assert [e.attempt for e in step.effects if isinstance(e, StartCall)] == [1]
    assert results(world.state) == []


def test_an_abort_after_a_probe_drops_what_another_call_waits_for() -> None:
    def aborts_or_asks(hook: AfterTool, state: None, _ctx: Context) -> object:
        return Abort("enough") if hook.name == "check" else Ask(RunTool("read", FrozenObject(path="b")), state)

    check = ToolSpec("check", "can tell", effect=EffectClass.CHECKABLE)
    world = session(plug("Careful", after_tool=aborts_or_asks), tools=(*TOOLS, check))
    ask_for_calls(world, call("check"), call("read"))
    world.apply(ToolReturned("c4", 1, ok("read")))
    (waiting,) = world.state.suspended_runs
    world.apply(back(world))
    step = world.apply(CallProbed("c3", 1, ok("done then")))
    assert CancelAsk(waiting.ask_id) in step.effects
    assert world.state.suspended_runs == ()


def test_an_abort_after_a_probe_cancels_the_calls_that_run() -> None:
    def aborts(hook: AfterTool, state: None, _ctx: Context) -> object:
        return Abort("enough") if hook.name == "check" else Continue(state)

    check = ToolSpec("check", "can tell", effect=EffectClass.CHECKABLE)
    world = session(plug("Careful", after_tool=aborts), tools=(*TOOLS, check))
    ask_for_calls(world, call("check"), call("read"))
    world.apply(back(world))
    step = world.apply(CallProbed("c3", 1, ok("done then")))
    assert [effect.call_ids for effect in step.effects if isinstance(effect, CancelCalls)] == [("c4",)]


def test_a_checkable_call_of_which_nobody_knows_is_unknown() -> None:
    _, step = probed(Unknown())
    assert ToolUnknown("c3", "solo") in events(step)


def test_a_checkable_call_whose_tool_is_another_is_unknown() -> None:
    world = session()
    ask_for_calls(world, call("solo"))
    world.hook_runner.tool("solo", 7, lambda _, __: None)
    step = world.apply(back(world).but(tools=(world.state.tools["solo"].spec,), revision=7))
    assert ToolUnknown("c3", "solo") in events(step)
    assert "ProbeCall" not in kinds(step)


def test_a_call_that_was_approved_and_had_not_started_starts() -> None:
    world = session(Holder(frozenset({"write"})))
    ask_for_calls(world, call("solo"), call("write"))
    (hold,) = (waiting.hold for waiting in world.state.waiting_calls)
    assert hold is not None
    world.apply(ApproveSent(hold.approval_id))
    world.apply(back(world))
    step = world.apply(CallProbed("c3", 1, ok("done")))
    assert [e.name for e in step.effects if isinstance(e, StartCall)] == ["write"]


def test_a_held_call_is_still_held_and_its_time_goes_on() -> None:
    world = session(Holder(frozenset({"write"}), timeout=60.0))
    ask_for_calls(world, call("write"))
    old = world.state
    step = world.apply(back(world))
    assert events(step) == [SessionRecovered(3)]
    assert world.state == old.but(last_seq=old.last_seq + 1)
    assert [e for e in step.effects if isinstance(e, SetTimer)] == [SetTimer(*old.timers[0])]


def test_a_question_is_still_open() -> None:
    world = session()
    ask_for_calls(world, call("talk"))
    world.apply(ToolReturned("c3", 1, Effect(AskPerson("which?"))))
    world.apply(back(world))
    assert [waiting.question is not None for waiting in world.state.waiting_calls] == [True]


def test_a_call_that_went_on_in_the_background_has_only_an_outcome() -> None:
    world = session()
    ask_for_calls(world, call("keep"))
    world.apply(AbortSent())
    assert [detached.name for detached in world.state.lingering_calls] == ["keep"]
    step = world.apply(back(world))
    assert names(step) == ["SessionRecovered", "ToolExecutionEnd", "ToolExecutionMetrics"]
    assert (world.state.lingering_calls, world.state.timers) == ((), ())
    assert [doubt.name for doubt in world.state.in_doubt_calls] == ["keep"]
    world.apply(hello("and?"))
    assert "the process ended while it ran; it may have taken effect" in world.state.history[-1].text


def test_cancelled_work_that_had_not_ended_is_forgotten() -> None:
    world = session()
    ask_for_calls(world, call("write"))
    world.apply(AbortSent())
    assert world.state.quarantined_calls != ()
    world.apply(back(world))
    assert (world.state.quarantined_calls, world.state.timers) == ((), ())


# Prompts, questions of plugins, what else is gone


def test_queued_prompts_are_still_queued() -> None:
    world = session()
    world.apply(hello())
    assert events(world.apply(hello("then"))) == [PromptQueued("p3", "then", 1)]
    world.apply(back(world))
    assert [prompt.text for prompt in world.state.queue] == ["then"]


def test_what_a_plugin_asks_for_is_asked_for_again() -> None:
    world = session(Asker("before_request"))
    world.apply(hello())
    (ask_id,) = world.out.live_asks
    step = world.apply(back(world))
    assert [e.ask_id for e in step.effects if isinstance(e, CarryOut)] == [ask_id]
    assert world.state.phase is Phase.RUNNING


def test_an_unsafe_tool_that_a_plugin_had_run_is_not_run_again() -> None:
    world = session(Asker("before_request", RunTool("write", FrozenObject({"path": "a"}))))
    world.apply(hello())
    step = world.apply(back(world))
    assert [e for e in step.effects if isinstance(e, CarryOut)] == []
    (answered,) = (event for event in events(step) if isinstance(event, AskAnswered))
    assert answered.status == "failed"
    assert "RequestStart" in names(step)


def test_calls_of_a_response_without_chunks_run_if_what_a_plugin_had_run_first_is_not_run_again() -> None:
    world = session(Asker("after_response", RunTool("write", FrozenObject({"path": "a"}))))
    world.apply(hello())
    answer(world, call("read"))
    old_phase = world.state.phase
    step = world.apply(back(world))
    assert [effect.name for effect in step.effects if isinstance(effect, StartCall)] == ["read"]
    assert (old_phase, world.state.phase) == (Phase.RUNNING, Phase.EXECUTING_TOOLS)


@frozen
class AsksAboutBatch(Asker):
    """Asks about each batch, beside an `Asker` of another hook."""

    hook: str = "after_tool_batch"


def test_plugins_are_asked_once_about_a_batch_if_what_one_had_run_for_its_last_call_is_not_run_again() -> None:
    world = session(Asker("after_tool", RunTool("write", FrozenObject({"path": "a"}))), AsksAboutBatch())
    ask_for_calls(world, call("read"))
    world.apply(ToolReturned("c3", 1, ok("fine")))
    step = world.apply(back(world))
    assert [event.hook for event in events(step) if isinstance(event, AskStarted)] == ["after_tool_batch"]


def test_a_safe_tool_that_a_plugin_had_run_is_run_again() -> None:
    world = session(Asker("before_request", RunTool("read", FrozenObject({"path": "a"}))))
    world.apply(hello())
    step = world.apply(back(world))
    assert [type(e.request) for e in step.effects if isinstance(e, CarryOut)] == [RunTool]
    assert not any(isinstance(event, AskAnswered) for event in events(step))


def test_a_file_that_a_plugin_had_written_is_written_again() -> None:
    request = WriteFile("notes.md", "new", "old")
    world = session(Asker("before_request", request))
    world.apply(hello())
    step = world.apply(back(world))
    assert [e.request for e in step.effects if isinstance(e, CarryOut)] == [request]
    assert not any(isinstance(event, AskAnswered) for event in events(step))


@pytest.mark.parametrize("tool", ["read", "write"])
def test_a_tool_that_others_still_ruled_on_is_ruled_on_and_runs_when_the_session_is_back(tool: str) -> None:
    guard = plug(
        "Judge",
        before_tool=lambda hook, state, _ctx: Ask(CallService("judge"), state) if hook.answer is None else Continue(),
    )
    world = session(Asker("before_request", RunTool(tool, FrozenObject({"path": "a"}))), guard)
    world.apply(hello())
    (ask_id,) = world.out.live_asks
    step = world.apply(back(world))
    assert [(e.ask_id, type(e.request)) for e in step.effects if isinstance(e, CarryOut)] == [(ask_id, CallService)]
    step = world.apply(AskSettled(ask_id, Answered(value=True)))
    assert [type(e.request) for e in step.effects if isinstance(e, CarryOut)] == [RunTool]
    assert [waiting.run for waiting in world.state.suspended_runs] == [""]


def test_a_tool_that_a_plugin_had_run_is_not_run_again_past_a_guard_that_is_new() -> None:
    world = session(Asker("before_request", RunTool("read", FrozenObject({"path": "secret"}))))
    world.apply(hello())
    recorder, asker = world.state.plugins
    attached_plugins = (recorder, world.teach("Guard", Guard()), asker)
    step = world.apply(back(world).but(attached_plugins=attached_plugins))
    assert "CarryOut" not in kinds(step)
    (answered,) = (event for event in events(step) if isinstance(event, AskAnswered))
    assert answered.status == "failed"


def test_commands_in_the_background_and_servers_are_named_in_the_next_request() -> None:
    world = session()
    ask_for_calls(world, call("read"))
    world.apply(ToolReturned("c3", 1, ok("started"), jobs=("job-1 `serve`",)))
    answer(world, text="it runs")
    world.apply(back(world).but(lost=("the MCP server `files`",)))
    assert world.state.background_jobs == ()
    world.apply(hello("go on"))
    assert world.state.history[-1].text == (
        "The process ended and was started again. Gone with it: "
        "the command in the background job-1 `serve`; the MCP server `files`."
    )


# The code that there is now


@frozen
class Counting(Plugin[int]):
    """Counts."""

    def init(self, ctx: Context) -> int:
        return 7

    def upgrade(self, old: Json) -> int:
        if not isinstance(old, int) or old > 100:
            raise ValueError(old)
        return old * 10


def test_a_plugin_of_a_later_version_brings_its_state_forward() -> None:
    world = session(Counting())
    attached_plugins = tuple(
        attached.but(version=2) if attached.key == "Counting" else attached for attached in world.state.plugins
    )
    step = world.apply(back(world).but(attached_plugins=attached_plugins))
    assert PluginUpgraded("Counting", 1, 2) in events(step)
    assert (world.state.plugins, world.state.plugin_states) == (attached_plugins, ((), 70))


def test_nothing_changes_if_a_plugin_cannot_bring_its_state_forward() -> None:
    world = session(Counting())
    world.state = old = world.state.but(
        plugin_states=tuple(101 if state == 7 else state for state in world.state.plugin_states)
    )
    attached_plugins = tuple(
        attached.but(version=2) if attached.key == "Counting" else attached for attached in old.plugins
    )
    done = make_step(old, Arrival(back(world).but(attached_plugins=attached_plugins), 2_000_000), world.hook_runner)
    assert done.answer == Refused.of(PluginMismatch("s", "Counting", "ValueError: 101"))
    assert not done.changes(old)


def test_a_plugin_that_is_new_joins_in_its_place() -> None:
    world = session()
    attached = world.teach("Counting", Counting())
    step = world.apply(back(world).but(attached_plugins=(*world.state.plugins, attached)))
    assert PluginAttached("Counting") in events(step)
    assert world.state.plugin_states[-1] == 7


def secret(name: str) -> ToolCall:
    return call(name, "secret")


def with_a_guard_first(world: CheckedWorld) -> SessionReturned:
    """Return the input with which *world* comes back, with a guard placed before all its plugins."""
    guard = world.teach("Guard", Guard()).but(priority=-10)
    return back(world).but(attached_plugins=(guard, *world.state.plugins))


def test_whoever_has_asked_gets_the_answer_wherever_it_stands_now() -> None:
    world = session(Asker("before_request"))
    world.apply(hello())
    (ask_id,) = world.out.live_asks
    world.apply(with_a_guard_first(world))
    step = world.apply(AskSettled(ask_id, Failed("no")))
    assert names(step) == ["AskAnswered", "RequestStart"]


def test_a_guard_that_is_new_is_not_asked_about_a_request_that_another_has_asked_about() -> None:
    asked_about: list[str] = []

    def note(hook: Hook, *_: object) -> object:
        asked_about.append(hook.hook_name)
        return Continue()

    world = session(Asker("before_request"))
    world.apply(hello())
    (ask_id,) = world.out.live_asks
    guard = world.teach("Notes", plug("Notes", critical=True, priority=-10, before_request=note))
    world.apply(back(world).but(attached_plugins=(guard, *world.state.plugins)))
    assert names(world.apply(AskSettled(ask_id, Failed("no")))) == ["AskAnswered", "RequestStart"]
    assert asked_about == []


def test_a_guard_that_is_new_rules_on_a_call_about_which_another_plugin_has_asked() -> None:
    world = session(Asker("before_tool"))
    ask_for_calls(world, secret("write"), call("read"))
    (first, second) = world.out.live_asks
    world.apply(with_a_guard_first(world))
    step = world.apply(AskSettled(first, Failed("no")))
    assert names(step) == ["AskAnswered", "ToolBlocked"]
    step = world.apply(AskSettled(second, Failed("no")))
    assert [e.name for e in step.effects if isinstance(e, StartCall)] == ["read"]


def test_a_guard_that_is_new_rules_on_a_call_that_was_held_and_is_approved() -> None:
    world = session(Holder())
    ask_for_calls(world, secret("write"), call("write"))
    first, second = (waiting.hold.approval_id for waiting in world.state.waiting_calls if waiting.hold is not None)
    world.apply(with_a_guard_first(world))
    assert "ToolBlocked" in names(world.apply(ApproveSent(first)))
    step = world.apply(ApproveSent(second))
    assert [e.name for e in step.effects if isinstance(e, StartCall)] == ["write"]


def test_tools_whose_code_is_gone_are_let_go_and_calls_to_them_are_told_so() -> None:
    world = session(Holder(frozenset({"write"})))
    ask_for_calls(world, call("solo"), call("write"))
    step = world.apply(back(world).but(removed_tools=("solo", "write")))
    assert ToolsUpdated((), ("solo", "write")) in events(step)
    assert ToolUnknown("c3", "solo") in events(step)
    assert "write" not in world.state.tools


def test_a_change_of_a_plugin_whose_code_is_gone_is_dropped() -> None:
    world = session()
    world.apply(hello())
    world.apply(AttachPluginSent(world.teach("Counting", Counting())))
    step = world.apply(back(world).but(without=("Counting",)))
    (reported_event,) = (event for event in events(step) if isinstance(event, PluginAttached))
    assert (reported_event.success, world.state.plugin_changes) == (False, ())


def test_a_plugin_whose_code_is_gone_while_it_is_to_leave_can_join_again() -> None:
    world = session(Counting())
    world.apply(hello())
    (attached,) = (attached for attached in world.state.plugins if attached.key == "Counting")
    world.apply(DetachPluginSent("Counting"))
    world.apply(
        back(world).but(attached_plugins=tuple(other for other in world.state.plugins if other is not attached))
    )
    step = world.apply(AttachPluginSent(world.teach("Counting", Counting())))
    assert step.answer == DONE
    assert [(change.kind, change.key) for change in world.state.plugin_changes] == [
        ("detach", "Counting"),
        ("attach", "Counting"),
    ]
    answered = answer(world, text="bye")
    assert PluginDetached("Counting", success=False, error="it was never attached") in events(answered)
    assert PluginAttached("Counting") in events(answered)


@frozen
class Limited(Plugin[str]):
    """Notes the options that it is given."""

    first: int = 1
    second: int = 2

    def init(self, ctx: Context) -> str:
        return ""

    def on_options(self, new: JsonObject, state: str) -> str:
        if new == {"second": 0}:
            raise PluginRefused("too low")
        return f"{dict(new)}"


def test_a_plugin_is_given_the_options_that_are_others_than_before() -> None:
    world = session(Limited())
    for plugin, state, dropped in (
        (Limited(first=5), "{'first': 5}", ("limit",)),
        (Limited(first=5), "{'first': 5}", ()),
        (Limited(second=7), "{'first': 1, 'second': 7}", ()),
    ):
        attached = world.teach("Limited", plugin)
        step = world.apply(
            back(world).but(attached_plugins=(world.state.plugins[0], attached), options=(("Limited", dropped),))
        )
        assert world.state.plugin_states[1] == state
        assert PluginOptsUpdated("Limited", success=True, dropped=dropped) in events(step)


def test_a_plugin_is_given_the_options_that_its_code_did_not_have_before() -> None:
    world = session(Limited())
    guard, limited = world.state.plugins
    world.state = world.state.but(plugins=(guard, limited.but(options=FrozenObject(first=1))))
    world.apply(back(world).but(attached_plugins=(guard, limited), options=(("Limited", ()),)))
    assert world.state.plugin_states[1] == "{'second': 2}"


def test_a_session_does_not_come_back_if_a_plugin_does_not_take_its_options() -> None:
    world = session(Limited())
    old = world.state
    attached = world.teach("Limited", Limited(second=0))
    returned = back(world).but(attached_plugins=(old.plugins[0], attached), options=(("Limited", ()),))
    done = make_step(old, Arrival(returned, world.now), world.hook_runner)
    refused = PluginMismatch("s", "Limited", "it does not take its options: too low")
    assert done == Step(old, answer=Refused.of(refused), rulings=done.rulings)


def test_queued_options_are_those_that_the_code_leaves_open() -> None:
    world = session(Limited())
    world.apply(hello())
    old = world.teach("Limited", Limited(first=5, second=6)).but(changed=FrozenObject(first=1, second=2))
    world.apply(UpdatePluginSent(old, FrozenObject(first=5, second=6)))
    now = old.but(changed=FrozenObject(second=2), options=FrozenObject(first=9, second=6))
    world.apply(back(world).but(waiting=(now,)))
    assert world.state.plugin_changes == (PluginChange("update", "Limited", now, FrozenObject(second=6)),)
    world.apply(back(world).but(waiting=(now.but(changed=EMPTY),)))
    assert not world.state.plugin_changes
    joins = world.teach("Counting", Counting())
    world.apply(AttachPluginSent(joins))
    world.apply(back(world).but(waiting=(joins.but(version=3),)))
    assert world.state.plugin_changes == (PluginChange("attach", "Counting", joins.but(version=3)),)
    world.apply(back(world))
    assert world.state.plugin_changes == (PluginChange("attach", "Counting", joins.but(version=3)),)


# At rest until somebody decides


def paused() -> CheckedWorld:
    world = session(options=Options(max_turn_seconds=100.0))
    ask_for_calls(world, call("read"), call("keep"))
    step = world.apply(back(world, pause=True))
    assert "StartCall" not in kinds(step)
    assert world.state.phase is Phase.IDLE
    assert world.state.turn is not None
    assert dict(world.state.timers) == {}
    return world


def test_a_paused_turn_goes_on_when_it_is_resumed() -> None:
    world = paused()
    step = world.apply(ResumeSent())
    assert [e.name for e in step.effects if isinstance(e, StartCall)] == ["read"]
    assert dict(world.state.timers).keys() == {"turn", "call:c3"}
    assert not world.state.is_paused


def test_a_sub_agent_whose_tool_is_another_by_now_does_not_go_on_with_its_paused_turn() -> None:
    world = session()
    ask_for_calls(world, call("write"))
    world.apply(SubagentStarted("child", "c3", "helper", "help"))
    world.apply(back(world, pause=True))
    world.apply(replaced(world, "write"))
    step = world.apply(ResumeSent())
    assert [event.child for event in events(step) if isinstance(event, SubagentEnd)] == ["child"]
    assert ToolUnknown("c3", "write") in events(step)
    assert not {"StartCall", "ResumeSubagents"} & {*kinds(step)}
    assert world.state.subagents == ()
    assert [text.split("\n")[0] for text in results(world.state)] == ["the process ended wh"]


def test_a_paused_call_whose_tool_is_another_by_now_is_not_probed() -> None:
    world = session()
    ask_for_calls(world, call("solo"))
    world.apply(back(world, pause=True))
    world.apply(replaced(world, "solo"))
    step = world.apply(ResumeSent())
    assert ToolUnknown("c3", "solo") in events(step)
    assert "ProbeCall" not in kinds(step)


def replaced(world: CheckedWorld, name: str) -> ChangeToolsSent:
    """Return the command that gives the session other code for the tool *name*."""
    world.hook_runner.tool(name, 7, lambda _, __: None)
    return ChangeToolsSent(attach=(world.state.tools[name].spec,), replace=True, revision=7)


def test_a_paused_turn_can_be_aborted() -> None:
    world = paused()
    step = world.apply(AbortSent())
    assert any(isinstance(event, AgentAbort) for event in events(step))
    assert results(world.state) == [
        "stopped: user; it only reads, so it can be called again",
        "it ended, but no plugin had passed its result on when the turn was aborted: user",
    ]


def test_a_prompt_supersedes_a_paused_turn_also_if_prompts_queue_behind_held_calls() -> None:
    world = session(options=Options(on_prompt_while_held="queue"))
    ask_for_calls(world, call("read"))
    world.apply(back(world, pause=True))
    step = world.apply(hello("rather that"))
    assert [event.reason for event in events(step) if isinstance(event, AgentEnd)] == ["superseded"]
    assert world.state.phase is Phase.RUNNING


def test_a_paused_turn_is_still_paused_when_it_comes_back_paused_again() -> None:
    world = paused()
    assert world.state.is_paused
    world.apply(back(world, pause=True))
    assert world.state.is_paused
    step = world.apply(back(world))
    assert [e.name for e in step.effects if isinstance(e, StartCall)] == ["read"]


def test_a_session_with_a_paused_turn_can_be_stopped() -> None:
    world = paused()
    world.apply(StopSent())
    assert ends(world)


def test_a_request_that_had_paused_is_sent_when_it_is_resumed() -> None:
    world = session()
    world.apply(hello())
    step = world.apply(back(world, pause=True))
    assert "StartRequest" not in kinds(step)
    assert "StartRequest" in kinds(world.apply(ResumeSent()))


def test_a_back_off_that_had_paused_is_over_when_it_is_resumed() -> None:
    world = session()
    world.apply(hello())
    (request_id,) = world.out.live_requests
    world.apply(StreamCut(request_id, NOTHING_YET, Failure(FailureKind.TRANSIENT, "Overloaded", "later")))
    world.apply(back(world, pause=True))
    assert world.state.timers == ()
    assert "StartRequest" in kinds(world.apply(ResumeSent()))


def test_a_turn_that_is_over_does_not_pause() -> None:
    world = session(Asker("after_turn"))
    world.apply(hello())
    answer(world, text="hello to you")
    step = world.apply(back(world, pause=True))
    (again,) = (effect for effect in step.effects if isinstance(effect, CarryOut))
    world.apply(AskSettled(again.ask_id, Failed("no")))
    assert (world.state.phase, world.state.turn) == (Phase.IDLE, None)


def test_a_question_of_a_plugin_that_had_paused_is_asked_when_it_is_resumed() -> None:
    world = session(Asker("before_request", deadline=7.5))
    world.apply(hello())
    (ask_id,) = world.out.live_asks
    step = world.apply(back(world, pause=True))
    assert ("CarryOut" in kinds(step), world.state.timers) == (False, ())
    assert not world.state.has_running_work  # no supervisor that opens is to go on with it unasked
    world.now += 60_000
    step = world.apply(ResumeSent())
    (again,) = (effect for effect in step.effects if isinstance(effect, CarryOut))
    assert world.state.timers == ((f"ask:{ask_id}", world.now + 7_500),)
    world.apply(AskSettled(again.ask_id, Failed("no")))
    (request_id,) = world.out.live_requests
    world.begin(request_id)
    assert world.state.phase is Phase.STREAMING


def test_an_idle_session_comes_back_idle() -> None:
    world = session()
    old = world.state
    step = world.apply(SessionReturned(1, old.plugins, pause=True))
    assert (events(step), kinds(step)) == ([SessionRecovered(1)], ["ReportStart"])
    assert world.state == old.but(last_seq=old.last_seq + 1)


def test_a_paused_turn_whose_calls_no_plugin_has_seen_yet_is_as_before_when_it_is_resumed() -> None:
    world = session(Asker("after_response"))
    ask_for_calls(world, call("read"))
    old_phase = world.state.phase
    world.apply(back(world, pause=True))
    world.apply(ResumeSent())
    assert (world.state.phase, old_phase) == (Phase.RUNNING, Phase.RUNNING)
    (ask_id,) = world.out.live_asks
    world.apply(AskSettled(ask_id, Failed("no")))
    assert world.state.phase is Phase.EXECUTING_TOOLS


def test_steering_that_came_while_decided_calls_ended_is_answered() -> None:
    world = session(Holder(frozenset({"write"})))
    ask_for_calls(world, call("write"), call("keep"))
    (hold,) = (waiting.hold for waiting in world.state.waiting_calls)
    assert hold is not None
    world.apply(RejectSent(hold.approval_id, auto_resume=False))
    world.apply(SteerSent("rather that"))
    step = world.apply(ToolReturned("c4", 1, ok("kept")))
    assert names(step)[-2:] == ["SteeringApplied", "RequestStart"]
    assert world.state.history[-1].text == "rather that"
