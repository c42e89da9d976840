"""Questions of tools: `ask_user` carries question, options and ref; `respond` answers."""

import pytest

from agentrail import Abort, Accepted, Action, Ask, Options
from agentrail.core.vocabulary.commands import RespondSent
from agentrail.core.vocabulary.effects import ClearTimer, StartCall
from agentrail.core.vocabulary.tool_calls import CallStatus, Question
from agentrail.errors import UnknownApproval, WrongDecision
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentResumed,
    ApprovalResolved,
    AskUser,
    PromptQueued,
    RequestStart,
    UserResponded,
)
from agentrail.models import ToolCall
from agentrail.plugins import AfterTool, AnyPlugin, CallService
from agentrail.tools import AskPerson, Effect, PersonAnswer, ok
from tests.cells.bench import NOW, Bench, Got, Now, call, plug, ruled, with_call
from tests.cells.scenes import STARTED, executing, failed, out, ran, request, result, starts, turn, user_message
from tests.kit import DONE, NOTHING_USED, AbortSent, ApproveSent, Phase, Refused, RejectSent, SteerSent, ToolReturned

WHICH = Effect(AskPerson("which?", ("this", "that")))


def with_question() -> Bench:
    """Return a session that rests: its only call, c3 to `keep`, has asked a question, with the ref s:q4."""
    bench = executing(call("keep"))
    bench.returns("c3", WHICH)
    return bench


def test_a_session_rests_when_only_a_question_is_left() -> None:
    bench = executing(call("keep"))
    old = bench.state
    assert old.batch is not None
    question = Question("s:q4", "which?", ("this", "that"), asked_at=NOW)
    waiting = bench.call("c3").but(status=CallStatus.ASKING, question=question)
    bench.returns("c3", WHICH).expect_only(
        ids=1,
        events=[AskUser("s:q4", "c3", "which?", ("this", "that"))],
        effects=[ClearTimer("call:c3")],
        phase=Phase.IDLE,
        batch=with_call(old.batch, waiting),
    )
    assert bench.state.timers == (), "a question has no time-out of its own"


def test_the_answer_is_the_result_and_the_model_goes_on() -> None:
    bench = with_question()
    old = bench.state
    report = result("c3", "keep", "that")
    bench.send(RespondSent("s:q4", "that")).expect_only(
        answer=DONE,
        ids=1,
        events=[
            UserResponded("s:q4", "that"),
            *ran("c3", "keep", ok("that")),
            AgentResumed("user_respond"),
            Now(1, 2),
            RequestStart("r5", "m", 3, 1),
        ],
        effects=[request(old, "r5", report)],
        rulings=ruled("after_tool", "after_tool_batch", "before_request"),
        phase=Phase.RUNNING,
        round=2,
        batch=None,
        request=out("r5"),
        history=old.history.and_(report),
    )
    bench.send(RespondSent("s:q4", "that")).expect_only(answer=Refused.of(UnknownApproval("s:q4", "none")))


def test_a_question_is_not_approved_or_rejected_and_the_caller_is_told_what_it_is() -> None:
    for value, word in ((ApproveSent("s:q4"), "approve"), (RejectSent("s:q4"), "reject")):
        wrong_decision = WrongDecision("s:q4", word, "a question", "`session.respond`")
        with_question().send(value).expect_only(answer=Refused.of(wrong_decision))
        assert str(wrong_decision) == f"cannot {word} `s:q4`: it is a question; use `session.respond`"
        assert isinstance(wrong_decision, UnknownApproval)
    with_question().send(ApproveSent("s:q9")).expect_only(answer=Refused.of(UnknownApproval("s:q9", "none")))
    with_question().send(RespondSent("s:q9", "that")).expect_only(answer=Refused.of(UnknownApproval("s:q9", "`s:q4`")))


def test_a_prompt_supersedes_a_question() -> None:
    for steer in (False, True):
        bench = with_question()
        old = bench.state
        over = failed("c3", "keep", "superseded by a new message of the user")
        got = bench.send(SteerSent("never mind")) if steer else bench.prompt("never mind")
        got.expect_only(
            answer=Accepted("p5", "queued", 1, (ToolCall("c3", "keep"),)),
            ids=2,
            events=[
                PromptQueued("p5", "never mind", 1),
                ApprovalResolved("s:q4", "c3", "keep", "superseded"),
                AgentEnd("p1", "superseded", tuple(old.history.and_(over)), NOTHING_USED),
                *starts("p5", "r6", "never mind", turns=2, messages=4),
            ],
            effects=[request(old, "r6", over, user_message("never mind"))],
            rulings=ruled("after_turn", *STARTED),
            phase=Phase.RUNNING,
            turn_count=2,
            round=1,
            turn=turn("p5", mark=3),
            batch=None,
            request=out("r6"),
            history=old.history.and_(over, user_message("never mind")),
        )


