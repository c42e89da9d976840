"""Each call while a request is under way: `running`, and `streaming` once the first chunk has come."""

from collections.abc import Iterator

from agentrail import Accepted, Prompt
from agentrail.core.vocabulary.commands import RespondSent, SwitchModelSent, WithdrawSent
from agentrail.core.vocabulary.effects import CloseSession
from agentrail.core.vocabulary.state import Steering
from agentrail.errors import UnknownApproval, UnknownPrompt
from agentrail.events import (
    AgentAbort,
    AgentResumed,
    ModelSwitched,
    PromptDropped,
    PromptQueued,
    PromptWithdrawn,
    RequestStart,
    SessionEnded,
    SteeringApplied,
    SteeringReceived,
)
from agentrail.models import Message, Origin, Partial, Text, Usage
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import Bench, Now, ruled
from tests.cells.scenes import STARTED, cut, cut_off, out, request, running, starts, streaming, turn, user_message
from tests.kit import (
    DONE,
    AbortSent,
    ApproveSent,
    CompactSent,
    Phase,
    PromptSent,
    Refused,
    RejectSent,
    SteerSent,
    StopSent,
)

BOTH = ("running", "streaming")


def both() -> Iterator[tuple[Bench, Partial, tuple[Message, ...]]]:
    """Yield a session of each state, with the text streamed so far and what an interruption keeps of it."""
    yield running(), NOTHING_YET, ()
    yield streaming(), Partial("so far"), (cut_off("so far"),)


def test_a_prompt_is_queued() -> None:
    for bench, _, _ in both():
        bench.prompt("one").expect_only(
            answer=Accepted("p3", "queued", 1),
            ids=1,
            events=[PromptQueued("p3", "one", 1)],
            queue=(Prompt("p3", (Text("one"),)),),
        )
        bench.send(PromptSent((Text("two"),))).expect_only(
            answer=Accepted("p4", "queued", 2),
            ids=1,
            events=[PromptQueued("p4", "two", 2)],
            queue=(Prompt("p3", (Text("one"),)), Prompt("p4", (Text("two"),))),
        )


def test_steering_joins_its_queue() -> None:
    for bench, _, _ in both():
        bench.send(SteerSent("rather this")).expect_only(
            answer=Accepted("s3", "queued", 1),
            ids=1,
            events=[SteeringReceived("s3", "rather this", "queued")],
            rulings=ruled("before_steering"),
            steering=(Steering("s3", "rather this"),),
        )
        bench.send(SteerSent("and that")).expect_only(
            answer=Accepted("s4", "queued", 2),
            ids=1,
            events=[SteeringReceived("s4", "and that", "queued")],
            rulings=ruled("before_steering"),
            steering=(Steering("s3", "rather this"), Steering("s4", "and that")),
        )


def test_steering_now_cuts_the_stream_and_goes_on_at_once() -> None:
    for bench, partial, remaining in both():
        old = bench.state
        new = user_message("rather this", Origin.STEERING)
        bench.send(SteerSent("rather this", "now", partial)).expect_only(
            answer=Accepted("s3", "queued", 1),
            ids=2,
            events=[
                SteeringReceived("s3", "rather this", "queued"),
                AgentResumed("steering"),
                Now(1, 2),
                SteeringApplied(("s3",), 1),
                RequestStart("r4", "m", 2 + len(remaining), 1),
            ],
            effects=[cut("r2"), request(old, "r4", *remaining, new)],
            rulings=ruled("before_steering", "before_request"),
            phase=Phase.RUNNING,
            round=2,
            history=old.history.and_(*remaining, new),
            request=out("r4"),
        )


def test_an_abort_cancels_the_request_and_keeps_the_partial_text() -> None:
    for bench, partial, remaining in both():
        old = bench.state
        bench.send(AbortSent("enough", partial=partial)).expect_only(
            answer=DONE,
            events=[AgentAbort("p1", "user", "enough")],
            effects=[cut("r2")],
            rulings=ruled("after_turn"),
            phase=Phase.IDLE,
            round=0,
            turn=None,
            request=None,
            history=old.history.and_(*remaining),
        )


