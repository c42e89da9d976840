"""Each hook answered with each action: an accepted one takes effect, any other is reported and ignored."""

from collections.abc import Mapping
from typing import Final

import pytest

from agentrail import (
    Abort,
    Accepted,
    Action,
    AddContext,
    Ask,
    BlockTool,
    Continue,
    Emit,
    HoldTool,
    Intervene,
    ReplaceMessages,
    ReplacePrompt,
    ReplaceResponse,
    ReplaceToolArgs,
    ReplaceToolResult,
    SetSection,
    Skip,
    SwitchModel,
)
from agentrail.core.context_window import tokens_of
from agentrail.core.machine.tool_results import doubt
from agentrail.core.vocabulary.effects import AnyEffect, ClearTimer, SetTimer, StartRequest
from agentrail.core.vocabulary.state import Compaction, Steering
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.events import (
    AgentEnd,
    ApprovalRequired,
    BeforeCompact,
    Event,
    Intervention,
    ModelEffective,
    ModelSwitched,
    PluginError,
    PluginEvent,
    PromptReceived,
    RequestStart,
    ResponseComplete,
    SteeringReceived,
    ToolBlocked,
    ToolCalls,
)
from agentrail.hooks.actions import ACTIONS
from agentrail.hooks.hook_types import (
    HOOKS,
)
from agentrail.hooks.ruling import WHEN_CRITICAL_BREAKS, Decisions, Pause, Position, Section, Switch
from agentrail.models import FrozenObject, Origin, ToolCall
from agentrail.plugins import MATRIX, CallService
from agentrail.tools import err
from agentrail.values.messages import Added, MessageRange, Rearranged
from tests.cells.bench import LOOK, NOW, Got, Now, ruled, with_call
from tests.cells.hook_cells import HOOK_CELLS, REFUSED, Expected, Refusal, probe, refused
from tests.cells.scenes import (
    compact_start,
    compacts,
    failed,
    limit,
    out,
    path,
    ran,
    replied,
    request,
    result,
    run,
    shown,
    start,
    starts,
    turn,
    user_message,
)
from tests.cells.tables import ACCEPTED
from tests.cells.tables import ACTIONS as KINDS
from tests.cells.tables import HOOKS as MOMENTS_IN_ORDER
from tests.kit import DONE, EMPTY, NOTHING_USED, Phase, Ruling, Verdict

CALLED: Final = ToolCall("c3", "look", path())
LOOKUP: Final = CallService("lookup")
NOTE: Final = user_message("note", Origin.INTERVENTION)

ANSWERS: Final[Mapping[str, Action[object]]] = {
    "continue": Continue(1),
    "intervene": Intervene("note", 1),
    "abort": Abort("no", 1),
    "skip": Skip(1),
    "block_tool": BlockTool("no", 1),
    "replace_tool_args": ReplaceToolArgs({"path": "b"}, 1),
    "emit": Emit("noted", {"a": 1}, state=1),
    "switch_model": SwitchModel("n", 1),
    "replace_prompt": ReplacePrompt("other", 1),
    "replace_response": ReplaceResponse("other", 1),
    "replace_messages": ReplaceMessages((user_message("other"),), 1),
    "replace_tool_result": ReplaceToolResult(err("hidden"), 1),
    "hold_tool": HoldTool("may it?", 1),
    "set_section": SetSection("mood", "calm", 1),
    "ask": Ask(LOOKUP, 1),
    "add_context": AddContext("it rains", 1),
}


def fired(hook: str, action: str) -> Got:
    """Return the step of a hook at which the plugin `P` gives an answer of this kind."""
    return HOOK_CELLS[hook].fire(probe(hook, ANSWERS[action]))[1]


def ruling(hook: str, verdict: Verdict = Verdict.PASS, reason: str = "", **decisions: object) -> Ruling:
    """Return the ruling that `P` led to; its state is 1 now."""
    by = None if verdict is Verdict.PASS else "P"
    return Ruling(hook, verdict, by, reason, decisions=Decisions(**decisions), states=((0, 1),))  # type: ignore[arg-type]  # the fields


