"""What is written of a step: the changed parts alone, whole values of them; and what no session may be changed by."""

import pytest
from msgspec import UNSET

from agentrail import Prompt, State
from agentrail.codec.json_text import from_text
from agentrail.codec.values import decode, write
from agentrail.core.vocabulary.changes import (
    NONE_LEFT,
    Appended,
    Change,
    ChangedCall,
    ChangedCalls,
    ChangedQueue,
    ChangedStates,
    ChangedSuspended,
    ChangedTimers,
    ChangedTools,
    ChangedTurn,
    ResultOf,
    SpecOfTool,
    Suspended,
    change,
    fold,
)
from agentrail.core.vocabulary.commands import SwitchModelSent
from agentrail.core.vocabulary.options import Spare
from agentrail.core.vocabulary.state import AttachedTool, Suspension, Turn
from agentrail.core.vocabulary.tool_calls import Batch, Call, CallList, CallStatus
from agentrail.hooks.ruling import NO_DECISIONS, START, Pause
from agentrail.models import History, Message, Origin, Text, UserMessage
from agentrail.plugins import AfterTurn, BeforeCompaction, BeforePrompt, BeforeRequest, Hook
from agentrail.testing.world.random_setups import TOOLS
from agentrail.tools import ok
from agentrail.values.messages import MessageRange, Rearranged
from agentrail.values.value import Value
from tests.core.driving import ask_for_calls, call, session
from tests.each_case import each_case
from tests.kit import EMPTY, NOTHING_USED, Setup, ToolReturned

READ, OTHER, *_ = TOOLS
BIG = 1_000


def user_messages(*texts: str) -> list[Message]:
    return [UserMessage((Text(text),), Origin.PROMPT) for text in texts]


def state(*messages: Message) -> State:
    return State("s", Setup(), "m", history=History(messages))


def with_calls(*calls: Call) -> State:
    return state().but(batch=Batch(CallList(calls)))


def test_of_a_history_that_grew_the_new_messages_are_written() -> None:
    first, second = user_messages("first", "second")
    old = state(first)
    after = old.but(history=old.history.and_(second))
    assert change(old, after) == Change(history=Appended((second,)))
    assert fold(old, change(old, after)) == after


def test_of_a_history_that_was_rearranged_ranges_of_the_old_one_are_written() -> None:
    a, b, c, d = user_messages("a", "b", "c", "d")
    notice, more = user_messages("notice", "more")
    old = state(a, b, c, d)
    after = old.but(history=History((notice, a, c, d, more, b)))
    pieces = (notice, MessageRange(0, 1), MessageRange(2, 4), more, MessageRange(1, 2))
    assert change(old, after) == Change(history=Rearranged(pieces))
    assert fold(old, change(old, after)) == after


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (1, 1), (2, 1), (1, 3)])
def test_messages_that_a_history_does_not_have_cannot_be_kept(start: int, stop: int) -> None:
    old = state(*user_messages("a", "b"))
    with pytest.raises(ValueError, match=f"it keeps messages {start} to {stop} of a history of 2"):
        fold(old, Change(history=Rearranged((MessageRange(start, stop),))))


@pytest.mark.parametrize("old", [state(), with_calls(Call("c1", "look", EMPTY)), with_calls()])
def test_a_result_that_there_is_not_cannot_be_appended(old: State) -> None:
    with pytest.raises(ValueError, match="it appends the result of call c1, and there is none"):
        fold(old, Change(history=Appended((ResultOf("c1"),))))


def test_a_call_that_there_is_not_cannot_be_changed() -> None:
    changed = Change(batch=ChangedCalls((ChangedCall("c1", attempt=2),)))
    with pytest.raises(ValueError, match="it changes calls, and there is no batch"):
        fold(state(), changed)
    with pytest.raises(ValueError, match="it changes call c1, which is not in the batch"):
        fold(with_calls(Call("c2", "look", EMPTY)), changed)


