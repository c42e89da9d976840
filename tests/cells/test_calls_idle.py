"""Each call to a session that is idle: no turn is open."""

from agentrail import Accepted
from agentrail.core.context_window import tokens_of
from agentrail.core.vocabulary.commands import RespondSent, SwitchModelSent, WithdrawSent
from agentrail.core.vocabulary.effects import CloseSession
from agentrail.core.vocabulary.state import Compaction
from agentrail.errors import UnknownApproval, UnknownPrompt
from agentrail.events import (
    AgentAbort,
    BeforeCompact,
    ModelEffective,
    ModelSwitched,
    RequestStart,
    SessionEnded,
)
from agentrail.models import FrozenObject, Image, Text, UserMessage
from tests.cells.bench import ruled
from tests.cells.scenes import STARTED, compact_start, compacts, idle, out, replied, request, starts, turn, user_message
from tests.kit import (
    DONE,
    EMPTY,
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


def test_a_prompt_starts_a_turn() -> None:
    got = idle().prompt("hello")
    old = got.before
    got.expect_only(
        answer=Accepted("p1", "started"),
        ids=2,
        events=starts("p1", "r2"),
        effects=[request(old, "r2", user_message("hello"))],
        rulings=ruled(*STARTED),
        phase=Phase.RUNNING,
        turn_count=1,
        round=1,
        turn=turn("p1"),
        history=old.history.and_(user_message("hello")),
        last_request_model=("m", EMPTY),
        request=out("r2"),
    )


def test_a_prompt_may_be_parts() -> None:
    parts = (Text("what is this? "), Image("image/png", "aGk="), Text("tell me"))
    got = idle().send(PromptSent(parts))
    old = got.before
    got.expect_only(
        answer=Accepted("p1", "started"),
        ids=2,
        events=starts("p1", "r2", "what is this? tell me"),
        effects=[request(old, "r2", UserMessage(parts))],
        rulings=ruled(*STARTED),
        phase=Phase.RUNNING,
        turn_count=1,
        round=1,
        turn=turn("p1"),
        history=old.history.and_(UserMessage(parts)),
        last_request_model=("m", EMPTY),
        request=out("r2"),
    )


def test_steering_is_a_prompt_for_which_before_steering_does_not_run() -> None:
    got = idle().send(SteerSent("hello"))
    old = got.before
    got.expect_only(
        answer=Accepted("p1", "started"),
        ids=2,
        events=starts("p1", "r2"),
        effects=[request(old, "r2", user_message("hello"))],
        rulings=ruled("before_prompt", "before_request"),
        phase=Phase.RUNNING,
        turn_count=1,
        round=1,
        turn=turn("p1"),
        history=old.history.and_(user_message("hello")),
        last_request_model=("m", EMPTY),
        request=out("r2"),
    )


def test_an_abort_stops_nothing_and_is_reported() -> None:
    idle().send(AbortSent()).expect_only(answer=DONE, events=[AgentAbort(None, "user")])
    idle().send(AbortSent("enough")).expect_only(answer=DONE, events=[AgentAbort(None, "user", "enough")])


def test_nothing_can_be_approved() -> None:
    idle().send(ApproveSent("s:a1")).expect_only(answer=Refused.of(UnknownApproval("s:a1", "none")))


def test_nothing_can_be_rejected() -> None:
    idle().send(RejectSent("s:a1")).expect_only(answer=Refused.of(UnknownApproval("s:a1", "none")))


def test_no_question_can_be_answered() -> None:
    idle().send(RespondSent("s:q1", "yes")).expect_only(answer=Refused.of(UnknownApproval("s:q1", "none")))


def test_the_next_prompt_uses_the_new_model() -> None:
    bench = idle()
    warm = FrozenObject(temperature=1)
    bench.send(SwitchModelSent("n", warm)).expect_only(
        answer=DONE,
        events=[ModelSwitched("m", "n", provider_opts_changed=True)],
        model="n",
        model_options=warm,
        last_request_model=("m", EMPTY),
    )
    got = bench.prompt()
    old = got.before
    got.expect_only(
        answer=Accepted("p1", "started"),
        ids=2,
        events=[*starts("p1", "r2")[:-1], ModelEffective("n"), RequestStart("r2", "n", 1, 1)],
        effects=[request(old, "r2", user_message(), model="n", options=warm)],
        rulings=ruled(*STARTED),
        phase=Phase.RUNNING,
        turn_count=1,
        round=1,
        turn=turn("p1", model="n", options=warm),
        history=old.history.and_(user_message()),
        last_request_model=("n", warm),
        request=out("r2"),
    )


def test_the_first_request_that_uses_another_model_says_so() -> None:
    bench = idle()
    bench.prompt()
    bench.answers("hi")
    bench.send(SwitchModelSent("n")).expect_only(
        answer=DONE, events=[ModelSwitched("m", "n", provider_opts_changed=False)], model="n"
    )
    got = bench.prompt("again")
    old = got.before
    got.expect_only(
        answer=Accepted("p3", "started"),
        ids=2,
        events=[
            *starts("p3", "r4", "again", turns=2)[:-1],
            ModelEffective("n"),
            RequestStart("r4", "n", 3, 1),
        ],
        effects=[request(old, "r4", user_message("again"), model="n")],
        rulings=ruled(*STARTED),
        phase=Phase.RUNNING,
        turn_count=2,
        round=1,
        turn=turn("p3", model="n", mark=2),
        history=old.history.and_(user_message("again")),
        last_request_model=("n", EMPTY),
        request=out("r4"),
    )


def test_the_same_model_with_the_same_options_is_nothing() -> None:
    idle().send(SwitchModelSent("m")).expect_only(answer=DONE)


def test_the_context_is_compacted_at_once() -> None:
    bench = idle()
    bench.prompt()
    bench.answers("hi")
    got = bench.send(CompactSent("make room"))
    old = got.before
    got.expect_only(
        answer=DONE,
        ids=1,
        events=[BeforeCompact(2, "make room"), compact_start(old, "make room")],
        effects=[compacts(old, "k3", old.history.size // 2, by_caller=True)],
        rulings=ruled("before_compact"),
        phase=Phase.RUNNING,
        compaction=Compaction("k3", "make room", running=True, tokens=tokens_of(old), by="caller"),
    )
    assert tuple(old.history) == (user_message(), replied("hi"))


def test_nothing_waits_that_could_be_withdrawn() -> None:
    idle().send(WithdrawSent("p1")).expect_only(answer=Refused.of(UnknownPrompt("p1")))


def test_session_end_runs_and_the_session_is_over() -> None:
    got = idle().send(StopSent("bye"))
    got.expect_only(
        answer=DONE,
        events=[SessionEnded("bye")],
        effects=[CloseSession("bye")],
        rulings=ruled("session_end"),
        phase=Phase.ENDED,
        stop_reason="bye",
    )
