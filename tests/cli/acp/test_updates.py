"""Events become updates: whole values; each way in which a call can end ends it for the editor."""

from pathlib import Path

import pytest

from agentrail.cli.acp.protocol import ClientAbilities
from agentrail.cli.acp.updates import SessionUpdates
from agentrail.insight.text_comparison import difference_of
from agentrail.models import AssistantMessage, Text, Thinking, ToolCall, ToolMessage, Usage
from agentrail.tools import Todo
from agentrail.values import events as e
from tests.each_case import each_case
from tests.kit import NOTHING_USED, freeze_object

ALL = ClientAbilities(notices=True, compactions=True, forms=True)
FOLDER = Path("/p")


def updates(*events: e.Event, abilities: ClientAbilities = ALL) -> list[object]:
    session = SessionUpdates(FOLDER, abilities)
    return [update for event in events for update in session.of(e.Envelope("s", 1, 0, 0, 3, 1, event))]


def text_of(content: str) -> dict[str, object]:
    return {"type": "content", "content": {"type": "text", "text": content}}


def response(text: str = "", *calls: ToolCall, thinking: str = "") -> e.ResponseComplete:
    parts = (*((Thinking(thinking),) if thinking else ()), *((Text(text),) if text else ()))
    return e.ResponseComplete(AssistantMessage(parts, calls, model="anthropic:claude-sonnet-5"))


STARTED = e.RequestStart("r1", "demo", 1, 1)
WRITES = ToolCall("c1", "write_file", freeze_object({"path": "a.txt", "content": "tea"}))
CHUNK = {"sessionUpdate": "agent_message_chunk", "messageId": "3.1"}


def test_what_was_streamed_is_not_said_again() -> None:
    assert updates(STARTED, e.ThinkingDelta("hm"), e.MessageDelta("Hel"), response("Hello", thinking="hm")) == [
        {"sessionUpdate": "agent_thought_chunk", "messageId": "3.1", "content": {"type": "text", "text": "hm"}},
        CHUNK | {"content": {"type": "text", "text": "Hel"}},
        CHUNK | {"content": {"type": "text", "text": "lo"}},
    ]


def test_what_was_not_streamed_is_said_as_a_whole() -> None:
    assert updates(response("Hello", thinking="hm")) == [
        {"sessionUpdate": "agent_thought_chunk", "messageId": "3.1", "content": {"type": "text", "text": "hm"}},
        CHUNK | {"content": {"type": "text", "text": "Hello"}},
    ]


def test_of_a_response_that_is_joined_in_its_middle_the_whole_is_said() -> None:
    assert updates(e.MessageDelta("lo"), response("Hello")) == [CHUNK | {"content": {"type": "text", "text": "Hello"}}]


def test_a_text_that_was_replaced_takes_the_place_of_what_was_streamed() -> None:
    events = (STARTED, e.MessageDelta("secret"), response("[removed]"))
    assert updates(*events)[1:] == [
        {"sessionUpdate": "agent_message_chunk", "messageId": "3.1.1", "content": {"type": "text", "text": "[removed]"}}
    ]


def test_what_a_failed_attempt_has_streamed_is_begun_anew() -> None:
    events = (STARTED, e.MessageDelta("He"), e.Retry(1, 5, "cut"), STARTED, e.MessageDelta("Hello"), response("Hello"))
    notice = {
        "sessionUpdate": "notice",
        "severity": "warning",
        "title": "The model is asked again",
        "description": "cut",
    }
    assert updates(*events)[1:] == [
        notice,
        {"sessionUpdate": "agent_message_chunk", "messageId": "3.1.1", "content": {"type": "text", "text": "Hello"}},
    ]


def test_a_call_that_writes_a_file_is_announced_with_its_change() -> None:
    fields = {
        "toolCallId": "c1",
        "title": "write_file path=a.txt content=tea",
        "name": "write_file",
        "kind": "edit",
        "status": "pending",
        "rawInput": {"path": "a.txt", "content": "tea"},
        "locations": [{"path": "/p/a.txt"}],
    }
    assert updates(response("", WRITES)) == [
        {
            "sessionUpdate": "tool_call",
            **fields,
            "content": [{"type": "diff", "path": "/p/a.txt", "oldText": None, "newText": "tea"}],
        }
    ]


