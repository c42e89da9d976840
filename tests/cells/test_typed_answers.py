"""Answers in a form, as the machine sees them: checked, given back to the model with the reason, and refused."""

from __future__ import annotations

import pytest

from agentrail import Abort, Continue, Intervene, Options
from agentrail.core.machine.responses import AGAIN, CUT
from agentrail.core.machine.step import step
from agentrail.core.vocabulary.effects import StartRequest
from agentrail.events import AgentAbort, AgentEnd, AnswerRejected
from agentrail.hooks.hook_runner import RecordedRunner
from agentrail.models import JsonObject, Origin, StopReason, Text, UserMessage
from agentrail.plugins import AnyPlugin
from tests.cells.bench import Bench, Got, call, plug
from tests.cells.scenes import idle
from tests.kit import EMPTY, AbortSent, Phase, PromptSent, SteerSent, freeze_object

SCHEMA = freeze_object({"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]})
OTHER = freeze_object({"type": "object", "required": ["floor"]})
GOOD = '{"room": "kitchen"}'


def prompted(*plugins: AnyPlugin, options: Options | None = None, returns: JsonObject = SCHEMA) -> Bench:
    bench = idle(*plugins, options=options)
    bench.send(PromptSent((Text("where?"),), returns=returns))
    return bench


def asks_for(got: Got) -> JsonObject:
    """Return the schema in the request that the step sends."""
    (found_return,) = [effect.request.returns for effect in got.step.effects if isinstance(effect, StartRequest)]
    return found_return


def rejected(got: Got) -> AnswerRejected:
    (found_event,) = [event for event in got.events if isinstance(event, AnswerRejected)]
    return found_event


def ended(got: Got) -> AgentEnd:
    (found_event,) = [event for event in got.events if isinstance(event, AgentEnd)]
    return found_event


def aborted(got: Got) -> AgentAbort:
    (found_event,) = [event for event in got.events if isinstance(event, AgentAbort)]
    return found_event


def test_the_request_carries_the_schema_and_a_fitting_answer_ends_the_turn() -> None:
    bench = prompted()
    assert asks_for(bench.got[-1]) == SCHEMA
    got = bench.answers(GOOD)
    assert ended(got).fits
    assert got.step.state.returns == EMPTY


def test_a_prompt_without_a_schema_has_none() -> None:
    bench = idle()
    assert asks_for(bench.prompt()) == EMPTY
    assert not ended(bench.answers(GOOD)).fits


def test_the_schema_of_the_session_holds_for_prompts_without_one() -> None:
    bench = idle()
    bench.state = bench.state.but(setup=bench.state.setup.but(returns=SCHEMA))
    assert asks_for(bench.prompt()) == SCHEMA
    assert ended(bench.answers(GOOD)).fits
    assert asks_for(bench.send(PromptSent((Text("which?"),), returns=OTHER))) == OTHER
    assert ended(bench.answers('{"floor": 1}')).fits


def test_a_queued_prompt_keeps_its_schema() -> None:
    bench = idle()
    bench.prompt()
    bench.send(PromptSent((Text("where?"),), returns=SCHEMA))
    assert asks_for(bench.answers("done")) == SCHEMA
    assert asks_for(bench.answers("the kitchen")) == SCHEMA


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("the kitchen", "it is no JSON: Expecting value: line 1 column 1 (char 0)"),
        ('["room"]', "it is no JSON object"),
        ('{"room": NaN}', "it is no JSON: $.room is the number nan, which JSON cannot hold; "),
        ("{}", "`room`"),
        ('{"room": 1}', "room"),
    ],
    ids=["text", "a list", "no number", "a missing key", "a wrong type"],
)
def test_an_answer_that_does_not_fit_goes_back_with_the_reason(text: str, problem: str) -> None:
    bench = prompted()
    got = bench.answers(text)
    report = rejected(got)
    assert problem in report.reason
    assert (report.attempt, report.is_last) == (1, False)
    assert got.step.state.history[-1] == UserMessage((Text(AGAIN.format(problem=report.reason)),), Origin.NOTICE)
    assert asks_for(got) == SCHEMA
    assert got.step.state.round == 2
    assert ended(bench.answers(GOOD)).fits


