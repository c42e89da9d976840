from agentrail import Context, Options, Plugin
from agentrail.core.vocabulary.effects import CancelCalls, ReportStart, SetTimer
from agentrail.core.vocabulary.inputs import ToolRaised
from agentrail.errors import PluginRefused
from agentrail.events import ToolExecutionEnd
from agentrail.models import Origin, Text, UserMessage
from agentrail.testing.probe_plugins import Asker
from agentrail.values.messages import EMPTY_HISTORY
from tests.core.driving import ask_for_calls, call, events, hello, results, session
from tests.kit import AbortSent, Refused, SteerSent, TimerFired


def test_a_call_that_goes_on_in_the_background_keeps_its_time_limit() -> None:
    world = session()
    ask_for_calls(world, call("keep"))
    world.apply(AbortSent())
    assert [detached.call_id for detached in world.state.lingering_calls] == ["c3"]
    assert "call:c3" in world.out.timers
    late = world.apply(TimerFired("call:c3"))
    assert [event.late for event in events(late) if isinstance(event, ToolExecutionEnd)] == [True]
    assert late.effects == (CancelCalls(("c3",)), SetTimer("grace", world.now + 250))
    world.apply(hello())
    notice = world.state.history[-1]
    assert isinstance(notice, UserMessage)
    assert notice.origin is Origin.NOTICE
    assert "it ran too long and was stopped" in notice.text


def test_a_slot_that_a_background_call_gives_back_is_used_at_once() -> None:
    world = session(options=Options(max_parallel_tools=1))
    ask_for_calls(world, call("keep"))
    world.apply(AbortSent())
    ask_for_calls(world, call("read"))
    assert world.out.live_calls == ["c3"]
    world.apply(TimerFired("call:c3"))
    assert world.out.live_calls == ["c6"]


def test_the_result_of_a_call_that_had_failed_does_not_say_that_it_never_ran() -> None:
    world = session(Asker("on_tool_error"))
    ask_for_calls(world, call("read"), call("nowhere"))
    world.apply(ToolRaised("c3", 1, "Oops"))
    world.apply(AbortSent("enough"))
    assert results(world.state)[0] == "stopped: enough; it only reads, so it can be called again"

    world = session(Asker("on_tool_error"))
    ask_for_calls(world, call("read"), call("nowhere"))
    world.apply(ToolRaised("c3", 1, "Oops"))
    world.apply(SteerSent("rather that"))
    text = "skipped, because the user has said something new; it had failed and was to run again; "
    assert results(world.state)[0] == text + "it only reads, so it can be called again"


WORDS = "its state is not for this session"


class Polite(Plugin[None]):
    """A plugin that refuses the session in the words in which a broken state is reported."""

    def init(self, ctx: Context) -> None:
        raise PluginRefused(WORDS)


def test_a_plugin_that_refuses_is_not_taken_for_one_that_broke() -> None:
    world = session(Polite())
    error = PluginRefused(WORDS, "Polite")
    assert world.out.reports == [ReportStart(Refused.of(error))]


def test_the_empty_history_that_all_sessions_share_keeps_nothing() -> None:
    grown = EMPTY_HISTORY.and_(UserMessage((Text("hello"),)))
    assert len(grown) == 1
    assert EMPTY_HISTORY._log == []  # noqa: SLF001 - what it keeps alive has no other face