def test_an_abort_counts_what_the_stream_had_used() -> None:
    bench = streaming()
    used = Usage(10, 2, estimated=True)
    old = bench.state
    bench.send(AbortSent(partial=Partial("so far", "hm", used))).expect_only(
        answer=DONE,
        events=[AgentAbort("p1", "user")],
        effects=[cut("r2")],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        request=None,
        usage=used,
        history=old.history.and_(cut_off("so far").but(usage=used)),
    )


def test_the_queue_is_consumed_after_an_abort_or_cleared_by_it() -> None:
    for bench, partial, remaining in both():
        bench.prompt("next")
        old = bench.state
        bench.send(AbortSent(partial=partial)).expect_only(
            answer=DONE,
            ids=1,
            events=[AgentAbort("p1", "user"), *starts("p3", "r4", "next", turns=2, messages=2 + len(remaining))],
            effects=[cut("r2"), request(old, "r4", *remaining, user_message("next"))],
            rulings=ruled("after_turn", *STARTED),
            phase=Phase.RUNNING,
            turn_count=2,
            turn=turn("p3", mark=1 + len(remaining)),
            request=out("r4"),
            queue=(),
            history=old.history.and_(*remaining, user_message("next")),
        )
    for bench, partial, remaining in both():
        bench.prompt("next")
        old = bench.state
        bench.send(AbortSent(clear_queue=True, partial=partial)).expect_only(
            answer=DONE,
            events=[PromptDropped("p3", "next"), AgentAbort("p1", "user")],
            effects=[cut("r2")],
            rulings=ruled("after_turn"),
            phase=Phase.IDLE,
            round=0,
            turn=None,
            request=None,
            queue=(),
            history=old.history.and_(*remaining),
        )


def test_nothing_can_be_held_while_a_request_is_out_so_nothing_can_be_approved() -> None:
    for bench, _, _ in both():
        bench.send(ApproveSent("s:a4")).expect_only(answer=Refused.of(UnknownApproval("s:a4", "none")))


def test_nothing_can_be_held_while_a_request_is_out_so_nothing_can_be_rejected() -> None:
    for bench, _, _ in both():
        bench.send(RejectSent("s:a4")).expect_only(answer=Refused.of(UnknownApproval("s:a4", "none")))


def test_nothing_can_have_been_asked_while_a_request_is_out() -> None:
    for bench, _, _ in both():
        bench.send(RespondSent("s:q4", "yes")).expect_only(answer=Refused.of(UnknownApproval("s:q4", "none")))


def test_a_model_is_stored_now_and_used_from_the_next_turn() -> None:
    for bench, _, _ in both():
        bench.send(SwitchModelSent("n")).expect_only(
            answer=DONE, events=[ModelSwitched("m", "n", provider_opts_changed=False)], model="n"
        )
        bench.answers("", *(), stop=None)  # nothing at all: this turn asks once more, and asks the same model
        assert bench.got[-1].events[-1] == RequestStart("r3", "m", 1, 2)


def test_the_context_will_be_compacted_before_the_next_request() -> None:
    for bench, _, _ in both():
        bench.send(CompactSent("make room")).expect_only(
            answer=DONE, compaction_reason="make room", compaction_cause="caller"
        )


def test_a_queued_prompt_is_taken_back() -> None:
    for bench, _, _ in both():
        bench.prompt("one")
        bench.prompt("two")
        bench.send(WithdrawSent("p3")).expect_only(
            answer=DONE, events=[PromptWithdrawn("p3", "one")], queue=(Prompt("p4", (Text("two"),)),)
        )
        bench.send(WithdrawSent("p3")).expect_only(answer=Refused.of(UnknownPrompt("p3")))


def test_a_stop_aborts_the_turn_then_ends_the_session() -> None:
    for bench, partial, remaining in both():
        bench.prompt("next")
        old = bench.state
        bench.send(StopSent("bye", partial)).expect_only(
            answer=DONE,
            events=[AgentAbort("p1", "stopped", "bye"), Now(0, 0), PromptDropped("p3", "next"), SessionEnded("bye")],
            effects=[cut("r2"), CloseSession("bye")],
            rulings=ruled("after_turn", "session_end"),
            phase=Phase.ENDED,
            round=0,
            turn=None,
            request=None,
            queue=(),
            stop_reason="bye",
            history=old.history.and_(*remaining),
        )