def test_of_calls_only_what_has_changed_is_written() -> None:
    world = session()
    old = world.state
    ask_for_calls(world, call("read"), call("read", "b"))
    sent, answered = world.records[-2:]
    assert world.state.batch is not None
    first, second = world.state.batch.calls
    assert isinstance(answered.change.batch, ChangedCalls)
    assert answered.change.batch == ChangedCalls(
        tuple(
            ChangedCall(item.call_id, status=CallStatus.RUNNING, spec=SpecOfTool(), started_at=world.now)
            for item in (first, second)
        ),
        begins=True,
    )
    world.apply(ToolReturned(first.call_id, 1, ok("done")))
    returned = world.records[-1].change
    done = world.state.batch.calls.find(first.call_id)
    assert done is not None
    assert returned.batch == ChangedCalls((ChangedCall(first.call_id, status=CallStatus.DONE, result=done.result),))
    for record in (sent, answered, world.records[-1]):
        old = fold(old, record.change)
    assert old == world.state


def test_of_results_that_join_the_history_their_calls_are_written() -> None:
    """The results are in the records in which the calls have ended; the last one joins in that same record."""
    world = session()
    ask_for_calls(world, call("read"), call("read", "b"))
    assert world.state.batch is not None
    first, second = world.state.batch.calls
    for item in (first, second):
        world.apply(ToolReturned(item.call_id, 1, ok("done")))
    last = world.state.history[-1]
    assert world.records[-1].change.history == Appended((ResultOf(first.call_id), last))


def test_of_a_batch_decisions_and_texts_are_written_if_they_changed() -> None:
    old = with_calls(Call("c1", "look", EMPTY))
    assert old.batch is not None
    decisions, texts = (("tool_approved", True),), (("after_tool", "look again"),)
    for changed in (ChangedCalls((), decisions=decisions), ChangedCalls((), texts=texts)):
        batch = old.batch if changed.decisions is UNSET else old.batch.but(decisions=decisions)
        after = old.but(batch=batch if changed.texts is UNSET else batch.but(texts=texts))
        assert change(old, after) == Change(batch=changed)
        assert fold(old, change(old, after)) == after


def test_equal_numbers_and_texts_are_no_change_and_those_of_another_type_are() -> None:
    old = Call("c1", "look", EMPTY, started_at=BIG + 1, error="on", attempt=1)
    equal = old.but(started_at=BIG + 2 - 1, error=b"on".decode())
    assert equal.started_at is not old.started_at
    assert equal.error is not old.error
    old_state = with_calls(old)
    assert change(old_state, with_calls_of(old_state, equal)).batch == ChangedCalls((ChangedCall("c1"),))
    for was, now in ((1, True), (True, 1)):
        other = with_calls(old.but(attempt=was))
        after = with_calls_of(other, old.but(attempt=now))
        (changed,) = fold(other, change(other, after)).batch.calls  # type: ignore[union-attr]  # there is one
        assert type(changed.attempt) is type(now)


def test_an_equal_number_or_text_of_a_state_is_no_change_and_one_of_another_type_is() -> None:
    old = state().but(turn_count=BIG + 1, title="on", last_seq=1)
    after = old.but(turn_count=BIG + 2 - 1, title=b"on".decode())
    assert after.turn_count is not old.turn_count
    assert change(old, after) == Change()
    assert change(old, old.but(turn_count=BIG, last_seq=True)) == Change(turn_count=BIG, last_seq=True)
    assert type(change(old, old.but(last_seq=True)).last_seq) is bool
    assert type(change(old.but(is_starting=1), old.but(is_starting=True)).is_starting) is bool
    assert type(change(old.but(last_seq=True), old).last_seq) is int


def with_calls_of(old: State, changed: Call) -> State:
    assert old.batch is not None
    return old.but(batch=old.batch.but(calls=old.batch.calls.put(changed)))


