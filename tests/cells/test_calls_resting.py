"""Each call to a session that rests: a turn is open, and only held calls are left."""

from agentrail import Accepted, Options, Prompt
from agentrail.core.vocabulary.commands import RespondSent, SwitchModelSent, WithdrawSent
from agentrail.core.vocabulary.effects import ClearTimer, CloseSession
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.errors import Busy, QueueFull, UnknownApproval, UnknownPrompt, WrongDecision
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    ApprovalResolved,
    ModelSwitched,
    PromptDropped,
    PromptQueued,
    PromptWithdrawn,
    SessionEnded,
)
from agentrail.models import Text, ToolCall
from tests.cells.bench import NOW, Bench, Now, ruled, with_call
from tests.cells.scenes import (
    STARTED,
    failed,
    limit,
    out,
    path,
    request,
    resting,
    run,
    start,
    starts,
    turn,
    user_message,
)
from tests.kit import (
    DONE,
    NOTHING_USED,
    AbortSent,
    ApproveSent,
    CompactSent,
    Phase,
    Refused,
    RejectSent,
    SteerSent,
    StopSent,
)

SUPERSEDED = failed("c3", "edit", "superseded by a new message of the user")


def _superseded_by(got_text: str, bench: Bench, *, steer: bool) -> None:
    old = bench.state
    got = bench.send(SteerSent(got_text)) if steer else bench.prompt(got_text)
    history = old.history.and_(SUPERSEDED)
    got.expect_only(
        answer=Accepted("p5", "queued", 1, (ToolCall("c3", "edit", path("a")),)),
        ids=2,
        events=[
            PromptQueued("p5", got_text, 1),
            ApprovalResolved("s:a4", "c3", "edit", "superseded"),
            AgentEnd("p1", "superseded", tuple(history), NOTHING_USED),
            *starts("p5", "r6", got_text, turns=2, messages=4),
        ],
        effects=[request(old, "r6", SUPERSEDED, user_message(got_text))],
        rulings=ruled("after_turn", *STARTED),
        phase=Phase.RUNNING,
        turn_count=2,
        round=1,
        turn=turn("p5", mark=3),
        batch=None,
        history=history.and_(user_message(got_text)),
        request=out("r6"),
    )


def test_a_prompt_supersedes_the_held_calls() -> None:
    _superseded_by("rather this", resting(), steer=False)


def test_steering_is_a_prompt() -> None:
    _superseded_by("rather this", resting(), steer=True)


def test_a_prompt_joins_the_end_of_the_queue_that_waited_for_the_rest() -> None:
    bench = resting(options=Options(on_prompt_while_held="queue"))
    bench.prompt("first").expect_only(
        answer=Accepted("p5", "queued", 1),
        ids=1,
        events=[PromptQueued("p5", "first", 1)],
        queue=(Prompt("p5", (Text("first"),)),),
    )
    bench.prompt("second").expect_only(
        answer=Accepted("p6", "queued", 2),
        ids=1,
        events=[PromptQueued("p6", "second", 2)],
        queue=(Prompt("p5", (Text("first"),)), Prompt("p6", (Text("second"),))),
    )


def test_a_prompt_that_finds_the_queue_full_supersedes_nothing() -> None:
    bench = resting(options=Options(on_prompt_while_held="queue", max_prompt_queue=1))
    bench.prompt("first")
    bench.prompt("second").expect_only(answer=Refused.of(QueueFull(1)))


def test_an_abort_ends_the_open_turn_and_the_held_calls() -> None:
    bench = resting()
    old = bench.state
    bench.send(AbortSent("enough")).expect_only(
        answer=DONE,
        events=[ApprovalResolved("s:a4", "c3", "edit", "aborted"), AgentAbort("p1", "user", "enough")],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        batch=None,
        history=old.history.and_(failed("c3", "edit", "aborted: enough")),
    )


def test_an_abort_leaves_the_queue_which_is_consumed_next_unless_told_to_clear_it() -> None:
    options = Options(on_prompt_while_held="queue")
    for clear in (False, True):
        bench = resting(options=options)
        bench.prompt("next")
        old = bench.state
        over = failed("c3", "edit", "aborted: user")
        aborted = [ApprovalResolved("s:a4", "c3", "edit", "aborted"), AgentAbort("p1", "user")]
        got = bench.send(AbortSent(clear_queue=clear))
        if clear:
            got.expect_only(
                answer=DONE,
                events=[PromptDropped("p5", "next"), *aborted],
                rulings=ruled("after_turn"),
                phase=Phase.IDLE,
                round=0,
                turn=None,
                batch=None,
                queue=(),
                history=old.history.and_(over),
            )
        else:
            got.expect_only(
                answer=DONE,
                ids=1,
                events=[*aborted, *starts("p5", "r6", "next", turns=2, messages=4)],
                effects=[request(old, "r6", over, user_message("next"))],
                rulings=ruled("after_turn", *STARTED),
                phase=Phase.RUNNING,
                turn_count=2,
                turn=turn("p5", mark=3),
                batch=None,
                queue=(),
                history=old.history.and_(over, user_message("next")),
                request=out("r6"),
            )