@pytest.mark.parametrize(
    ("tool", "args", "kind", "title"),
    [
        ("shell", {"command": "git status"}, "execute", "git status"),
        ("read_file", {"path": "a"}, "read", "read_file path=a"),
        ("grep", {"pattern": "tea"}, "search", "grep pattern=tea"),
        ("web_fetch", {"url": "https://a.b"}, "fetch", "web_fetch url=https://a.b"),
        ("web_search", {"query": "tea"}, "fetch", "web_search query=tea"),
        ("write_todos", {}, "think", "write_todos"),
        ("own", {}, "other", "own"),
    ],
)
def test_a_call_has_a_kind_and_a_title(tool: str, args: dict[str, str], kind: str, title: str) -> None:
    (update,) = updates(e.ToolExecutionStart("c1", tool, freeze_object(args)))
    assert isinstance(update, dict)
    assert (update["kind"], update["title"], update["status"]) == (kind, title, "in_progress")


def test_what_a_call_has_changed_is_told_as_the_parts_of_the_file() -> None:
    old = "".join(f"{number}\n" for number in range(30))
    details = {"difference": difference_of(old, old.replace("0\n", "o\n", 1).replace("29\n", "29")).as_json()}
    end = e.ToolExecutionEnd("c1", "write_file", (Text("done"),), is_error=False, details=freeze_object(details))
    update = updates(response("", WRITES), end)[1]
    assert isinstance(update, dict)
    first, second, text = update["content"]
    assert first == {"type": "diff", "path": "/p/a.txt", "oldText": "0\n1\n2\n3\n", "newText": "o\n1\n2\n3\n"}
    assert (second["oldText"], second["newText"]) == ("26\n27\n28\n29\n", "26\n27\n28\n29")
    assert text == text_of("done")


ENDS: list[tuple[e.Event, str, str | None]] = [
    (e.ToolExecutionEnd("c1", "write_file", (Text("done"),), is_error=False), "completed", "done"),
    (e.ToolExecutionEnd("c1", "write_file", (Text("no"),), is_error=True), "failed", "no"),
    (e.ToolBlocked("c1", "write_file", "not here", "guard"), "failed", "blocked by guard: not here"),
    (e.ToolKilled("c1", "write_file", "user"), "failed", "stopped: user"),
    (e.ToolSkippedForSteering("c1", "write_file"), "failed", "stopped, because the user has said something new"),
    (
        e.ToolUnknown("c1", "write_file"),
        "failed",
        "It is not known whether this call has taken effect: it was interrupted.",
    ),
    (e.ToolCallUnknown("c1", "write_file"), "failed", "there is no tool 'write_file'"),
    (e.ApprovalResolved("a", "c1", "write_file", "rejected", "not now"), "failed", "rejected: not now"),
    (e.ApprovalResolved("a", "c1", "write_file", "timeout"), "failed", "nobody has decided in time"),
    (e.ApprovalResolved("a", "c1", "write_file", "aborted"), "failed", "stopped with its turn"),
    (STARTED, "failed", None),
    (e.AgentAbort("p1", "user"), "failed", None),
    (e.AgentEnd("p1", "end", (), NOTHING_USED), "failed", None),
    (
        e.AgentEnd("p1", "end", (ToolMessage("c1", "write_file", (Text("unfit"),), is_error=True),), NOTHING_USED),
        "failed",
        "unfit",
    ),
]


@each_case(ENDS)
def test_a_call_is_ended_in_every_way_in_which_it_ends(event: e.Event, status: str, content: str | None) -> None:
    expected = {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": status}
    if content is not None:
        diff = {"type": "diff", "path": "/p/a.txt", "oldText": None, "newText": "tea"}
        expected["content"] = [*([diff] if status == "completed" else []), text_of(content)]  # type: ignore[assignment]
    session_updates = updates(response("", WRITES), event)
    assert expected in session_updates[1:2]


def test_a_call_that_ended_without_an_event_gets_its_text_at_the_end_of_the_turn() -> None:
    result = ToolMessage("c1", "write_file", (Text("the arguments do not fit"),), is_error=True)
    sent_updates = updates(response("", WRITES), STARTED, e.AgentEnd("p1", "end", (result,), NOTHING_USED))
    assert sent_updates[1:] == [
        {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "failed"},
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "c1",
            "status": "failed",
            "content": [text_of("the arguments do not fit")],
        },
    ]


