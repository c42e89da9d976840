"""`CachePrefix`: which part of a request does not fit the provider's cache, who changed it, and what is read again.

That it says so if, and only if, the bytes differ: `tests/adapters/models/test_prefix_changed.py`.
"""

from agentrail import Continue, ReplaceMessages, SetSection, SwitchModel
from agentrail.core.vocabulary.commands import ChangeToolsSent, SwitchModelSent
from agentrail.core.vocabulary.inputs import CompactionEnded, StreamCut, StreamEnded
from agentrail.core.vocabulary.options import Spare
from agentrail.events import PrefixChanged
from agentrail.insight import moments
from agentrail.insight.cache_prefix import CachePrefix
from agentrail.models import Failure, FailureKind, Origin, Text, UserMessage
from agentrail.plugins import AnyPlugin
from agentrail.tools import Effect, ToolSpec
from agentrail.values.stream import NOTHING_YET
from agentrail.values.tools import ActingAgent, HandOver
from tests.cache_prefixes import broken_prefixes
from tests.cells.bench import Bench, call, plug, response
from tests.cells.scenes import user_message
from tests.insight.stories import records_of
from tests.kit import CompactSent, PromptSent, freeze_object

IRON = ToolSpec("iron", "Irons.")
FORM = freeze_object({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
BUSY = Failure(FailureKind.TRANSIENT, "Overloaded", "no capacity")
SHORTER = (user_message("earlier: hello, hi", Origin.NOTICE),)


def told(bench: Bench) -> list[PrefixChanged]:
    return [changed for _, changed in broken_prefixes(records_of(bench))]


def once_asked(*plugins: AnyPlugin) -> Bench:
    """Return a session that has had one turn."""
    bench = Bench(*plugins)
    bench.prompt()
    bench.answers("hi")
    return bench


def by(hook: str, action: object) -> AnyPlugin:
    """Return a plugin `P` that gives *action* at its second run of *hook*, and lets all others pass."""

    def answer(_hook: object, state: int, _ctx: object) -> object:
        return action.but(state=2) if state == 1 else Continue(state + 1)  # type: ignore[attr-defined]

    answers: dict[str, object] = {"first": 0, hook: answer}
    return plug("P", **answers)  # type: ignore[arg-type]  # answers


def test_what_only_grows_is_not_told_and_neither_is_the_first_request() -> None:
    bench = once_asked()
    bench.prompt("more")
    bench.answers("", call("look", path="a"))
    bench.returns("c5")
    assert told(bench) == []


def test_a_switch_by_a_caller_has_all_read_again() -> None:
    bench = once_asked()
    bench.send(SwitchModelSent("n"))
    bench.prompt("again")
    assert told(bench) == [PrefixChanged("model", "n", "", 28)]


def test_a_switch_by_a_plugin_in_an_earlier_step_is_that_of_the_plugin() -> None:
    for hook in ("after_response", "after_tool", "after_tool_batch"):
        answers: dict[str, object] = {hook: SwitchModel("n")}
        bench = Bench(plug("P", **answers))  # type: ignore[arg-type]  # answers
        bench.prompt()
        bench.answers("", call("look", path="a"))
        bench.returns("c3")
        assert [(one.part, one.name, one.by) for one in told(bench)] == [("model", "n", "P")], hook


def test_a_switch_there_and_back_is_not_told_and_the_last_one_who_switched_is_named() -> None:
    bench = once_asked(plug("P", after_response=SwitchModel("n")))
    bench.send(SwitchModelSent("m"))
    bench.prompt("again")
    assert told(bench) == []
    bench.answers("hi")
    bench.send(SwitchModelSent("o"))
    bench.prompt("again")
    assert [(one.part, one.name, one.by) for one in told(bench)] == [("model", "o", "")]


def test_a_turn_that_fell_back_and_the_first_model_after_it() -> None:
    bench = Bench()
    bench.prompt()
    bench.answers("hi")
    bench.state = bench.state.but(fallbacks=(Spare("n"),))
    bench.prompt("more")
    for _ in range(2):
        bench.send(StreamCut(bench.request_id, NOTHING_YET, BUSY), random=1.0)
        bench.fires("retry")
    bench.answers("hi")
    bench.prompt("and more")
    assert [(one.part, one.name, one.by) for one in told(bench)] == [("model", "n", ""), ("model", "m", "")]


def test_a_model_that_is_chosen_before_any_answer_has_nothing_in_its_cache() -> None:
    bench = Bench()
    bench.prompt()
    bench.send(StreamCut(bench.request_id, NOTHING_YET, Failure(FailureKind.PERMANENT, "KeyRefused", "who?")))
    bench.send(SwitchModelSent("n"))
    bench.prompt("again")
    assert told(bench) == []


def test_a_compaction_is_told_with_what_caused_it() -> None:
    bench = once_asked()
    bench.send(CompactSent("make room"))
    bench.send(CompactionEnded("k3", SHORTER, 2, "shorter"))
    bench.prompt("next")
    assert told(bench) == [PrefixChanged("messages", "compaction", "caller", 0)]


def test_of_a_compaction_what_it_left_is_not_read_again() -> None:
    bench = Bench()
    bench.prompt("a question " * 10)
    bench.answers("", call("look", path="a"))
    bench.returns("c3")
    bench.answers("", call("look", path="b"))
    bench.send(CompactSent("make room"))
    bench.returns("c5")
    prompt, *_, second, result = bench.state.history
    assert bench.state.compaction is not None
    shorter = (prompt, user_message("more happened", Origin.NOTICE), second, result)
    bench.send(CompactionEnded(bench.state.compaction.compaction_id, shorter, 0, "another"))
    (changed,) = told(bench)
    assert (changed.part, changed.name, changed.by) == ("messages", "compaction", "caller")
    assert changed.tokens < 10


def test_a_section_that_a_plugin_removes_is_its_change_whoever_had_set_it() -> None:
    def calm(_hook: object, state: int, _ctx: object) -> object:
        return Continue(state) if state else SetSection("mood", "calm", 1, layer="memory")

    bench = once_asked(
        plug("Sets", first=0, before_prompt=calm), by("before_prompt", SetSection("mood", None, layer="memory"))
    )
    bench.prompt("again")
    bench.answers("hi")
    assert [(one.part, one.name, one.by) for one in told(bench)] == [("memory", "mood", "P")]


def test_a_tool_is_the_change_of_its_source_or_of_the_caller() -> None:
    bench = once_asked()
    bench.send(ChangeToolsSent(attach=(IRON,), revision=1, source="server"))
    bench.prompt("again")
    bench.answers("hi")
    bench.send(ChangeToolsSent(detach=("iron",), revision=2))
    bench.prompt("and again")
    assert [(one.part, one.name, one.by) for one in told(bench)] == [("tool", "iron", "server"), ("tool", "iron", "")]


def test_a_handoff_that_passes_on_the_turn_alone_is_told_by_the_tool_that_asked_for_it() -> None:
    bench = once_asked()
    bench.prompt("help")
    bench.answers("", call("look", path="a"))
    bench.returns("c5", Effect(HandOver(ActingAgent("billing", ""), (), revision=1, history="turn")))
    assert [(one.part, one.name, one.by) for one in told(bench)] == [("messages", "compaction", "look")]


def test_messages_that_are_replaced_once_are_told_twice() -> None:
    other = UserMessage(user_message("something else").parts)
    bench = once_asked(by("before_request", ReplaceMessages([other])))
    bench.prompt("again")
    bench.answers("hi")
    bench.prompt("and again")
    assert [(one.part, one.name, one.by) for one in told(bench)] == [("messages", "replaced", "P")] * 2


def test_of_what_was_not_followed_from_the_start_the_state_tells_who_changed_it() -> None:
    bench = once_asked(by("before_prompt", SetSection("mood", "calm", layer="memory")))
    bench.send(ChangeToolsSent(attach=(IRON,), revision=1, source="server"))
    bench.send(CompactSent("make room"))
    prefix = CachePrefix()
    all_moments = list(moments(records_of(bench)))
    for moment in all_moments[:2]:
        assert prefix.stepped(moment.before, moment.record.rulings, moment.record.events, moment.state) is None
    bench.send(CompactionEnded("k3", SHORTER, 2, "shorter"))
    bench.prompt("next")
    last = list(moments(records_of(bench)))[-1]
    changed = prefix.stepped(last.before, last.record.rulings, last.record.events, last.state)
    assert changed is not None
    assert (changed.part, changed.name, changed.by) == ("tool", "iron", "server")


def test_who_removes_a_section_is_named_and_not_who_does_so_again() -> None:
    gone = SetSection("notes", None, 2, layer="memory")

    def sets(_hook: object, state: int, _ctx: object) -> object:
        return Continue(state + 1) if state else SetSection("notes", "tea", 1, layer="memory")

    def removes(_hook: object, state: int, _ctx: object) -> object:
        return gone if state == 1 else Continue(state + 1)

    bench = once_asked(
        plug("C", first=0, before_prompt=sets),
        plug("A", first=0, before_prompt=removes),
        plug("B", first=0, before_request=removes),
    )
    bench.prompt("go on")
    (changed,) = told(bench)
    assert (changed.part, changed.name, changed.by) == ("memory", "notes", "A")


def answers_in_form(bench: Bench, *, by_tool: bool) -> None:
    """Ask for an answer in a form, which comes by a call of a tool or by the schema."""
    bench.send(PromptSent((Text("which?"),), returns=FORM))
    bench.send(StreamEnded(bench.request_id, response('{"a": 1}').but(by_tool=by_tool)))


def test_how_an_answer_came_for_a_request_that_is_no_more_is_no_matter() -> None:
    bench = Bench()
    answers_in_form(bench, by_tool=False)
    bench.send(PromptSent((Text("which?"),), returns=FORM))
    late = bench.request_id
    bench.send(StreamCut(late, NOTHING_YET, BUSY), random=1.0)
    bench.fires("retry")
    assert bench.request_id != late
    bench.send(StreamEnded(late, response('{"a": 1}').but(by_tool=True)))
    bench.send(StreamEnded(bench.request_id, response('{"a": 1}').but(by_tool=False)))
    assert told(bench) == []


def test_each_model_has_its_own_way_to_answer_in_a_form() -> None:
    bench = Bench()
    answers_in_form(bench, by_tool=True)
    bench.send(SwitchModelSent("n"))
    answers_in_form(bench, by_tool=False)
    assert [(one.part, one.name) for one in told(bench)] == [("model", "n")]
    answers_in_form(bench, by_tool=True)
    assert [(one.part, one.name) for one in told(bench)][1:] == [("returns", "refused")]


def test_a_model_that_takes_over_is_not_the_choice_of_who_switched_before() -> None:
    bench = once_asked(by("after_response", SwitchModel("n")))
    bench.prompt("more")
    bench.answers("hi")
    bench.prompt("and more")
    bench.answers("hi")
    bench.state = bench.state.but(fallbacks=(Spare("o"),))
    bench.prompt("and more")
    for _ in range(2):
        bench.send(StreamCut(bench.request_id, NOTHING_YET, BUSY), random=1.0)
        bench.fires("retry")
    assert [(one.part, one.name, one.by) for one in told(bench)] == [("model", "n", "P"), ("model", "o", "")]
