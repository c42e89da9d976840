"""`PatchToolCalls`: what the model gets after plugins have put messages in place that do not pair."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from agentrail import Context, Continue, Plugin, Priority, ReplaceMessages
from agentrail.errors import BadOptions
from agentrail.events import CompactEnd, PluginEvent
from agentrail.hooks.actions import Emission
from agentrail.models import AssistantMessage, History, Message, Text, ToolCall, ToolMessage, UserMessage
from agentrail.plugins import BeforeCompaction, BeforeRequest, PatchToolCalls
from agentrail.plugins.requests.patch_tool_calls import LOST, MAX_NAMED, MAX_NAMED_CHARS, Repair
from agentrail.testing import ScriptedModel, call, say
from agentrail.values.messages import why_unfit
from tests.kit import EMPTY, Element, freeze
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.tools import quick
from tests.runtime.world import open_world, settle

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)

CTX = Context()


def user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def asks(*ids: str) -> AssistantMessage:
    return AssistantMessage((), tuple(ToolCall(call_id, "read", EMPTY) for call_id in ids))


def result(call_id: str, text: str = "found") -> ToolMessage:
    return ToolMessage(call_id, "read", (Text(text),))


def missing(call_id: str) -> ToolMessage:
    return ToolMessage(call_id, "read", (Text(LOST),), is_error=True)


@frozen
class Brings(Plugin[None]):
    """Puts a conversation from elsewhere before that of the session."""

    before: tuple[Message, ...] = (user("earlier"), asks(), asks("x1", "x2"), result("x2"), result("x9"))

    priority = Priority.CORE

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> ReplaceMessages[None]:
        return ReplaceMessages((*self.before, *hook.messages))

    def before_compact(self, hook: BeforeCompaction, state: None, ctx: Context) -> ReplaceMessages[None]:
        return ReplaceMessages((*hook.messages, asks("x3")))


@in_virtual_time
async def test_the_model_gets_a_result_for_each_call_of_a_conversation_from_elsewhere() -> None:
    model = ScriptedModel([say(calls=[call("read")]), "one", "two"])
    async with open_world() as world:
        session = await world.spawn(model, tools=[quick("read")], plugins=[PatchToolCalls(), Brings()])
        await session.ask("go on")
        await session.ask("and on")
        heard = world.heard(session)
        await settle()
        for request in model.requests:
            assert tuple(request.messages[:4]) == (user("earlier"), asks("x1", "x2"), missing("x1"), result("x2"))
            assert why_unfit(request.messages) is None
        assert [tuple(request.messages[4:]) for request in model.requests][-1] == tuple(session.messages()[:-1])
        told = heard.only(PluginEvent)
        assert (told.plugin, told.name) == ("PatchToolCalls", "tool_calls_patched")
        assert told.payload == {
            "unanswered": ("x1",),
            "left_out": ("x9",),
            "counts": {"unanswered": 1, "left_out": 1},
            "user_data": EMPTY,
        }


@pytest.mark.parametrize("is_patched", [True, False])
@in_virtual_time
async def test_a_compaction_is_not_lost_because_calls_do_not_pair(*, is_patched: bool) -> None:
    plugins = [Brings(()), *([PatchToolCalls()] if is_patched else [])]
    async with open_world() as world:
        session = await world.spawn(["a" * 4000, "b" * 4000, "the summary"], plugins=plugins, compact_to=0.3)
        await session.ask("one")
        await session.ask("two")
        await session.compact("now")
        await trio.sleep(1)
        note = world.heard(session).only(CompactEnd).note
        assert ("no provider would take" in note) is not is_patched


@in_virtual_time
async def test_nothing_is_written_if_calls_pair() -> None:
    async with open_world() as world:
        script: list[Element] = [say(calls=[call("read")]), "done"]
        session = await world.spawn(script, tools=[quick("read")], plugins=[PatchToolCalls()])
        await session.ask("go on")
        await settle()
        assert world.heard(session).of(PluginEvent) == []


def test_an_own_history_is_not_looked_through() -> None:
    class Untouched(History):
        """A history that nobody may look through."""

        __slots__ = ()

        def __iter__(self) -> None:  # type: ignore[override]
            raise AssertionError

    hook = BeforeRequest(Untouched((user("a"), asks("x"), result("x"))))
    assert PatchToolCalls().before_request(hook, "", CTX) == Continue()


def test_the_same_faults_are_told_of_once_and_others_again() -> None:
    plugin = PatchToolCalls()
    first = plugin.before_request(BeforeRequest((user("a"), asks("x"))), "", CTX)
    assert isinstance(first, ReplaceMessages)
    assert isinstance(first.state, str)
    again = plugin.before_request(BeforeRequest((user("a"), asks("x"), user("b"))), first.state, CTX)
    other = plugin.before_request(BeforeRequest((user("a"), asks("x"), asks("y"))), first.state, CTX)
    assert [len(action.emits) for action in (first, again, other)] == [1, 0, 1]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_so_many_ids_are_told_and_so_many_characters_of_each(more: int) -> None:
    count, size = MAX_NAMED + more, MAX_NAMED_CHARS + more
    ids = [f"{number:x>{size}}" for number in range(count)]
    lost = [one.swapcase() for one in ids]
    action = PatchToolCalls().before_request(BeforeRequest((user("a"), asks(*ids), *map(result, lost))), "", CTX)
    assert isinstance(action, ReplaceMessages)
    told = {
        "unanswered": [one[:MAX_NAMED_CHARS] for one in ids[:MAX_NAMED]],
        "left_out": [one[:MAX_NAMED_CHARS] for one in lost[:MAX_NAMED]],
        "counts": {"unanswered": count, "left_out": count},
    }
    assert action.emits == (Emission("tool_calls_patched", freeze(told)),)


def test_a_later_result_is_moved_to_its_call_and_a_second_one_is_left_out() -> None:
    late = result("x", "late")
    messages = (result("x", "early"), user("a"), asks("x", "y"), user("b"), late, result("x", "twice"), result("y"))
    found = PatchToolCalls().repaired(messages)
    assert found == Repair((user("a"), asks("x", "y"), late, result("y"), user("b")), (), ("x", "x"))


def test_the_words_are_those_that_were_given() -> None:
    plugin = PatchToolCalls("gone", is_error=False)
    assert plugin.repaired([asks("x")]).messages[1] == ToolMessage("x", "read", (Text("gone"),))


IDS = st.sampled_from(("a", "b", "c", "", "é" * 100, "\ud800"))
MESSAGES = st.lists(
    st.one_of(
        st.just(user("hello")),
        st.lists(IDS, max_size=4).map(lambda ids: asks(*ids)),
        IDS.map(result),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.long
@given(MESSAGES)
def test_whatever_comes_a_provider_takes_what_is_left(messages: Sequence[Message]) -> None:
    plugin = PatchToolCalls()
    action = plugin.before_request(BeforeRequest(tuple(messages)), "", CTX)
    if why_unfit(messages) is None:
        assert action == Continue()
        return
    found = plugin.repaired(messages)
    assert why_unfit(found.messages) is None
    assert action == Continue() if not found.messages else isinstance(action, ReplaceMessages)
    assert [one for one in found.messages if isinstance(one, UserMessage)] == [
        one for one in messages if isinstance(one, UserMessage)
    ]
    kept = sum(isinstance(one, ToolMessage) for one in messages) - len(found.left_out)
    assert sum(isinstance(one, ToolMessage) for one in found.messages) == kept + len(found.unanswered)
    assert len(found.mark) == 64


@pytest.mark.parametrize("found", ["", "  ", None, 3, b"x"], ids=repr)
def test_a_result_must_say_something(found: object) -> None:
    with pytest.raises(BadOptions, match=r"its `content` is .*; give a text"):
        PatchToolCalls(found)  # type: ignore[arg-type]


@pytest.mark.parametrize("found", [0, None, "no"], ids=repr)
def test_whether_a_call_failed_is_true_or_false(found: object) -> None:
    with pytest.raises(BadOptions, match=r"its `is_error` is .*; it must be True or False"):
        PatchToolCalls(is_error=found)  # type: ignore[arg-type]


def test_it_says_what_it_does() -> None:
    assert PatchToolCalls().describe() == (
        "Pair calls and results in the messages of a request, or of a compaction, that plugins have put in place."
    )


def test_one_that_is_asked_last_sees_what_all_others_have_put_in_place() -> None:
    class AtLast(PatchToolCalls):
        priority = Priority.OWN + 100

    assert AtLast("x").priority == 1000