# The matrix itself


def test_the_matrix_is_that_of_the_design() -> None:
    assert tuple(hook.hook_name for hook in HOOKS) == MOMENTS_IN_ORDER
    assert tuple(action.kind for action in ACTIONS) == KINDS
    assert {(hook, action.kind) for hook, kinds in MATRIX.items() for action in kinds} == ACCEPTED
    assert len(MOMENTS_IN_ORDER) == 14
    assert len(KINDS) == 16


# What is not accepted


NOT_ACCEPTED: Final = [
    (hook, action) for hook in MOMENTS_IN_ORDER for action in KINDS if (hook, action) not in ACCEPTED
]


def _complaint(hook: str, action: str) -> str:
    return f"it answered `{action}`, which `{hook}` does not accept"


@pytest.mark.parametrize(("hook", "action"), NOT_ACCEPTED)
def test_an_action_that_the_hook_does_not_accept_is_reported_and_counts_as_continue(hook: str, action: str) -> None:
    error = PluginError("P", hook, _complaint(hook, action))
    HOOK_CELLS[hook].differs(fired(hook, action), Ruling(hook, errors=(error,)), [error])


@pytest.mark.parametrize(("hook", "action"), NOT_ACCEPTED)
def test_an_action_that_the_hook_does_not_accept_is_a_crash_of_a_critical_plugin(hook: str, action: str) -> None:
    complaint = _complaint(hook, action)
    _, got = HOOK_CELLS[hook].fire(probe(hook, ANSWERS[action], critical=True))
    broke(hook, got, complaint)


def broke(hook: str, got: Got, complaint: str) -> None:
    """Check that the critical plugin `P` failed, and that this counted as `WHEN_BROKEN` says."""
    error = PluginError("P", hook, complaint)
    reason = f"critical plugin `P` broke: {complaint}"
    verdict = WHEN_BROKEN.get(hook, Verdict.ABORT)
    if verdict is Verdict.PASS:
        HOOK_CELLS[hook].differs(got, Ruling(hook, errors=(error,)), [error], critical=True)
        return
    decided = Ruling(hook, verdict, "P", reason, critical=True, errors=(error,))
    if verdict is Verdict.BLOCK:
        blocked(got, decided, [error])
    else:
        refused(HOOK_CELLS[hook], got, Refusal(decided, (error,)))


WHEN_BROKEN: Final = {
    "session_end": Verdict.PASS,
    "after_turn": Verdict.PASS,
    "before_tool": Verdict.BLOCK,
    "before_compact": Verdict.SKIP,
}
"""What a failure of a critical plugin counts as; at every other hook it counts as an abort."""


def test_a_broken_critical_plugin_counts_as_the_design_says() -> None:
    assert dict(WHEN_CRITICAL_BREAKS) == {hook: WHEN_BROKEN.get(hook, Verdict.ABORT) for hook in MOMENTS_IN_ORDER}
    assert set(REFUSED) == {hook for hook in MOMENTS_IN_ORDER if WHEN_BROKEN.get(hook) is not Verdict.PASS}


# What every hook accepts: continue and emit


@pytest.mark.parametrize(("hook", "action"), [(hook, "continue") for hook in MOMENTS_IN_ORDER])
def test_continue_changes_nothing_but_the_plugins_state(hook: str, action: str) -> None:
    HOOK_CELLS[hook].differs(fired(hook, action), ruling(hook), plugin_states=_states(hook))


def _states(hook: str) -> tuple[object, ...]:
    return (1, None) if hook == "before_plugin_opts_update" else (1,)


@pytest.mark.parametrize(("hook", "action"), [(hook, "emit") for hook in MOMENTS_IN_ORDER])
def test_what_is_emitted_is_broadcast_when_the_hook_is_done(hook: str, action: str) -> None:
    said_so = PluginEvent("P", "noted", FrozenObject(user_data=EMPTY, a=1))
    HOOK_CELLS[hook].differs(
        fired(hook, action), ruling(hook, emits=(said_so,)), [said_so], plugin_states=_states(hook)
    )