def test_the_spec_of_a_call_is_written_if_it_is_not_that_of_the_tool() -> None:
    old = Call("c1", READ.name, EMPTY)
    old_state = with_calls(old).but(tools={READ.name: AttachedTool(READ, 0)})
    for spec, written in ((READ, SpecOfTool()), (OTHER, OTHER), (READ.but(), READ)):
        after = with_calls_of(old_state, old.but(spec=spec))
        assert change(old_state, after) == Change(batch=ChangedCalls((ChangedCall("c1", spec=written),)))
        assert fold(old_state, change(old_state, after)) == after
    removed = old_state.but(tools={})
    after = with_calls_of(removed, old.but(spec=READ))
    assert change(removed, after) == Change(batch=ChangedCalls((ChangedCall("c1", spec=READ),)))


def test_of_plugin_states_those_that_are_others_are_written() -> None:
    old = state().but(plugin_states=("a", "b", "c"))
    after = old.but(plugin_states=("a", "B"))
    assert change(old, after) == Change(plugin_states=ChangedStates(2, ((1, "B"),)))
    assert fold(old, change(old, after)) == after
    more = old.but(plugin_states=("a", "b", "c", "d"))
    assert change(old, more) == Change(plugin_states=ChangedStates(4, ((3, "d"),)))
    assert fold(old, change(old, more)) == more


@pytest.mark.parametrize("form", [ChangedStates(3, ((2, "c"),)), ChangedStates(1, ((1, "b"),))])
def test_states_of_plugins_that_there_are_not_are_refused(form: ChangedStates) -> None:
    old = state().but(plugin_states=("a",))
    places = sorted(dict(form.put))
    with pytest.raises(ValueError, match="it has states of the plugins") as refused:
        fold(old, Change(plugin_states=form))
    assert str(refused.value).endswith(f"plugins {places} of {form.count}, and there were 1")


def test_of_tools_those_that_came_and_went_are_written() -> None:
    a, b, c = (AttachedTool(spec, 0) for spec in TOOLS[:3])
    old = state().but(tools={"a": a, "b": b})
    after = old.but(tools={"b": b, "c": c})
    assert change(old, after) == Change(tools=ChangedTools(("a",), {"c": c}))
    turned = old.but(tools={"b": b, "a": a})
    assert change(old, turned) == Change(tools=ChangedTools(("a", "b"), {"b": b, "a": a}))
    for other in (after, turned):
        folded = fold(old, change(old, other))
        assert list(folded.tools.items()) == list(other.tools.items())


TURN = Turn("p1", 5, 2, NOTHING_USED, "m", EMPTY, 1)


@pytest.mark.parametrize(("part", "full"), [(ChangedTurn, Turn), (ChangedCall, Call), (Change, State)])
def test_what_can_change_is_all_there_is(part: type[Value], full: type[Value]) -> None:
    assert part.__struct_fields__ == full.__struct_fields__


@pytest.mark.parametrize(
    ("old", "new", "form"),
    [
        (None, TURN, ChangedTurn(ref="p1", started_at=5, mark=2, model="m", attempt=1)),
        (TURN, TURN.but(repeats=1, stop="end"), ChangedTurn(repeats=1)),
        (TURN, TURN.but(overflowed=0), ChangedTurn(overflowed=0)),  # `0 == False`
        (TURN, TURN.but(ref="p2", attempt=0), ChangedTurn(ref="p2", attempt=0)),
        (TURN, None, None),
    ],
    ids=["begins", "changes", "of another type", "is another", "ends"],
)
def test_of_a_turn_only_what_has_changed_is_written(
    old: Turn | None, new: Turn | None, form: ChangedTurn | None
) -> None:
    old_state = state().but(turn=old)
    after = old_state.but(turn=new)
    assert repr(change(old_state, after)) == repr(Change(turn=form))
    assert repr(fold(old_state, change(old_state, after)).turn) == repr(new)


def test_a_turn_that_is_made_anew_and_equal_is_no_change() -> None:
    old = state().but(turn=TURN)
    assert change(old, old.but(turn=TURN.but(attempt=1))) == Change()


