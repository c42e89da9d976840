"""What events change for a person: each is told once, in the words of the events before it."""

from agentrail.api.transcript import (
    CallChanged,
    CallEnded,
    Change,
    CutOff,
    OfSubagent,
    ResponseEnded,
    ShownCall,
    SteeringRead,
    Transcript,
)
from agentrail.models import AssistantMessage, Text, Thinking, ToolCall, ToolMessage
from agentrail.values import events as e
from tests.kit import NOTHING_USED, freeze_object

ARGS = freeze_object({"at": "home"})
ASKED = e.RequestStart("r1", "demo", 1, 1)


def changes(*events: e.Event) -> list[Change]:
    transcript = Transcript()
    return [change for event in events for change in transcript.take(e.Envelope("s", 1, 0, 0, 1, 1, event))]


def response(text: str, *calls: ToolCall, thinking: str = "") -> AssistantMessage:
    parts = (*((Thinking(thinking),) if thinking else ()), *((Text(text),) if text else ()))
    return AssistantMessage(parts, calls, model="demo")


def test_a_response_knows_what_of_it_was_told() -> None:
    streamed = changes(ASKED, e.ThinkingDelta("hm"), e.MessageDelta("Hel"), e.ResponseComplete(response("Hello")))
    assert streamed[1:3] == [e.ThinkingDelta("hm"), e.MessageDelta("Hel")]
    (answered,) = streamed[3:]
    assert isinstance(answered, ResponseEnded)
    assert (answered.rest, answered.is_other, answered.thoughts) == ("lo", False, "")


def test_deltas_after_a_gap_are_not_told_and_the_rest_comes_with_the_response() -> None:
    gap, message = e.Gap(1, 1, 1, 3), response("Hello", thinking="hm")
    heard = changes(ASKED, e.MessageDelta("He"), gap, e.MessageDelta("o"), e.ResponseComplete(message))
    assert heard[1:] == [e.MessageDelta("He"), gap, ResponseEnded(message, "He", "hm", is_heard=False)]


def test_a_call_whose_end_no_event_tells_ends_at_the_latest_with_its_turn() -> None:
    made, result = response("", ToolCall("c1", "look", ARGS)), ToolMessage("c1", "look", (Text("no such place"),), True)
    end = e.AgentEnd("p1", "end", (result,), NOTHING_USED)
    assert changes(e.ResponseComplete(made), ASKED, end)[1:] == [
        CallChanged(ShownCall("c1", "look", ARGS), is_new=True),
        CallEnded(ShownCall("c1", "look", ARGS, "unheard"), None, ASKED),
        ASKED,
        CutOff("", is_heard=True),
        CallEnded(ShownCall("c1", "look", ARGS, "failed"), result.parts, end),
        end,
    ]


def test_a_result_that_comes_after_its_turn_announces_no_call_again() -> None:
    late = e.ToolExecutionEnd("c1", "look", (Text("seen"),), is_error=False, late=True)
    killed = e.ToolKilled("c1", "look", "user")
    told = changes(e.ToolExecutionStart("c1", "look", ARGS), killed, e.AgentAbort("p1", "user"), late)
    assert [type(change) for change in told] == [CallChanged, CallEnded, e.AgentAbort, CallEnded]


def test_decisions_about_calls_of_sub_agents_concern_no_call_of_the_same_id() -> None:
    held = e.ApprovalRequired("s.c1:a", "c2", "pay", ARGS, "", "p", 1, None, path=("s", "c1"))
    resolved = e.ApprovalResolved("s.c1:a", "c2", "pay", "rejected")
    own = e.ToolExecutionStart("c2", "look", ARGS)
    assert changes(own, e.SubagentStart("c1", "s.c1", "pays"), held, resolved)[2:] == [
        OfSubagent("c1", "s.c1", CallChanged(ShownCall("c2", "pay", ARGS, "held"), is_new=True)),
        OfSubagent("c1", "s.c1", CallEnded(ShownCall("c2", "pay", ARGS, "rejected"), None, resolved)),
    ]


def test_texts_of_steering_are_read_as_one() -> None:
    queued = [e.SteeringReceived(ref, text, "queued") for ref, text in (("1", "tea"), ("2", "no"), ("3", "milk"))]
    told = changes(*queued, e.SteeringReceived("2", "no", "dropped"), e.SteeringApplied(("1", "3"), 2))
    assert told[-1] == SteeringRead(("1", "3"), "tea\n\nmilk")
