import pytest

from agentrail.core.vocabulary.effects import StartCall
from agentrail.core.vocabulary.inputs import CompactionEnded
from agentrail.events import CompactEnd, PluginError, SessionStarted
from agentrail.hooks.hook_types import HOOK_NAMES
from agentrail.models import AssistantMessage, ToolCall
from agentrail.testing.probe_plugins import LIES, CriticalLiar, Liar
from tests.core.driving import answer, ask_for_calls, call, events, hello, session
from tests.each_case import each_case
from tests.kit import CompactSent, Phase

EACH_LIE = range(len(LIES))


@each_case(EACH_LIE)
def test_a_lie_is_reported_and_the_turn_goes_on(lie: int) -> None:
    world = session(Liar("before_request", lie))
    step = world.apply(hello())
    assert [event.hook for event in events(step) if isinstance(event, PluginError)] == ["before_request"]
    assert world.state.request is not None


@each_case(EACH_LIE)
def test_a_critical_plugin_that_lies_never_lets_a_call_run(lie: int) -> None:
    world = session(CriticalLiar("before_tool", lie))
    step = ask_for_calls(world, call("write"), call("read"))
    assert not any(isinstance(effect, StartCall) for effect in step.effects)
    assert world.ledger.blocked == {"c3", "c4"}
    assert world.state.request is not None


@pytest.mark.parametrize("hook", sorted(HOOK_NAMES))
def test_whatever_a_plugin_answers_anywhere_a_session_can_be_spoken_to(hook: str) -> None:
    for lie in EACH_LIE:
        world = session(Liar(hook, lie))
        assert SessionStarted("model0") in [envelope.event for record in world.records for envelope in record.events]
        ask_for_calls(world, call("read"))
        world.check_replay()


def test_a_compaction_that_splits_a_call_from_its_result_changes_nothing() -> None:
    world = session()
    world.apply(hello())
    answer(world, text="well")
    world.apply(CompactSent())
    (name,) = world.out.live_compactions
    old = world.state
    split = AssistantMessage(calls=(ToolCall("c1", "read"),))
    ended = world.apply(CompactionEnded(name, (split,), 1, "shorter"))
    problem = "no provider would take what is left: the call c1 has no result behind it"
    assert events(ended) == [CompactEnd(0, problem)]
    assert ended.state == old.but(last_seq=old.last_seq + 1, phase=Phase.IDLE, compaction=None, working_since_ms=None)
