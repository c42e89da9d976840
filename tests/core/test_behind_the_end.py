from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.commands import ChangeToolsSent
from agentrail.core.vocabulary.effects import CancelAsk, CarryOut, CloseSession, WriteLog
from agentrail.core.vocabulary.inputs import HooksWereSlow, ToolStopped
from agentrail.events import AgentAbort, PluginError, RequestStart, SessionEnded, ToolDetached
from agentrail.plugins import ChangeTools
from agentrail.testing.probe_plugins import BROUGHT, Bringer, CriticalListener, Listener, Scripted
from tests.core.driving import answer, ask_for_calls, call, ends, events, hello, session
from tests.kit import StopSent


def test_what_comes_behind_the_end_changes_nothing() -> None:
    world = session()
    ask_for_calls(world, call("write"))
    world.apply(StopSent())
    assert ends(world)
    for late in (ToolStopped("c3", 1), HooksWereSlow(("Recorder",), 80)):
        ended = world.state
        assert world.apply(late) == Step(ended)


def test_a_listener_that_breaks_at_the_end_is_logged_because_no_event_may_follow() -> None:
    world = session(Listener(raises_at=1))
    stopped = world.apply(StopSent())
    assert events(stopped) == [SessionEnded("stopped")]
    error = {"plugin": "Listener", "hook": "on_event", "error": "ValueError: 3"}
    assert stopped.effects == (
        CloseSession("stopped"),
        WriteLog("error", "a plugin broke when the session had ended", error),
    )


def test_a_listener_is_off_after_three_failures_also_within_one_step() -> None:
    world = session(Listener(raises_at=1))
    steps = [world.apply(hello()), answer(world, text="well")]
    failures = [event for step in steps for event in events(step) if isinstance(event, PluginError)]
    assert [failure.error for failure in failures] == ["ValueError: 3", "ValueError: 4", "ValueError: 5"]


def test_a_critical_listener_that_breaks_aborts_the_turn_as_an_abort_would() -> None:
    world = session(CriticalListener(raises_at=4))
    prompted = world.apply(hello())
    assert [type(effect).__name__ for effect in prompted.effects] == ["StartRequest", "CancelRequest"]
    assert world.ledger.outcomes == ["aborted"]


def test_plugins_may_change_the_tools_behind_a_request_that_the_same_step_gives_up() -> None:
    def step_of(listener: Listener) -> Step:
        world = session(Bringer("after_turn", ChangeTools(detach=(BROUGHT.name,))), listener)
        world.apply(ChangeToolsSent((BROUGHT,), revision=1))
        return world.apply(hello())

    quiet = step_of(Listener())
    (asks,) = (envelope.seq for envelope in quiet.events if isinstance(envelope.event, RequestStart))
    loud = step_of(CriticalListener(raises_at=asks))
    assert [type(effect).__name__ for effect in loud.effects] == ["StartRequest", "CancelRequest"]
    assert [event.name for event in events(loud) if isinstance(event, ToolDetached)] == [BROUGHT.name]


def test_a_question_that_a_step_begins_and_cancels_is_neither_asked_nor_cancelled_if_a_listener_aborts() -> None:
    def step_of(listener: Listener) -> Step:
        world = session(Scripted({"before_tool": ("ask", "abort")}), listener)
        world.apply(hello())
        world.apply(hello("and then"))
        return answer(world, call("read"), call("keep"))

    quiet = step_of(Listener())
    assert [type(effect) for effect in quiet.effects if isinstance(effect, CarryOut | CancelAsk)] == [
        CarryOut,
        CancelAsk,
    ]
    loud = step_of(CriticalListener(raises_at=quiet.events[-1].seq))
    assert [event.kind for event in events(loud) if isinstance(event, AgentAbort)] == ["plugin", "critical"]
    assert not [effect for effect in loud.effects if isinstance(effect, CarryOut | CancelAsk)]