def test_the_turn_is_aborted_when_the_model_was_asked_again_often_enough() -> None:
    bench = prompted(options=Options(answer_max_retries=1))
    bench.answers("no")
    got = bench.answers("no, again")
    assert (rejected(got).attempt, rejected(got).is_last) == (2, True)
    assert (aborted(got).kind, aborted(got).reason) == ("answer", rejected(got).reason)
    assert got.step.state.phase is Phase.IDLE


def test_the_turn_is_aborted_when_no_round_is_left() -> None:
    got = prompted(options=Options(max_rounds=1)).answers("no")
    assert rejected(got).is_last
    assert aborted(got).kind == "answer"


def test_an_answer_in_the_last_round_still_counts() -> None:
    end = ended(prompted(options=Options(max_rounds=1)).answers(GOOD))
    assert (end.reason, end.fits) == ("max_rounds", True)


def test_an_answer_that_was_cut_off_does_not_fit_even_if_it_seems_to() -> None:
    got = prompted().answers(GOOD, stop=StopReason.LENGTH)
    assert rejected(got).reason == CUT


@pytest.mark.parametrize("text", ["I will not", ""], ids=["with a text", "without"])
def test_a_model_that_refuses_is_not_asked_again(text: str) -> None:
    got = prompted().answers(text, stop=StopReason.REFUSED)
    assert rejected(got).is_last
    assert aborted(got).reason == ("the model refuses to answer: I will not" if text else "the model refuses to answer")


def test_text_beside_calls_is_no_answer_yet() -> None:
    bench = prompted()
    bench.answers("I look", call("look", path="a"))
    got = bench.returns("c3")
    assert asks_for(got) == SCHEMA
    assert ended(bench.answers(GOOD)).fits


def test_the_count_of_misfits_is_of_the_turn_and_not_of_a_round() -> None:
    bench = prompted(options=Options(answer_max_retries=1))
    bench.answers("no")
    bench.answers("I look", call("look", path="a"))
    assert bench.state.batch is not None
    (busy,) = bench.state.batch.calls
    bench.returns(busy.call_id)
    assert aborted(bench.answers("no")).kind == "answer"


def test_plugins_at_before_finish_see_answers_that_fit_alone() -> None:
    seen: list[str | None] = []

    def look(_hook: object, _state: object, ctx: object) -> object:
        seen.append(getattr(ctx, "last_assistant_reply", None))
        return Continue()

    bench = prompted(plug("Looks", before_finish=look), options=Options(answer_max_retries=1))
    bench.answers("no")
    bench.answers(GOOD)
    assert seen == [GOOD]
    bench.send(PromptSent((Text("where?"),), returns=SCHEMA))
    bench.answers("no")
    assert aborted(bench.answers("no, again")).kind == "answer"
    assert seen == [GOOD], "nor the last one that does not fit"


def test_an_answer_that_a_plugin_sends_back_is_checked_anew() -> None:
    answers = iter([Intervene("are you sure?"), Continue()])
    bench = prompted(plug("Doubts", before_finish=lambda *_: next(answers)))
    bench.answers(GOOD)
    assert rejected(bench.answers("yes")).attempt == 1
    assert ended(bench.answers('{"room": "hall"}')).fits


def test_a_plugin_that_aborts_at_before_finish_leaves_no_answer() -> None:
    got = prompted(plug("Stops", before_finish=Abort("no"))).answers(GOOD)
    assert aborted(got).kind == "plugin"


def test_steering_is_heard_before_the_answer_is_checked() -> None:
    bench = prompted()
    bench.begins()
    bench.send(SteerSent("be quick"))
    got = bench.answers("no")
    assert not any(isinstance(event, AnswerRejected) for event in got.events)
    assert asks_for(got) == SCHEMA


def test_an_abort_ends_the_second_attempt_like_any_other() -> None:
    bench = prompted()
    bench.answers("no")
    got = bench.send(AbortSent())
    assert aborted(got).kind == "user"
    assert got.step.state.returns == EMPTY


def test_the_replay_takes_the_check_from_the_record() -> None:
    bench = prompted()
    bench.answers("{}")
    bench.answers(GOOD)
    for got in bench.got[-2:]:
        hook_runner = RecordedRunner(got.step.rulings)
        assert step(got.before, got.arrival, hook_runner) == got.step
        assert hook_runner.left == 0