# Abort


@pytest.mark.parametrize(("hook", "action"), sorted((hook, action) for hook, action in ACCEPTED if action == "abort"))
def test_abort_aborts_the_turn_or_refuses_what_was_asked(hook: str, action: str) -> None:
    no = Refusal(ruling(hook, Verdict.ABORT, "no"))
    changes: Expected = {"plugin_states": _states(hook)}
    refused(HOOK_CELLS[hook], fired(hook, action), no, **changes)


# Skip


@pytest.mark.parametrize(
    ("hook", "action"),
    [(hook, "skip") for hook in ("before_prompt", "before_request", "after_response", "before_tool")],
)
def test_skip_goes_on_without_asking_later_plugins(hook: str, action: str) -> None:
    HOOK_CELLS[hook].differs(fired(hook, action), ruling(hook, Verdict.SKIP), plugin_states=(1,))


def test_skip_of_a_tool_error_takes_the_failure_as_the_answer() -> None:
    got = fired("on_tool_error", "skip")
    old = got.before
    why = f"the tool failed: OSError: no; {doubt(LOOK)}"
    failure = failed("c3", "look", why)
    got.expect_only(
        ids=1,
        events=[*ran("c3", "look", err(why)), Now(1, 2), RequestStart("r4", "m", 3, 1)],
        effects=[ClearTimer("call:c3"), request(old, "r4", failure)],
        rulings=(ruling("on_tool_error", Verdict.SKIP), *ruled("after_tool", "after_tool_batch", "before_request")),
        phase=Phase.RUNNING,
        round=2,
        batch=None,
        plugin_states=(1,),
        history=old.history.and_(failure),
        request=out("r4"),
    )


def test_skip_of_a_compaction_leaves_the_context_as_it_is() -> None:
    no = Refusal(ruling("before_compact", Verdict.SKIP))
    refused(HOOK_CELLS["before_compact"], fired("before_compact", "skip"), no, plugin_states=(1,))


def test_skip_of_new_options_refuses_them() -> None:
    no = Refusal(ruling("before_plugin_opts_update", Verdict.SKIP))
    refused(
        HOOK_CELLS["before_plugin_opts_update"],
        fired("before_plugin_opts_update", "skip"),
        no,
        plugin_states=(1, None),
    )


# Intervene


def test_before_prompt_the_text_comes_behind_the_users() -> None:
    got = fired("before_prompt", "intervene")
    old = got.before
    opening = starts("p1", "r2", messages=2)
    got.expect_only(
        answer=Accepted("p1", "started"),
        ids=2,
        events=[*opening[:3], Intervention("note", "before_prompt"), *opening[3:]],
        effects=[request(old, "r2", user_message(), NOTE)],
        rulings=(ruling("before_prompt", texts=("note",)), *ruled("before_request")),
        phase=Phase.RUNNING,
        turn_count=1,
        round=1,
        turn=turn(),
        plugin_states=(1,),
        history=old.history.and_(user_message(), NOTE),
        last_request_model=("m", EMPTY),
        request=out("r2"),
    )


def test_before_a_request_the_text_goes_to_its_end_and_is_kept() -> None:
    got = fired("before_request", "intervene")
    old = got.before
    opening = starts("p1", "r2", messages=2)
    got.expect_only(
        answer=Accepted("p1", "started"),
        ids=2,
        events=[*opening[:4], Intervention("note", "before_request"), opening[4]],
        effects=[request(old, "r2", user_message(), NOTE)],
        rulings=(*ruled("before_prompt"), ruling("before_request", texts=("note",))),
        phase=Phase.RUNNING,
        turn_count=1,
        round=1,
        turn=turn(),
        plugin_states=(1,),
        history=old.history.and_(user_message(), NOTE),
        last_request_model=("m", EMPTY),
        request=out("r2"),
    )


