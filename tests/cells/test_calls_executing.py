"""Each call while tools run: the model has stopped."""

from agentrail import Accepted, Prompt
from agentrail.core.machine.tool_results import doubt
from agentrail.core.vocabulary.commands import RespondSent, SwitchModelSent, WithdrawSent
from agentrail.core.vocabulary.effects import CancelCalls, ClearTimer, CloseSession, SetTimer
from agentrail.core.vocabulary.tool_calls import CallStatus, DetachedCall
from agentrail.errors import UnknownApproval, UnknownPrompt
from agentrail.events import (
    AgentAbort,
    ApprovalResolved,
    ModelSwitched,
    PromptDropped,
    PromptQueued,
    PromptWithdrawn,
    RequestStart,
    SessionEnded,
    SteeringApplied,
    SteeringReceived,
    ToolKilled,
    ToolSkippedForSteering,
    UserResponded,
)
from agentrail.models import Origin, Text, ToolMessage
from agentrail.tools import AskPerson, Effect, ToolSpec, ok
from tests.cells.bench import EDIT, KEEP, NOW, Bench, Now, call, ruled, with_call
from tests.cells.scenes import (
    executing,
    failed,
    holds,
    limit,
    out,
    path,
    ran,
    request,
    result,
    run,
    start,
    unknown,
    user_message,
)
from tests.kit import DONE, AbortSent, ApproveSent, CompactSent, Phase, Refused, RejectSent, SteerSent, StopSent

STEERED = "the user has said something new"
AWAY = "the turn was aborted; this call goes on in the background"


def both() -> Bench:
    """Return a session that executes a killable call (c3) and an immune one (c4)."""
    return executing(call("edit", path="a"), call("keep"))


def held_beside() -> Bench:
    """Return a session with a running call (c3) and a held one (c4, held as s:a5)."""
    return executing(call("look", path="a"), call("edit", path="a"), plugins=(holds("edit", timeout=None),))


def stopped(call_id: str, spec: ToolSpec, why: str) -> ToolMessage:
    return failed(call_id, spec.name, f"stopped: {why}; {doubt(spec)}")


def test_a_prompt_is_queued() -> None:
    executing().prompt("next").expect_only(
        answer=Accepted("p4", "queued", 1),
        ids=1,
        events=[PromptQueued("p4", "next", 1)],
        queue=(Prompt("p4", (Text("next"),)),),
    )


def test_steering_cancels_the_killable_tools_and_is_merged_before_the_next_request() -> None:
    for when in ("gap", "now"):
        bench = executing(call("edit", path="a"))
        old = bench.state
        failure = failed("c3", "edit", f"stopped, because {STEERED}; {doubt(EDIT)}")
        new = user_message("rather this", Origin.STEERING)
        bench.send(SteerSent("rather this", when)).expect_only(
            answer=Accepted("s4", "queued", 1),
            ids=2,
            events=[
                SteeringReceived("s4", "rather this", "queued"),
                ToolSkippedForSteering("c3", "edit"),
                Now(1, 2),
                SteeringApplied(("s4",), 1),
                RequestStart("r5", "m", 4, 1),
            ],
            effects=[
                CancelCalls(("c3",)),
                SetTimer("grace", NOW + 250),
                ClearTimer("call:c3"),
                request(old, "r5", failure, new),
            ],
            rulings=ruled("before_steering", "after_tool_batch", "before_request"),
            phase=Phase.RUNNING,
            round=2,
            batch=None,
            request=out("r5"),
            history=old.history.and_(failure, new),
            quarantined_calls=(DetachedCall("c3", "edit", NOW, NOW, writes=True),),
            in_doubt_calls=(unknown("c3", "edit", path()),),
        )


def test_an_abort_cancels_killable_tools_and_lets_immune_ones_linger() -> None:
    bench = both()
    old = bench.state
    bench.send(AbortSent("enough")).expect_only(
        answer=DONE,
        events=[ToolKilled("c3", "edit", "enough"), AgentAbort("p1", "user", "enough")],
        effects=[CancelCalls(("c3",)), SetTimer("grace", NOW + 250), ClearTimer("call:c3")],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        batch=None,
        history=old.history.and_(stopped("c3", EDIT, "enough"), result("c4", "keep", AWAY)),
        quarantined_calls=(DetachedCall("c3", "edit", NOW, NOW, writes=True),),
        lingering_calls=(DetachedCall("c4", "keep", NOW, NOW, doubt=unknown("c4", "keep")),),
        in_doubt_calls=(unknown("c3", "edit", path()),),
    )


def test_an_abort_of_all_cancels_immune_tools_too() -> None:
    bench = both()
    old = bench.state
    bench.send(AbortSent(kill_tools="all")).expect_only(
        answer=DONE,
        events=[ToolKilled("c3", "edit", "user"), ToolKilled("c4", "keep", "user"), AgentAbort("p1", "user")],
        effects=[
            CancelCalls(("c3", "c4")),
            SetTimer("grace", NOW + 250),
            ClearTimer("call:c3"),
            ClearTimer("call:c4"),
        ],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        batch=None,
        history=old.history.and_(stopped("c3", EDIT, "user"), stopped("c4", KEEP, "user")),
        quarantined_calls=(DetachedCall("c3", "edit", NOW, NOW, writes=True), DetachedCall("c4", "keep", NOW, NOW)),
        in_doubt_calls=(unknown("c3", "edit", path()), unknown("c4", "keep")),
    )