def test_an_abort_ends_a_question() -> None:
    bench = with_question()
    old = bench.state
    bench.send(AbortSent()).expect_only(
        answer=DONE,
        events=[ApprovalResolved("s:q4", "c3", "keep", "aborted"), AgentAbort("p1", "user")],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        batch=None,
        history=old.history.and_(failed("c3", "keep", "aborted: user")),
    )


def test_a_second_word_of_a_call_that_has_asked_changes_nothing() -> None:
    bench = with_question()
    bench.send(ToolReturned("c3", 1, ok("late"))).expect_nothing()


def beside(*plugins: AnyPlugin, options: Options | None = None) -> Bench:
    """Return a session whose call c4 has asked a question, with the ref s:q5, while c3 to `look` runs."""
    bench = executing(call("look", path="a"), call("keep"), plugins=plugins, options=options)
    bench.returns("c4", WHICH)
    return bench


def at_keep(action: Action[object]) -> AnyPlugin:
    """Return a plugin that asks for something when a call to `look` is over, and for *action* after one to `keep`."""

    def answer(hook: AfterTool, _state: object, _ctx: object) -> object:
        return action if hook.name == "keep" else Ask(CallService("lookup"))

    return plug("Rules", after_tool=answer)


def asked_for(got: Got) -> set[str]:
    """Return the names of the effects of a step."""
    return {type(effect).__name__ for effect in got.step.effects}


def test_a_plugin_that_aborts_after_an_answer_ends_the_turn_with_the_calls_beside_it() -> None:
    bench = beside(at_keep(Abort("enough")))
    got = bench.send(RespondSent("s:q5", "that"))
    assert asked_for(got) == {"CancelCalls", "ClearTimer", "SetTimer"}
    assert bench.state.phase is Phase.IDLE


def test_it_drops_the_asks_about_the_calls_beside_it() -> None:
    bench = beside(at_keep(Abort("enough")))
    bench.returns("c3")
    got = bench.send(RespondSent("s:q5", "that"))
    assert asked_for(got) == {"CancelAsk", "ClearTimer"}
    assert bench.state.phase is Phase.IDLE


@pytest.mark.parametrize(("window", "effect"), [(1_000, "StartRequest"), (100, "StartCompaction")])
def test_after_it_the_next_prompt_is_taken(window: int, effect: str) -> None:
    bench = beside(at_keep(Abort("enough")), options=Options(context_window=window))
    bench.prompt("x" * 500)
    got = bench.send(RespondSent("s:q5", "that"))
    assert effect in asked_for(got)
    assert bench.state.phase is Phase.RUNNING


def test_a_plugin_may_ask_for_something_about_an_answer() -> None:
    bench = beside(at_keep(Ask(CallService("lookup"))))
    got = bench.send(RespondSent("s:q5", "that"))
    assert asked_for(got) == {"CarryOut", "SetTimer"}
    assert bench.state.phase is Phase.EXECUTING_TOOLS


GOES_ON = Effect(AskPerson("sure?", (), {"step": 1}))


def test_a_tool_that_wants_to_go_on_runs_again_with_the_answer() -> None:
    bench = executing(call("keep"))
    bench.returns("c3", GOES_ON)
    got = bench.send(RespondSent("s:q4", "yes"))
    (start,) = [effect for effect in got.step.effects if isinstance(effect, StartCall)]
    assert (start.call_id, start.attempt, start.person_answer) == ("c3", 1, PersonAnswer({"step": 1}, "yes"))
    assert bench.call("c3").status is CallStatus.RUNNING
    bench.returns("c3", Effect(AskPerson("and why?", (), {"step": 2})))
    bench.send(RespondSent("s:q5", "so"))
    assert bench.call("c3").person_answer == PersonAnswer({"step": 2}, "so")
    bench.returns("c3", ok("done"))
    assert bench.state.history[-1] == result("c3", "keep", "done")


def test_a_tool_that_would_have_gone_on_is_in_doubt_when_its_question_is_dropped() -> None:
    bench = executing(call("keep"))
    bench.returns("c3", GOES_ON)
    bench.send(SteerSent("never mind"))
    assert [doubt.call_id for doubt in bench.state.in_doubt_calls] == ["c3"]
    dropped = bench.state.history[-2].text
    assert (
        dropped == "superseded by a new message of the user; it may have taken effect; find out before calling it again"
    )


def test_a_tool_runs_again_beside_a_call_that_runs() -> None:
    bench = executing(call("keep"), call("keep", other=1))
    bench.returns("c3", GOES_ON)
    got = bench.send(RespondSent(bench.call("c3").question.ref, "yes"))  # type: ignore[union-attr]  # it has asked
    assert [effect.call_id for effect in got.step.effects if isinstance(effect, StartCall)] == ["c3"]
    assert {bench.call(call_id).status for call_id in ("c3", "c4")} == {CallStatus.RUNNING}
