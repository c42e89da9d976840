"""What the model sees after a compaction: its to-do list, and no directive without its prompt."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail import AddContext
from agentrail.core.machine.todo_list import HEAD, as_text
from agentrail.core.vocabulary.effects import StartRequest
from agentrail.core.vocabulary.inputs import CompactionEnded
from agentrail.models import AssistantMessage, Json, Message, Origin, Text, ToolCall, ToolMessage, UserMessage
from agentrail.tools import Todo
from agentrail.values.messages import why_unfit
from tests.cells.bench import Bench, plug
from tests.cells.scenes import idle
from tests.kit import CompactSent, freeze_object
from tests.slices import planned

STATUSES = ("pending", "in_progress", "done")

SIZES = st.integers(0, 400)

LISTS = st.lists(
    st.builds(Todo, st.sampled_from(["read", "write\nit", "ask [x]"]), st.sampled_from(STATUSES)), max_size=3
).map(tuple)


def user_message(text: str, origin: Origin) -> UserMessage:
    return UserMessage((Text(text),), origin)


def written(todos: Sequence[Todo]) -> list[Json]:
    return [{"text": todo.text, "status": todo.status} for todo in todos]


@st.composite
def histories(draw: st.DrawFn) -> tuple[tuple[Message, ...], tuple[Todo, ...]]:
    """Return a history of some turns, and the to-do list at its end."""
    messages: list[Message] = []
    todos: tuple[Todo, ...] = ()

    def filled(name: str) -> str:
        return f"{name} {len(messages)} {'x' * draw(SIZES)}"

    for _ in range(draw(st.integers(1, 5))):
        messages.append(user_message(filled("prompt"), Origin.PROMPT))
        if draw(st.booleans()):
            messages.append(user_message(filled("directive"), Origin.INTERVENTION))
        for _ in range(draw(st.integers(0, 4))):
            args: dict[str, Json] = {"path": filled("path")}
            if draw(st.booleans()):
                todos = draw(LISTS)
                args = {"todos": written(todos)}
            call = ToolCall(f"c{len(messages)}", "tool", freeze_object(args))
            messages.append(AssistantMessage((Text(filled("call")),), (call,)))
            messages.append(ToolMessage(call.call_id, "tool", (Text(filled("result")),)))
            if draw(st.booleans()):
                messages.append(user_message(filled("directive"), Origin.INTERVENTION))
        messages.append(AssistantMessage((Text(filled("answer")),)))
    return tuple(messages), todos


def prompts_of(messages: Sequence[Message]) -> dict[str, str]:
    """Return the text of the prompt before each directive, by the text of the directive."""
    values: dict[str, str] = {}
    prompt = ""
    for message in messages:
        if isinstance(message, UserMessage) and message.origin is Origin.PROMPT:
            prompt = message.text
        elif isinstance(message, UserMessage) and message.origin is Origin.INTERVENTION:
            values[message.text] = prompt
    return values


@pytest.mark.long
@given(histories(), st.integers(1, 5_000))
def test_no_directive_stands_without_its_prompt(drawn: tuple[tuple[Message, ...], tuple[Todo, ...]], keep: int) -> None:
    messages, _ = drawn
    remaining = planned(messages, keep).with_notice("[a summary]")
    old_prompts, after = prompts_of(messages), prompts_of(remaining)
    assert after == {directive: old_prompts[directive] for directive in after}
    assert why_unfit(remaining) is None


def compacted(bench: Bench, messages: tuple[Message, ...]) -> None:
    bench.send(CompactSent("make room"))
    compaction = bench.state.compaction
    assert compaction is not None
    bench.send(CompactionEnded(compaction.compaction_id, messages, 1, "shorter"))


def last_list(messages: Sequence[Message]) -> list[Todo] | None:
    """Return the last to-do list in *messages*, as the model reads it: in words, with single spaces."""
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            for call in message.calls:
                if "todos" in call.args:
                    items = [dict(item) for item in call.args["todos"]]  # type: ignore[union-attr, arg-type]
                    return [Todo(" ".join(item["text"].split()), item["status"]) for item in items]
        elif HEAD in message.text:
            lines = message.text.partition(HEAD)[2].split("\n- [")[1:]
            pairs = [line.partition("] ") for line in lines]
            return [Todo(text, status) for status, _, text in pairs]
    return None


@pytest.mark.long
@given(histories(), st.integers(1, 5_000))
def test_the_model_sees_its_list_after_any_compaction(
    drawn: tuple[tuple[Message, ...], tuple[Todo, ...]], keep: int
) -> None:
    messages, todos = drawn
    bench = idle()
    bench.prompt()
    bench.answers("hi")
    bench.state = bench.state.but(todos=todos)
    remaining = planned(messages, keep).with_notice("[a summary]")
    compacted(bench, remaining)
    compacted(bench, planned(remaining, keep // 2 + 1).with_notice("[a summary]"))
    bench.prompt()
    history = bench.state.history
    if todos:
        assert last_list(history) == [Todo(" ".join(todo.text.split()), todo.status) for todo in todos]
        assert sum(as_text(todos) in message.text for message in history) <= 1
    assert not bench.state.notices


def test_context_in_front_stays_there_when_a_compaction_leaves_nothing_as_it_was() -> None:
    bench = idle(plug("Fronts", before_request=AddContext(front=[user_message("first", Origin.PROMPT)])))
    bench.prompt()
    bench.answers("hi")
    compacted(bench, (user_message("[a summary]", Origin.NOTICE),))
    bench.prompt("go on")
    (request,) = [effect.request for effect in bench.got[-1].step.effects if isinstance(effect, StartRequest)]
    assert [message.text for message in request.messages] == ["first", "[a summary]", "go on"]


def test_the_list_is_told_behind_the_summary_and_not_again_while_it_is_there() -> None:
    todos = (Todo("read", "done"), Todo("write"))
    bench = idle()
    bench.prompt()
    bench.answers("hi")
    bench.state = bench.state.but(todos=todos)
    summary = (user_message("[a summary]", Origin.NOTICE),)
    compacted(bench, summary)
    bench.prompt("go on")
    report = user_message(f"{HEAD}\n- [done] read\n- [pending] write", Origin.NOTICE)
    assert bench.state.history[0] == summary[0]
    assert [message for message in bench.state.history if message == report] == [report]
    bench.answers("hi")
    compacted(bench, tuple(bench.state.history))
    bench.prompt("and on")
    assert [message for message in bench.state.history if message == report] == [report]