def test_an_abort_of_none_lets_all_tools_finish_as_lingering() -> None:
    bench = both()
    old = bench.state
    bench.send(AbortSent(kill_tools="none")).expect_only(
        answer=DONE,
        events=[AgentAbort("p1", "user")],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        batch=None,
        history=old.history.and_(result("c3", "edit", AWAY), result("c4", "keep", AWAY)),
        lingering_calls=(
            DetachedCall("c3", "edit", NOW, NOW, writes=True, doubt=unknown("c3", "edit", path())),
            DetachedCall("c4", "keep", NOW, NOW, doubt=unknown("c4", "keep")),
        ),
    )


def test_an_approved_call_goes_on_beside_the_batch() -> None:
    bench = held_beside()
    old = bench.state
    asked_call = bench.call("c4")
    assert asked_call.hold is not None
    assert old.batch is not None
    on = asked_call.but(
        status=CallStatus.RUNNING,
        hold=None,
        approved=path(),
        holders=frozenset({"Holds"}),
        position=asked_call.hold.position,
        started_at=NOW,
    )
    bench.send(ApproveSent("s:a5")).expect_only(
        answer=DONE,
        events=[ApprovalResolved("s:a5", "c4", "edit", "approved"), run("c4", "edit", path())],
        effects=[limit("c4"), start("c4", "edit", path())],
        rulings=ruled("before_tool"),
        batch=with_call(old.batch.but(decisions=(("tool_approved", True),)), on),
    )


def test_a_rejected_call_gets_its_result_beside_the_batch() -> None:
    bench = held_beside()
    old = bench.state
    over = failed("c4", "edit", "rejected by the user")
    assert old.batch is not None
    rejected = bench.call("c4").but(status=CallStatus.DONE, hold=None, result=over)
    bench.send(RejectSent("s:a5")).expect_only(
        answer=DONE,
        events=[ApprovalResolved("s:a5", "c4", "edit", "rejected")],
        batch=with_call(old.batch.but(decisions=(("tool_rejected", False),)), rejected),
    )


def test_an_answer_goes_to_the_call_that_asked() -> None:
    bench = executing(call("look", path="a"), call("keep"))
    bench.returns("c4", Effect(AskPerson("which?", ("this", "that"))))
    old = bench.state
    assert old.batch is not None
    reported_call = bench.call("c4").but(status=CallStatus.DONE, question=None, result=result("c4", "keep", "that"))
    bench.send(RespondSent("s:q5", "that")).expect_only(
        answer=DONE,
        events=[UserResponded("s:q5", "that"), *ran("c4", "keep", ok("that"))],
        rulings=ruled("after_tool"),
        batch=with_call(old.batch.but(decisions=(("user_respond", True),)), reported_call),
    )


def test_what_does_not_wait_cannot_be_decided() -> None:
    bench = held_beside()
    bench.send(ApproveSent("s:a9")).expect_only(answer=Refused.of(UnknownApproval("s:a9", "`s:a5`")))
    bench.send(RejectSent("s:a9")).expect_only(answer=Refused.of(UnknownApproval("s:a9", "`s:a5`")))
    bench.send(RespondSent("s:a9", "yes")).expect_only(answer=Refused.of(UnknownApproval("s:a9", "none")))


def test_a_model_is_stored_now_and_used_from_the_next_turn() -> None:
    bench = executing()
    bench.send(SwitchModelSent("n")).expect_only(
        answer=DONE, events=[ModelSwitched("m", "n", provider_opts_changed=False)], model="n"
    )
    bench.returns("c3")
    assert bench.got[-1].events[-1] == RequestStart("r4", "m", 3, 1)
    bench.answers("that is all")
    bench.prompt("next")
    assert bench.got[-1].events[-1] == RequestStart("r6", "n", 5, 1)


def test_the_context_will_be_compacted_before_the_next_request() -> None:
    executing().send(CompactSent()).expect_only(
        answer=DONE, compaction_reason="asked by a caller", compaction_cause="caller"
    )


def test_a_queued_prompt_is_taken_back() -> None:
    bench = executing()
    bench.prompt("next")
    bench.send(WithdrawSent("p4")).expect_only(answer=DONE, events=[PromptWithdrawn("p4", "next")], queue=())
    bench.send(WithdrawSent("p4")).expect_only(answer=Refused.of(UnknownPrompt("p4")))


def test_a_stop_kills_all_tools_then_ends_the_session() -> None:
    bench = both()
    bench.prompt("next")
    old = bench.state
    bench.send(StopSent()).expect_only(
        answer=DONE,
        events=[
            ToolKilled("c3", "edit", "stopped"),
            ToolKilled("c4", "keep", "stopped"),
            AgentAbort("p1", "stopped", "stopped"),
            Now(0, 0),
            PromptDropped("p5", "next"),
            SessionEnded("stopped"),
        ],
        effects=[
            CancelCalls(("c3", "c4")),
            SetTimer("grace", NOW + 250),
            ClearTimer("call:c3"),
            ClearTimer("call:c4"),
            ClearTimer("grace"),
            CloseSession("stopped"),
        ],
        rulings=ruled("after_turn", "session_end"),
        phase=Phase.ENDED,
        round=0,
        turn=None,
        batch=None,
        queue=(),
        stop_reason="stopped",
        history=old.history.and_(stopped("c3", EDIT, "stopped"), stopped("c4", KEEP, "stopped")),
        quarantined_calls=(DetachedCall("c3", "edit", NOW, NOW, writes=True), DetachedCall("c4", "keep", NOW, NOW)),
        in_doubt_calls=(unknown("c3", "edit", path()), unknown("c4", "keep")),
    )