def _prolonged(hook: str, rulings: tuple[Ruling, ...]) -> None:
    got = fired(hook, "intervene")
    old = got.before
    message = replied("bye")
    got.expect_only(
        ids=1,
        events=[
            ResponseComplete(message),
            Intervention("note", hook),
            Now(1, 2),
            RequestStart("r3", "m", 3, 1),
        ],
        effects=[request(old, "r3", message, NOTE)],
        rulings=(*rulings, *ruled("before_request")),
        phase=Phase.RUNNING,
        round=2,
        turn=turn(interventions=1),
        plugin_states=(1,),
        last_text="bye",
        history=old.history.and_(message, NOTE),
        request=out("r3"),
    )


def test_after_a_response_without_calls_the_turn_goes_on() -> None:
    _prolonged("after_response", (ruling("after_response", texts=("note",)),))


def test_before_the_end_the_turn_goes_on() -> None:
    _prolonged("before_finish", (*ruled("after_response"), ruling("before_finish", texts=("note",))))


def test_after_a_tool_the_text_waits_for_the_batch() -> None:
    got = fired("after_tool", "intervene")
    base = HOOK_CELLS["after_tool"].baseline().step.state.batch
    assert base is not None
    HOOK_CELLS["after_tool"].differs(
        got,
        ruling("after_tool", texts=("note",)),
        plugin_states=(1,),
        batch=base.but(texts=(("after_tool", "note"),)),
    )


def test_after_a_batch_the_text_comes_behind_the_results() -> None:
    got = fired("after_tool_batch", "intervene")
    old = got.before
    done = result("c3", "look")
    got.expect_only(
        ids=1,
        events=[
            *ran("c3", "look"),
            Intervention("note", "after_tool_batch"),
            Now(1, 2),
            RequestStart("r4", "m", 4, 1),
        ],
        effects=[ClearTimer("call:c3"), request(old, "r4", done, NOTE)],
        rulings=(*ruled("after_tool"), ruling("after_tool_batch", texts=("note",)), *ruled("before_request")),
        phase=Phase.RUNNING,
        round=2,
        batch=None,
        plugin_states=(1,),
        history=old.history.and_(done, NOTE),
        request=out("r4"),
    )


def test_before_steering_the_text_joins_the_users() -> None:
    text = "rather this\n\nnote"
    fired("before_steering", "intervene").expect_only(
        answer=Accepted("s3", "queued", 1),
        ids=1,
        events=[Intervention("note", "before_steering"), SteeringReceived("s3", text, "queued")],
        rulings=(ruling("before_steering", texts=("note",)),),
        plugin_states=(1,),
        steering=(Steering("s3", text),),
    )


# What only before_tool and after_tool accept


def blocked(got: Got, decided: Ruling, errors: list[Event], states: tuple[object, ...] = (0,)) -> None:
    """Check that the only call was blocked, and that the turn goes on."""
    old = got.before
    message = replied("", CALLED)
    failure = failed("c3", "look", f"blocked by P: {decided.reason}")
    got.expect_only(
        ids=2,
        events=[
            ResponseComplete(message),
            ToolCalls(1),
            *errors,
            ToolBlocked("c3", "look", decided.reason, "P"),
            Now(1, 2),
            RequestStart("r4", "m", 3, 1),
        ],
        effects=[request(old, "r4", message, failure)],
        rulings=(*ruled("after_response", "check"), decided, *ruled("after_tool_batch", "before_request")),
        phase=Phase.RUNNING,
        round=2,
        turn=turn(last_call=("look", path()), repeats=1, subjects=(("a", 1),)),
        last_text="",
        history=old.history.and_(message, failure),
        request=out("r4"),
        plugin_states=states,
    )


def test_a_blocked_call_gets_an_error_result() -> None:
    decided = ruling("before_tool", Verdict.BLOCK, "no")
    blocked(fired("before_tool", "block_tool"), decided, [], (1,))


