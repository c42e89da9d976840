"""`ReplacePrompt` and `ReplaceResponse`: what the history, the model and the events have as said."""

from __future__ import annotations

from typing import Final

import pytest

from agentrail import Abort, Ask, Context, Continue, Intervene, ReplacePrompt, ReplaceResponse
from agentrail.core.machine.responses import AGAIN
from agentrail.core.vocabulary.changes import change, fold
from agentrail.core.vocabulary.inputs import AskSettled, StreamEnded
from agentrail.events import AgentEnd, Event, PromptQueued, PromptReceived, ResponseComplete, SteeringReceived
from agentrail.models import (
    AssistantMessage,
    Data,
    FrozenObject,
    Image,
    Origin,
    Response,
    StopReason,
    Text,
    Thinking,
    UserMessage,
)
from agentrail.plugins import AfterResponse, Answered, AnyPlugin, BeforePrompt, BeforeSteering, CallService, Hook
from tests.cells.bench import Bench, call, plug, response
from tests.cells.scenes import executing, failed, replied, running, streaming, user_message
from tests.kit import AbortSent, PromptSent, SteerSent

LOOKUP: Final = CallService("lookup")
IMAGE: Final = Image("image/png", "aaaa")


def text_of(hook: Hook) -> str:
    assert isinstance(hook, BeforePrompt | BeforeSteering | AfterResponse)
    return hook.message.text if isinstance(hook, AfterResponse) else hook.text


def adds(name: str, hook: str) -> AnyPlugin:
    """Return a plugin that adds its name to what is said."""
    kind = ReplaceResponse if hook == "after_response" else ReplacePrompt

    def answer(shown_hook: Hook, _state: object, _ctx: Context) -> object:
        return kind(f"{text_of(shown_hook)} {name}")

    return plug(name, **{hook: answer})  # type: ignore[arg-type]  # a hook


def asks_then(last: object) -> AnyPlugin:
    """Return a plugin that asks after a response, and gives *last* when it has its answer."""
    return plug("Asks", after_response=lambda hook, _state, _ctx: Ask(LOOKUP) if hook.answer is None else last)


def events_of(bench: Bench, kind: type[Event]) -> list[Event]:
    return [event for event in bench.got[-1].events if isinstance(event, kind)]


def demand_folds(bench: Bench) -> None:
    """Check of each step that what is stored of it gives the state again."""
    for got in bench.got:
        assert fold(got.before, change(got.before, got.step.state)) == got.step.state


def test_each_plugin_sees_the_text_that_the_one_before_it_left() -> None:
    for hook in ("before_prompt", "before_steering", "after_response"):
        bench = Bench(adds("A", hook), adds("B", hook))
        bench.prompt()
        if hook == "before_prompt":
            assert events_of(bench, PromptReceived) == [PromptReceived("p1", "hello A B", ("A", "B"))]
            assert bench.state.history[-1] == user_message("hello A B")
        elif hook == "before_steering":
            bench.send(SteerSent("now"))
            assert events_of(bench, SteeringReceived) == [
                SteeringReceived(bench.state.steering[0].ref, "now A B", "queued", None, ("A", "B"))
            ]
        else:
            bench.answers("hi")
            assert events_of(bench, ResponseComplete) == [ResponseComplete(replied("hi A B"), ("A", "B"))]
        demand_folds(bench)


def test_a_text_of_a_plugin_comes_after_the_replaced_one() -> None:
    bench = Bench(plug("A", before_prompt=ReplacePrompt("other")), plug("B", before_prompt=Intervene("note")))
    bench.prompt()
    assert tuple(bench.state.history) == (user_message("other"), user_message("note", Origin.INTERVENTION))
    bench = streaming(plug("A", before_steering=ReplacePrompt("other")), plug("B", before_steering=Intervene("note")))
    bench.send(SteerSent("now"))
    assert bench.state.steering[0].text == "other\n\nnote"


def test_images_of_a_prompt_stay_and_its_texts_and_json_become_the_new_text() -> None:
    bench = Bench(plug("A", before_prompt=ReplacePrompt("other")))
    bench.send(PromptSent((IMAGE, Text("hello"), IMAGE, Data(FrozenObject(a=1)))))
    assert bench.state.history[-1] == UserMessage((IMAGE, Text("other"), IMAGE))
    bench = Bench(plug("A", before_prompt=ReplacePrompt("other")))
    bench.send(PromptSent((IMAGE,)))
    assert bench.state.history[-1] == UserMessage((IMAGE, Text("other")))


def test_a_queued_prompt_is_shown_as_it_was_accepted_and_replaced_when_it_is_taken() -> None:
    bench = running(plug("A", before_prompt=ReplacePrompt("other")))
    bench.prompt("next")
    assert events_of(bench, PromptQueued) == [PromptQueued(bench.state.queue[0].ref, "next", 1)]
    assert bench.state.queue[0].text == "next"
    bench.answers("hi")
    assert bench.state.history[-1] == user_message("other")