def test_an_approved_call_runs() -> None:
    bench = resting(timeout=120.0)
    old = bench.state
    call = bench.call("c3")
    assert call.hold is not None
    running = call.but(
        status=CallStatus.RUNNING,
        hold=None,
        approved=path("a"),
        holders=frozenset({"Holds"}),
        position=call.hold.position,
        started_at=NOW,
    )
    assert old.batch is not None
    bench.send(ApproveSent("s:a4")).expect_only(
        answer=DONE,
        events=[ApprovalResolved("s:a4", "c3", "edit", "approved"), run("c3", "edit", path("a"))],
        effects=[ClearTimer("hold:s:a4"), limit("c3"), start("c3", "edit", path("a"))],
        rulings=ruled("before_tool"),
        phase=Phase.EXECUTING_TOOLS,
        batch=with_call(old.batch.but(decisions=(("tool_approved", True),)), running),
    )


def test_a_rejected_call_gets_an_error_result_and_the_turn_ends() -> None:
    bench = resting(timeout=120.0)
    old = bench.state
    history = old.history.and_(failed("c3", "edit", "rejected by the user: too risky"))
    bench.send(RejectSent("s:a4", "too risky")).expect_only(
        answer=DONE,
        events=[
            ApprovalResolved("s:a4", "c3", "edit", "rejected", "too risky"),
            AgentEnd("p1", "left", tuple(history), NOTHING_USED),
        ],
        effects=[ClearTimer("hold:s:a4")],
        rulings=ruled("after_tool_batch", "after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        batch=None,
        history=history,
    )


def test_a_held_call_is_no_question_and_the_caller_is_told_what_it_is() -> None:
    wrong_decision = WrongDecision("s:a4", "respond to", "a held call", "`session.approve` or `session.reject`")
    resting().send(RespondSent("s:a4", "yes")).expect_only(answer=Refused.of(wrong_decision))
    assert (
        str(wrong_decision) == "cannot respond to `s:a4`: it is a held call; use `session.approve` or `session.reject`"
    )
    resting().send(RespondSent("s:a9", "yes")).expect_only(answer=Refused.of(UnknownApproval("s:a9", "none")))


def test_an_unknown_id_cannot_be_approved() -> None:
    resting().send(ApproveSent("s:a9")).expect_only(answer=Refused.of(UnknownApproval("s:a9", "`s:a4`")))


def test_an_unknown_id_cannot_be_rejected() -> None:
    resting().send(RejectSent("s:a9")).expect_only(answer=Refused.of(UnknownApproval("s:a9", "`s:a4`")))


def test_the_open_turn_keeps_its_model() -> None:
    bench = resting()
    bench.send(SwitchModelSent("n")).expect_only(
        answer=DONE, events=[ModelSwitched("m", "n", provider_opts_changed=False)], model="n"
    )
    bench.send(ApproveSent("s:a4"))
    bench.returns("c3")
    assert bench.state.turn is not None
    assert bench.state.turn.model == "m"


def test_compacting_is_refused_while_a_turn_is_open() -> None:
    resting().send(CompactSent()).expect_only(answer=Refused.of(Busy("compact")))


def test_a_queued_prompt_is_taken_back() -> None:
    bench = resting(options=Options(on_prompt_while_held="queue"))
    bench.prompt("next")
    bench.send(WithdrawSent("p9")).expect_only(answer=Refused.of(UnknownPrompt("p9")))
    bench.send(WithdrawSent("p5")).expect_only(answer=DONE, events=[PromptWithdrawn("p5", "next")], queue=())


def test_the_turn_is_aborted_then_the_session_ends() -> None:
    bench = resting(timeout=120.0)
    old = bench.state
    bench.send(StopSent("bye")).expect_only(
        answer=DONE,
        events=[
            ApprovalResolved("s:a4", "c3", "edit", "aborted"),
            AgentAbort("p1", "stopped", "bye"),
            Now(0, 0),
            SessionEnded("bye"),
        ],
        effects=[ClearTimer("hold:s:a4"), CloseSession("bye")],
        rulings=ruled("after_turn", "session_end"),
        phase=Phase.ENDED,
        round=0,
        turn=None,
        batch=None,
        stop_reason="bye",
        history=old.history.and_(failed("c3", "edit", "aborted: bye")),
    )