def test_a_call_runs_with_the_new_arguments() -> None:
    got = fired("before_tool", "replace_tool_args")
    old = got.before
    message = replied("", CALLED)
    batch = HOOK_CELLS["before_tool"].baseline().step.state.batch
    assert batch is not None
    decided = ruling("before_tool", args=path("b"), replaced_by=("P",), replaced_at=0)
    got.expect_only(
        ids=1,
        events=[ResponseComplete(message), ToolCalls(1), run("c3", "look", path("b"))],
        effects=[limit("c3"), start("c3", "look", path("b"))],
        rulings=(*ruled("after_response", "check"), decided, *ruled("check")),
        phase=Phase.EXECUTING_TOOLS,
        turn=turn(last_call=("look", path()), repeats=1, subjects=(("a", 1),)),
        batch=with_call(batch, batch.calls[0].but(args=path("b"))),
        plugin_states=(1,),
        last_text="",
        request=None,
        history=old.history.and_(message),
    )


def test_a_held_call_waits_for_a_person_for_two_minutes() -> None:
    got = fired("before_tool", "hold_tool")
    old = got.before
    message = replied("", CALLED)
    after = got.step.state.batch
    assert after is not None
    hold = after.calls[0].hold
    assert hold is not None
    assert (hold.approval_id, hold.hint, hold.plugin, hold.args) == ("s:a4", "may it?", "P", path())
    assert (hold.position, hold.decisions, hold.family) == (Position(1), Decisions(), None)
    assert (hold.requested_at, hold.expires_at) == (NOW, NOW + 120_000)
    decided = ruling("before_tool", Verdict.HOLD, "may it?").but(pause=Pause(Position(1), None, 120.0, "may it?"))
    got.expect_only(
        ids=2,
        events=[
            ResponseComplete(message),
            ToolCalls(1),
            shown(ApprovalRequired("s:a4", "c3", "look", path(), "may it?", "P", NOW, NOW + 120_000)),
        ],
        effects=[SetTimer("hold:s:a4", NOW + 120_000)],
        rulings=(*ruled("after_response", "check"), decided),
        phase=Phase.IDLE,
        turn=turn(last_call=("look", path()), repeats=1, subjects=(("a", 1),)),
        batch=with_call(after, after.calls[0].but(status=CallStatus.HELD)),
        plugin_states=(1,),
        last_text="",
        request=None,
        history=old.history.and_(message),
    )


def test_the_history_gets_the_new_result() -> None:
    batch = HOOK_CELLS["after_tool"].baseline().step.state.batch
    assert batch is not None
    HOOK_CELLS["after_tool"].differs(
        fired("after_tool", "replace_tool_result"),
        ruling("after_tool", result=err("hidden"), replaced_by=("P",)),
        plugin_states=(1,),
        batch=with_call(batch, batch.calls[0].but(result=failed("c3", "look", "hidden"))),
    )


# What is said


def test_the_history_and_the_model_have_the_new_text_of_a_prompt() -> None:
    got = fired("before_prompt", "replace_prompt")
    old = got.before
    opening = starts("p1", "r2")
    got.expect_only(
        answer=Accepted("p1", "started"),
        ids=2,
        events=[opening[0], PromptReceived("p1", "other", ("P",)), *opening[2:]],
        effects=[request(old, "r2", user_message("other"))],
        rulings=(ruling("before_prompt", text="other", replaced_by=("P",)), *ruled("before_request")),
        phase=Phase.RUNNING,
        turn_count=1,
        round=1,
        turn=turn(),
        plugin_states=(1,),
        history=old.history.and_(user_message("other")),
        last_request_model=("m", EMPTY),
        request=out("r2"),
    )


