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
    message = response("Hello", thinking="hm")
    streamed = changes(ASKED, e.ThinkingDelta("hm"), e.MessageDelta("Hel"), e.ResponseComplete(message))
    assert streamed[1:3] == [e.ThinkingDelta("hm"), e.MessageDelta("Hel")]
    (answered,) = streamed[3:]
    assert isinstance(answered, ResponseEnded)
    assert (answered.rest, answered.is_other, answered.thoughts) == ("lo", False, "")


def test_a_response_that_was_replaced_is_another_one_unless_only_space_around_it_differs() -> None:
    for text, rest, is_other in (
        ("No.", "", True),
        ("Hello!", "!", False),
        (" Hello", "", False),
        ("Hello ", " ", False),
    ):
        answered = changes(ASKED, e.MessageDelta("Hello"), e.ResponseComplete(response(text)))[-1]
        assert isinstance(answered, ResponseEnded)
        assert (answered.rest, answered.is_other) == (rest, is_other), text


def test_deltas_after_a_gap_are_not_told_and_the_rest_comes_with_the_response() -> None:
    gap, message = e.Gap(1, 1, 1, 3), response("Hello", thinking="hm")
    heard = changes(ASKED, e.MessageDelta("He"), gap, e.MessageDelta("o"), e.ResponseComplete(message))
    assert heard[1:] == [e.MessageDelta("He"), gap, ResponseEnded(message, "He", "hm", is_heard=False)]


def test_what_lies_behind_a_gap_is_not_told_as_heard_whole_also_if_a_response_begins_there() -> None:
    message = response("Hello")
    for since, is_heard in ((e.Cursor(1, 1), False), (e.Cursor(1, 2), False), (e.Cursor(1, 3), True)):
        transcript = Transcript()
        events = (e.Gap(1, 0, 1, 3), ASKED, e.MessageDelta("lo"), e.ResponseComplete(message))
        shown_changes = [
            change
            for event in events
            for change in transcript.take(e.Envelope("s", since.seq, since.n, 0, 1, 1, event))
        ]
        assert (e.MessageDelta("lo") in shown_changes) is is_heard
        assert shown_changes[-1] == ResponseEnded(message, "lo" if is_heard else "", "", is_heard)


def test_a_call_whose_end_no_event_tells_ends_at_the_latest_with_its_turn() -> None:
    message, result = (
        response("", ToolCall("c1", "look", ARGS)),
        ToolMessage("c1", "look", (Text("no such place"),), True),
    )
    end = e.AgentEnd("p1", "end", (result,), NOTHING_USED)
    assert changes(e.ResponseComplete(message), ASKED, end)[1:] == [
        CallChanged(ShownCall("c1", "look", ARGS), is_new=True),
        CallEnded(ShownCall("c1", "look", ARGS, "unheard"), None, ASKED),
        ASKED,
        CutOff("", is_heard=True),
        CallEnded(ShownCall("c1", "look", ARGS, "failed"), result.parts, end),
        end,
    ]


def test_of_calls_without_a_result_each_is_asked_for_it_once_and_at_the_end_of_its_turn() -> None:
    call_ids: list[str] = []

    def find(call_id: str) -> None:
        call_ids.append(call_id)

    transcript, rounds = Transcript(find), [f"c{number}" for number in range(20)]
    blocked = [(e.ToolBlocked(call_id, "look", "no", "Guard"), ASKED) for call_id in rounds]
    for event in [*(event for pair in blocked for event in pair), e.AgentEnd("p1", "end", (), NOTHING_USED)]:
        list(transcript.take(e.Envelope("s", 1, 0, 0, 1, 1, event)))
    assert call_ids == [*rounds, *rounds]


def test_a_result_that_comes_after_its_turn_announces_no_call_again() -> None:
    late = e.ToolExecutionEnd("c1", "look", (Text("seen"),), is_error=False, late=True)
    shown_changes = changes(
        e.ToolExecutionStart("c1", "look", ARGS), e.AgentAbort("p1", "user"), e.AgentStart("p2"), late
    )
    assert [type(change) for change in shown_changes] == [CallChanged, CallEnded, e.AgentAbort, e.AgentStart, CallEnded]


def test_of_calls_that_no_event_can_tell_of_any_more_not_even_ids_are_kept() -> None:
    start = e.ToolExecutionStart("c1", "look", ARGS)
    late = e.ToolExecutionEnd("c1", "look", (), is_error=False, late=True)
    abort = e.AgentAbort("p1", "user")
    lives: list[tuple[e.Event, ...]] = [
        (e.ResponseComplete(response("", ToolCall("c1", "look", ARGS))), abort),
        (e.ToolBlocked("c1", "look", "no", "Guard"), abort),
        (e.ToolCallUnknown("c1", "look"), ASKED, e.AgentEnd("p1", "end", (), NOTHING_USED)),
        (start, e.ToolKilled("c1", "look", "user"), abort),
        (start, abort, late),
        (start, e.AgentEnd("p1", "end", (ToolMessage("c1", "look", ()),), NOTHING_USED)),
    ]
    for life in lives:
        assert changes(*life, start)[-1] == CallChanged(ShownCall("c1", "look", ARGS, "running"), is_new=True)


def test_a_call_knows_its_attempt_and_whether_a_person_was_asked() -> None:
    held = e.ApprovalRequired("a1", "c1", "pay", ARGS, "", "p", 1, None)
    again = e.ToolExecutionStart("c1", "pay", ARGS, 2)
    (*_, shown_changes) = changes(held, e.ApprovalResolved("a1", "c1", "pay", "approved"), again)
    assert shown_changes == CallChanged(ShownCall("c1", "pay", ARGS, "running", 2, was_held=True), is_new=False)


def test_decisions_about_calls_of_sub_agents_concern_no_call_of_the_same_id() -> None:
    held = e.ApprovalRequired("s.c1:a", "c2", "pay", ARGS, "", "p", 1, None, path=("s", "c1"))
    resolved = e.ApprovalResolved("s.c1:a", "c2", "pay", "rejected")
    start = e.ToolExecutionStart("c2", "look", ARGS)
    call = ShownCall("c2", "pay", ARGS, "held", was_held=True)
    assert changes(start, e.SubagentStart("c1", "s.c1", "pays"), held, resolved)[2:] == [
        OfSubagent("c1", "s.c1", CallChanged(call, is_new=True)),
        OfSubagent("c1", "s.c1", CallEnded(call._replace(state="rejected"), None, resolved)),
    ]


def test_texts_of_steering_are_read_as_one() -> None:
    queued = [e.SteeringReceived(ref, text, "queued") for ref, text in (("1", "tea"), ("2", "no"), ("3", "milk"))]
    shown_changes = changes(*queued, e.SteeringReceived("2", "no", "dropped"), e.SteeringApplied(("1", "3"), 2))
    assert shown_changes[-1] == SteeringRead(("1", "3"), "tea\n\nmilk")


def test_a_text_of_steering_is_told_once() -> None:
    read, again = e.SteeringApplied(("1",), 1), e.SteeringApplied(("1", "2"), 2)
    later = e.SteeringReceived("2", "milk", "queued")
    shown_changes = changes(e.SteeringReceived("1", "tea", "queued"), read, later, again)
    assert shown_changes[1::2] == [SteeringRead(("1",), "tea"), SteeringRead(("1", "2"), "milk")]