def test_thoughts_and_calls_of_a_response_stay_and_the_calls_run() -> None:
    bench = streaming(plug("A", after_response=ReplaceResponse("other")))
    thought = Thinking("hm", "signed")
    parts = (thought, Text("one"), thought, Text("two"))
    bench.send(StreamEnded("r2", Response(parts, (call("look", path="a"),), StopReason.TOOL_CALLS)))
    message = bench.state.history[-1]
    assert isinstance(message, AssistantMessage)
    assert message.parts == (thought, Text("other"), thought)
    assert bench.state.batch is not None
    assert [call_.call_id for call_ in message.calls] == [call_.call_id for call_ in bench.state.batch.calls] == ["c3"]
    assert events_of(bench, ResponseComplete) == [ResponseComplete(message, ("A",))]
    demand_folds(bench)


def test_a_response_without_text_gets_the_new_one_after_its_thoughts() -> None:
    bench = executing(plugins=(plug("A", after_response=ReplaceResponse("other")),))
    message = bench.state.history[-1]
    assert isinstance(message, AssistantMessage)
    assert message.parts == (Text("other"),)
    assert bench.state.last_text == "other"


def test_a_refusal_without_text_that_is_given_one_is_in_the_history() -> None:
    bench = streaming(plug("A", after_response=ReplaceResponse("I may not.")))
    bench.answers("", stop=StopReason.REFUSED)
    assert bench.state.history[-1] == replied("I may not.", stop=StopReason.REFUSED)
    assert [event.reason for event in events_of(bench, AgentEnd) if isinstance(event, AgentEnd)] == ["refused"]


def test_an_abort_after_it_keeps_what_the_model_said() -> None:
    bench = streaming(plug("A", after_response=ReplaceResponse("other")), plug("B", after_response=Abort("no")))
    bench.answers("hi")
    assert bench.state.history[-1] == replied("hi")
    assert events_of(bench, ResponseComplete) == [ResponseComplete(replied("hi"))]
    bench = Bench(plug("A", before_prompt=ReplacePrompt("other")), plug("B", before_prompt=Abort("no")))
    bench.prompt()
    assert not bench.state.history


@pytest.mark.parametrize("earlier", [True, False], ids=["replaced before the pause", "replaced after it"])
def test_while_its_hook_is_paused_the_response_is_in_the_history_as_the_model_said_it(earlier: bool) -> None:
    replaces = plug("A", after_response=ReplaceResponse("other"), priority=10 if earlier else 950)
    bench = streaming(replaces, asks_then(Continue()))
    bench.answers("hi", call("look", path="a"))
    paused = bench.state
    assert paused.history[-1].text == "hi"
    (waiting,) = paused.suspended_runs
    bench.send(AskSettled(waiting.ask_id, Answered(None)))
    message = bench.state.history[-1]
    assert isinstance(message, AssistantMessage)
    assert (message.text, len(bench.state.history)) == ("other", len(paused.history))
    assert (message.calls, bench.state.last_text) == (paused.history[-1].calls, "other")  # type: ignore[union-attr]
    demand_folds(bench)


def test_an_abort_while_its_hook_is_paused_keeps_the_response_and_answers_its_calls() -> None:
    bench = streaming(plug("A", after_response=ReplaceResponse("other")), asks_then(Continue()))
    bench.answers("hi", call("look", path="a"))
    bench.send(AbortSent())
    first, message, result = bench.state.history
    assert (first, message.text) == (user_message(), "hi")
    assert result == failed("c3", "look", "aborted: user") or result.call_id == "c3"  # type: ignore[union-attr]
    demand_folds(bench)


def test_an_asker_that_changes_nothing_leaves_one_response_in_the_history() -> None:
    bench = streaming(asks_then(Continue()))
    bench.answers("hi")
    (waiting,) = bench.state.suspended_runs
    bench.send(AskSettled(waiting.ask_id, Answered(None)))
    assert tuple(bench.state.history) == (user_message(), replied("hi"))


FORM: Final = FrozenObject(type="object", required=("total",))


def test_a_form_is_checked_with_the_new_text() -> None:
    bench = Bench(plug("A", after_response=ReplaceResponse('{"total": 1}')))
    bench.send(PromptSent((Text("hello"),), returns=FORM))
    bench.answers("no JSON at all")
    (end,) = events_of(bench, AgentEnd)
    assert isinstance(end, AgentEnd)
    assert end.fits
    bench = Bench(plug("A", after_response=ReplaceResponse("[removed]")))
    bench.send(PromptSent((Text("hello"),), returns=FORM))
    bench.answers('{"total": 1}')
    last = bench.state.history[-1]
    assert isinstance(last, UserMessage)
    assert last.text.startswith(AGAIN.partition("{")[0])


def test_a_replaced_response_costs_no_more_in_a_long_history() -> None:
    """What is stored of the step is the message alone, not ranges of a history that was made anew."""
    bench = streaming(plug("A", after_response=ReplaceResponse("other")))
    bench.send(StreamEnded("r2", response("hi")))
    got = bench.got[-1]
    assert got.step.state.history.added_to(got.before.history) == (replied("other"),)