def test_the_new_text_of_a_steering_text_is_queued() -> None:
    got = fired("before_steering", "replace_prompt")
    base = HOOK_CELLS["before_steering"].baseline().step
    got.expect_only(
        answer=base.answer,
        ids=1,
        events=[SteeringReceived("s3", "other", "queued", None, ("P",))],
        rulings=(ruling("before_steering", text="other", replaced_by=("P",)),),
        steering=(Steering("s3", "other"),),
        plugin_states=(1,),
    )


def test_the_history_and_the_caller_have_the_new_text_of_a_response() -> None:
    got = fired("after_response", "replace_response")
    message, base = replied("bye").saying("other"), HOOK_CELLS["after_response"].baseline()
    diff = base.step.state.history[:1]
    usage = base.step.state.usage
    got.expect_only(
        events=[
            ResponseComplete(message, ("P",)),
            AgentEnd("p1", "end", (*diff, message), usage),
        ],
        rulings=(
            ruling("after_response", text="other", replaced_by=("P",)),
            *ruled("before_finish", "after_turn"),
        ),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        plugin_states=(1,),
        last_text="other",
        request=None,
        history=got.before.history.and_(message),
    )


# Messages, models and sections


OTHER: Final = (user_message("other"),)


def test_the_model_sees_the_new_messages_in_this_request_only() -> None:
    bench, got = HOOK_CELLS["before_request"].fire(
        probe("before_request", lambda _hook, state, _ctx: Continue() if state else ANSWERS["replace_messages"])
    )
    old = got.before
    got.expect_only(
        answer=Accepted("p1", "started"),
        ids=2,
        events=starts("p1", "r2"),
        effects=[request(old, "r2", messages=OTHER)],
        rulings=(*ruled("before_prompt"), ruling("before_request", messages=Rearranged(OTHER), replaced_by=("P",))),
        phase=Phase.RUNNING,
        turn_count=1,
        round=1,
        turn=turn(),
        plugin_states=(1,),
        history=old.history.and_(user_message()),
        last_request_model=("m", EMPTY),
        request=out("r2", 0, *OTHER),
    )
    bench.answers("")
    assert bench.got[-1].step.effects == (request(bench.state, "r3"),)


RAIN: Final = Added(user_message("it rains", Origin.INTERVENTION), "P")


def test_the_model_sees_the_added_context_in_this_request_only() -> None:
    bench, got = HOOK_CELLS["before_request"].fire(
        probe("before_request", lambda _hook, state, _ctx: Continue() if state else ANSWERS["add_context"])
    )
    old = got.before
    got.expect_only(
        answer=Accepted("p1", "started"),
        ids=2,
        events=[*starts("p1", "r2")[:-1], RequestStart("r2", "m", 2, 1)],
        effects=[request(old, "r2", messages=(user_message(), RAIN.message), passing=1)],
        rulings=(*ruled("before_prompt"), ruling("before_request", added=(RAIN,))),
        phase=Phase.RUNNING,
        turn_count=1,
        round=1,
        turn=turn(),
        plugin_states=(1,),
        history=old.history.and_(user_message()),
        last_request_model=("m", EMPTY),
        request=out("r2", 0, MessageRange(0, 1), RAIN),
    )
    bench.answers("")
    assert bench.got[-1].step.effects == (request(bench.state, "r3"),)


def test_the_compaction_sees_the_new_messages() -> None:
    got = fired("before_compact", "replace_messages")
    keep = got.before.history.size // 2
    HOOK_CELLS["before_compact"].baseline()
    got.expect_only(
        answer=DONE,
        ids=1,
        events=[BeforeCompact(2, "room"), compact_start(got.before, "room", 1)],
        effects=[compacts(got.before, "k3", keep, OTHER, by_caller=True)],
        rulings=(ruling("before_compact", messages=Rearranged(OTHER), replaced_by=("P",)),),
        phase=Phase.RUNNING,
        plugin_states=(1,),
        compaction=Compaction("k3", "room", running=True, tokens=tokens_of(got.before), by="P"),
    )


def _switch(hook: str) -> tuple[Ruling, Event]:
    return ruling(hook, switch=Switch("n", EMPTY, "P")), ModelSwitched("m", "n", provider_opts_changed=False, by="P")