def timers_of(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((item[0], int(item[1])) for item in text.split())


@each_case(
    [
        ("", "a5", ChangedTimers((), (("a", 5),))),
        ("a5 b6 c7", "a5 c7", ChangedTimers(("b",))),
        ("a5 b6 c7", "a5 c7 b8", ChangedTimers((), (("b", 8),))),
        ("a5 b6 c7", "c7 d8 a9", ChangedTimers(("b",), (("d", 8), ("a", 9)))),
        ("a5 b6 c7", "", ChangedTimers(("a", "b", "c"))),
        ("a5 b6 c7", "a5 c7 d8", ChangedTimers(("b",), (("d", 8),))),
        ("a5 b6 c7 d8", "b6 d8 e9", ChangedTimers(("a", "c"), (("e", 9),))),
        ("a5 b6", "b6 a5", ChangedTimers((), (("a", 5),))),
        ("a5 b6 c7", "c7 b6 a5", ChangedTimers((), (("c", 7), ("b", 6), ("a", 5)))),
        ("a5 b6", "c7 b6", ChangedTimers(("a",), (("c", 7), ("b", 6)))),
    ]
)
def test_of_timers_those_that_were_set_and_cleared_are_written(old: str, new: str, form: ChangedTimers) -> None:
    old_state = state().but(timers=timers_of(old))
    after = old_state.but(timers=timers_of(new))
    assert change(old_state, after) == Change(timers=form)
    assert fold(old_state, change(old_state, after)) == after


PROMPTS = {ref: Prompt(ref, (Text(f"the words of {ref}"),)) for ref in "abcde"}


def queue_of(refs: str) -> tuple[Prompt, ...]:
    return tuple(PROMPTS[ref] for ref in refs)


@each_case(
    [
        ("", "a", queue_of("a")),
        ("a", "", ()),
        ("ab", "abc", ChangedQueue((), (), queue_of("c"))),
        ("abc", "bc", ChangedQueue(("a",))),
        ("abc", "ac", ChangedQueue(("b",))),
        ("abc", "deabc", ChangedQueue((), queue_of("de"))),
        ("abc", "dbe", ChangedQueue(("a", "c"), queue_of("d"), queue_of("e"))),
        ("abc", "cb", queue_of("cb")),
        ("abc", "adbc", queue_of("adbc")),
        ("aab", "ab", queue_of("ab")),
    ]
)
def test_of_prompts_those_that_came_and_went_are_written(old: str, new: str, form: object) -> None:
    old_state = state().but(queue=queue_of(old))
    after = old_state.but(queue=queue_of(new))
    assert repr(change(old_state, after)) == repr(Change(queue=form))
    assert fold(old_state, change(old_state, after)) == after
    assert fold(old_state, decode(Change, from_text(write(change(old_state, after))))) == after


def test_a_queue_as_older_records_have_it_comes_back() -> None:
    old = decode(Change, from_text('{"queue":[{"ref":"a","parts":[{"$":"Text","text":"the words of a"}]}]}'))
    assert fold(state().but(queue=queue_of("bc")), old).queue == queue_of("a")


def test_a_prompt_is_written_once_however_many_wait() -> None:
    written, old = 0, state()
    for number in range(100):
        after = old.but(queue=(*old.queue, Prompt(f"p{number}", (Text("x" * 100),))))
        written += len(write(change(old, after)))
        old = after
    assert written < 100 * 200


PROMPTED = BeforePrompt("hello")


def messages_in(run: Suspension) -> object:
    assert isinstance(run.hook, BeforeRequest | BeforeCompaction)
    return run.hook.messages


def paused(hook: Hook, ask_id: str = "k1") -> Suspension:
    return Suspension(ask_id, hook, "", "a plugin", Pause(START), NO_DECISIONS)


def about(kind: type[BeforeRequest | BeforeCompaction], messages: History) -> Hook:
    return BeforeRequest(messages) if kind is BeforeRequest else BeforeCompaction(messages, "it grew")


@pytest.mark.parametrize("kind", [BeforeRequest, BeforeCompaction])
def test_of_messages_in_a_paused_hook_ranges_are_written(kind: type[BeforeRequest | BeforeCompaction]) -> None:
    """The hook has messages of the history after the step: all of it, or not, as a plugin may have replaced them."""
    first, second, third, other = user_messages("first", "second", "third", "other")
    old = state(first, second)
    history = old.history.and_(third)
    cases: tuple[tuple[History, tuple[MessageRange | Message, ...]], ...] = (
        (history, (MessageRange(0, 3),)),
        (History((second, third)), (MessageRange(1, 3),)),
        (History((first, other, third)), (MessageRange(0, 1), other, MessageRange(2, 3))),
        (History(), ()),
    )
    for messages, pieces in cases:
        after = old.but(history=history, suspended_runs=(paused(about(kind, messages)), paused(PROMPTED, "k2")))
        put = (Suspended(paused(about(kind, History())), Rearranged(pieces)), Suspended(paused(PROMPTED, "k2")))
        assert change(old, after).suspended_runs == ChangedSuspended(put)
        folded = fold(old, change(old, after))
        assert folded == after
        assert isinstance(messages_in(folded.suspended_runs[0]), History)
    again = fold(old, change(old, old.but(suspended_runs=(paused(about(kind, old.history)),))))
    assert messages_in(again.suspended_runs[0]) is old.history


def test_of_the_messages_of_a_turn_that_has_ended_ranges_are_written() -> None:
    old = state(*user_messages("first", "second", "third"))
    hook = AfterTurn("finished", None, None, old.history[1:], NOTHING_USED, 1, 2)
    after = old.but(suspended_runs=(paused(hook),))
    suspended = Suspended(paused(hook.but(messages_diff=())), Rearranged((MessageRange(1, 3),)))
    assert change(old, after).suspended_runs == ChangedSuspended((suspended,))
    assert fold(old, change(old, after)) == after


def test_of_paused_runs_only_those_that_began_changed_or_ended_are_written() -> None:
    first, second, third = [paused(PROMPTED, f"k{number}") for number in (1, 2, 3)]
    changed = second.but(is_sent=False)
    cases: tuple[tuple[tuple[Suspension, ...], tuple[Suspension, ...], ChangedSuspended], ...] = (
        ((), (first,), ChangedSuspended((Suspended(first),))),
        ((first,), (first, second), ChangedSuspended((Suspended(second),))),
        ((first, second), (second, third), ChangedSuspended((Suspended(third),), ("k1",))),
        ((first, second, third), (first, changed, third), ChangedSuspended((Suspended(changed),))),
        ((first, second, third), (first, third), ChangedSuspended((), ("k2",))),
        ((first, second), (), NONE_LEFT),
        ((first,), (second, first), ChangedSuspended((Suspended(second), Suspended(first)), begins=True)),
        ((first, second), (second, first), ChangedSuspended((Suspended(second), Suspended(first)), begins=True)),
    )
    for old, new, form in cases:
        old_state = state().but(suspended_runs=old)
        after = old_state.but(suspended_runs=new)
        assert change(old_state, after).suspended_runs == form
        assert fold(old_state, change(old_state, after)) == after


def test_each_of_many_paused_runs_is_written_once() -> None:
    """Each of 64 calls of a batch may ask: with all of them in each change, that would be 2,080 runs."""
    written = 0
    old = state()
    for number in range(64):
        after = old.but(suspended_runs=(*old.suspended_runs, paused(PROMPTED, f"k{number}")))
        written += len(write(change(old, after)))
        old = after
    single_state = state().but(suspended_runs=(paused(PROMPTED, "k00"),))
    assert written < 65 * len(write(change(state(), single_state)))


def test_a_paused_hook_over_a_long_history_takes_no_more_bytes() -> None:
    sizes = []
    for count in (10, 1_000):
        old = state(*user_messages(*map(str, range(count))))
        after = old.but(suspended_runs=(paused(BeforeRequest(old.history)),))
        sizes.append(len(write(change(old, after))))
    assert sizes[1] - sizes[0] == len("1000") - len("10")


def test_a_switch_writes_the_fallback_models_only_if_they_differ() -> None:
    world = session()
    for model, written in (("x", (Spare("n"),)), ("y", UNSET)):
        world.apply(SwitchModelSent(model, EMPTY, (Spare("n"),)))
        assert (world.records[-1].change.model, world.records[-1].change.fallbacks) == (model, written)