def test_of_a_sub_agent_its_steps_are_shown_in_its_call_and_its_held_calls_for_themselves() -> None:
    def inner(event: e.Event) -> e.SubAgentEvent:
        return e.SubAgentEvent("c1", "child", event)

    sent_updates = updates(
        response("", ToolCall("c1", "task", freeze_object({}))),
        e.ApprovalRequired("a", "c7", "shell", freeze_object({"command": "ls"}), "", "p", 1, None, path=("s", "c1")),
        inner(e.ToolExecutionStart("c7", "shell", freeze_object({"command": "ls"}))),
        e.SubagentEnd("c1", "child", "done", is_error=False),
    )
    assert [(update["toolCallId"], update.get("status")) for update in sent_updates if isinstance(update, dict)] == [
        ("c1", "pending"),
        ("c1.c7", "pending"),
        ("c1", None),
        ("c1.c7", "in_progress"),
        ("c1.c7", "failed"),
    ]


def test_plans_are_told_in_the_words_of_the_protocol() -> None:
    event = e.TodoChange((Todo("brew", "in_progress"), Todo("drink", "done")))
    entries = [
        {"content": "brew", "priority": "medium", "status": "in_progress"},
        {"content": "drink", "priority": "medium", "status": "completed"},
    ]
    assert updates(event) == [{"sessionUpdate": "plan", "entries": entries}]
    plan = updates(e.PlanGenerated(("brew",)), e.PlanStepCompleted(0, "brew"))
    assert plan[-1] == {
        "sessionUpdate": "plan",
        "entries": [{"content": "brew", "priority": "medium", "status": "completed"}],
    }


def test_the_end_of_a_turn_says_how_full_the_context_is_and_what_it_has_cost() -> None:
    message = AssistantMessage(
        (Text("hi"),), model="anthropic:claude-sonnet-5", usage=Usage(input_tokens=10, output_tokens=2)
    )
    end = e.AgentEnd("p1", "end", (), Usage(input_tokens=10, output_tokens=2, cost_usd=0.5))
    assert updates(e.ResponseComplete(message), end)[-1] == {
        "sessionUpdate": "usage_update",
        "used": 12,
        "size": 1_000_000,
        "cost": {"amount": 0.5, "currency": "USD"},
    }


@each_case(
    (
        (e.AgentEnd("p1", "end", (), NOTHING_USED), "end_turn", None),
        (e.AgentEnd("p1", "max_rounds", (), NOTHING_USED), "max_turn_requests", None),
        (e.AgentAbort("p1", "user"), "cancelled", None),
        (e.AgentAbort("p1", "provider_error", "down"), "error", "the turn was stopped (provider error): down"),
    )
)
def test_the_end_of_a_turn_has_a_reason_of_the_protocol(event: e.Event, reason: str, problem: str | None) -> None:
    session = SessionUpdates(FOLDER, ALL)
    assert session.of(e.Envelope("s", 1, 0, 0, 3, 1, event)) == []
    assert session.outcome is not None
    assert session.outcome.stop_reason == reason
    assert (session.outcome.problem and session.outcome.problem.message) == problem


def test_an_abort_of_nothing_ends_nothing() -> None:
    assert updates(e.AgentAbort(None, "user")) == []


def test_an_editor_is_told_only_what_it_can_show() -> None:
    events = (e.StreamError("E", "down"), e.CompactStart(3), e.CompactEnd(1, ""))
    assert [update["sessionUpdate"] for update in updates(*events) if isinstance(update, dict)] == [
        "notice",
        "compaction_update",
        "compaction_update",
    ]
    assert updates(*events, abilities=ClientAbilities()) == []


def test_a_text_that_this_editor_has_sent_is_not_told_to_it() -> None:
    session = SessionUpdates(FOLDER, ALL)
    session.expect("mine")
    sent_updates = [
        len(session.of(e.Envelope("s", 1, 0, 0, 1, 0, event)))
        for event in (e.PromptReceived("p1", "mine"), e.PromptReceived("p2", "mine"))
    ]
    assert sent_updates == [0, 1]


def test_a_decision_about_a_call_of_a_sub_agent_ends_that_call_and_none_of_the_same_id() -> None:
    sent_updates = updates(
        response("", ToolCall("c2", "task", freeze_object({}))),
        e.SubagentStart("c2", "s.c2", "pays"),
        e.ApprovalRequired("s.c2:a", "c2", "pay", freeze_object({}), "", "p", 1, None, path=("s", "c2")),
        e.ApprovalResolved("s.c2:a", "c2", "pay", "rejected", "not now"),
    )
    assert [(update["toolCallId"], update["status"]) for update in sent_updates if isinstance(update, dict)] == [
        ("c2", "pending"),
        ("c2.c2", "pending"),
        ("c2.c2", "failed"),
    ]