def test_this_request_goes_to_the_new_model() -> None:
    got = fired("before_request", "switch_model")
    old = got.before
    decided, switched = _switch("before_request")
    got.expect_only(
        answer=Accepted("p1", "started"),
        ids=2,
        events=[*starts("p1", "r2")[:-1], switched, ModelEffective("n"), RequestStart("r2", "n", 1, 1)],
        effects=[request(old, "r2", user_message(), model="n")],
        rulings=(*ruled("before_prompt"), decided),
        phase=Phase.RUNNING,
        turn_count=1,
        round=1,
        turn=turn(model="n"),
        model="n",
        plugin_states=(1,),
        history=old.history.and_(user_message()),
        last_request_model=("n", EMPTY),
        request=out("r2"),
    )


def test_a_tool_error_may_change_the_model_of_the_next_request() -> None:
    decided, switched = _switch("on_tool_error")
    old_turn = HOOK_CELLS["on_tool_error"].baseline().before.turn
    assert old_turn is not None
    HOOK_CELLS["on_tool_error"].differs(
        fired("on_tool_error", "switch_model"),
        decided,
        [switched],
        model="n",
        turn=old_turn.but(model="n"),
        plugin_states=(1,),
    )


def test_a_result_may_change_the_model_of_the_next_request() -> None:
    decided, switched = _switch("after_tool")
    old_turn = HOOK_CELLS["after_tool"].baseline().before.turn
    assert old_turn is not None
    HOOK_CELLS["after_tool"].differs(
        fired("after_tool", "switch_model"),
        decided,
        [switched],
        model="n",
        turn=old_turn.but(model="n"),
        plugin_states=(1,),
    )


def test_a_batch_may_change_the_model_of_the_next_request() -> None:
    got = fired("after_tool_batch", "switch_model")
    old = got.before
    decided, switched = _switch("after_tool_batch")
    done = result("c3", "look")
    assert old.turn is not None
    got.expect_only(
        ids=1,
        events=[
            *ran("c3", "look"),
            *(switched, Now(1, 2), ModelEffective("n")),
            RequestStart("r4", "n", 3, 1),
        ],
        effects=[ClearTimer("call:c3"), request(old, "r4", done, model="n")],
        rulings=(*ruled("after_tool"), decided, *ruled("before_request")),
        phase=Phase.RUNNING,
        round=2,
        turn=old.turn.but(model="n"),
        model="n",
        batch=None,
        plugin_states=(1,),
        history=old.history.and_(done),
        last_request_model=("n", EMPTY),
        request=out("r4"),
    )


def test_a_response_may_change_the_model_for_good() -> None:
    decided, switched = _switch("after_response")
    got = fired("after_response", "switch_model")
    message = replied("bye")
    got.expect_only(
        events=[
            ResponseComplete(message),
            switched,
            AgentEnd("p1", "end", (user_message(), message), NOTHING_USED),
        ],
        rulings=(decided, *ruled("before_finish", "after_turn")),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        request=None,
        model="n",
        plugin_states=(1,),
        last_text="bye",
        history=got.before.history.and_(message),
    )


@pytest.mark.parametrize(
    ("hook", "action"), sorted((hook, action) for hook, action in ACCEPTED if action == "set_section")
)
def test_a_section_is_set_and_goes_out_with_the_next_request(hook: str, action: str) -> None:
    cell = HOOK_CELLS[hook]
    mood = Section("mood", "calm", by="P")
    cell.differs(
        fired(hook, action),
        ruling(hook, sections=(mood,)),
        sections=(mood,),
        plugin_states=(1,),
        effects=[_with_section(effect) for effect in cell.baseline().step.effects],
    )


def _with_section(effect: AnyEffect) -> AnyEffect:
    if isinstance(effect, StartRequest):
        return effect.but(request=effect.request.but(sections=(("mood", "calm"),)))
    return effect
