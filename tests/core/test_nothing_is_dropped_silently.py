from agentrail import Context, Options, Plugin
from agentrail.core.vocabulary.commands import UpdatePluginSent
from agentrail.core.vocabulary.effects import CancelAsk, ClearTimer, CloseSession, ReportStart
from agentrail.core.vocabulary.inputs import StreamStalled
from agentrail.errors import SessionRefused
from agentrail.events import (
    AgentAbort,
    AskAnswered,
    Envelope,
    Event,
    PluginOptsUpdated,
    PromptDropped,
    PromptRejected,
    SessionEnded,
    SteeringReceived,
)
from agentrail.events import StreamStalled as StreamStalledEvent
from agentrail.models import FrozenObject, Partial, Usage
from agentrail.testing.probe_plugins import Asker, Scripted
from tests.core.driving import answer, ask_for_calls, begin, call, events, hello, session
from tests.kit import AbortSent, Phase, Refused, SteerSent, StopSent, TimerFired


def test_what_a_plugin_waits_for_with_a_response_is_given_up_when_the_turn_takes_too_long() -> None:
    world = session(Asker("after_response"), options=Options(max_turn_seconds=5.0))
    world.apply(hello())
    begin(world)
    answer(world, text="hello to you")
    (ask_id,) = world.out.live_asks
    world.now += 5_000
    step = world.apply(TimerFired("turn"))
    assert events(step)[:2] == [
        AskAnswered(ask_id, "Asker", "dropped"),
        AgentAbort("p1", "deadline", "the turn took longer than 5 s"),
    ]
    assert step.effects == (ClearTimer(f"ask:{ask_id}"), CancelAsk(ask_id))


def test_a_session_that_does_not_start_drops_what_was_said_to_it() -> None:
    world = session(Asker("session_start"))
    world.apply(hello("do it"))
    world.apply(SteerSent("quickly"))
    old = world.state
    stopped = world.apply(AbortSent("never mind"))
    error = SessionRefused("s", "an abort", "never mind")
    happened: list[Event] = [
        AskAnswered("ask1", "Asker", "dropped"),
        SteeringReceived("s3", "quickly", "dropped"),
        AgentAbort(None, "user", "never mind"),
        PromptDropped("p2", "do it"),
        SessionEnded(str(error)),
    ]
    assert events(stopped) == happened
    assert stopped.effects[-2:] == (ReportStart(Refused.of(error)), CloseSession(str(error)))
    assert stopped.state == old.but(
        last_seq=old.last_seq + 5,
        phase=Phase.ENDED,
        is_starting=False,
        queue=(),
        steering=(),
        suspended_runs=(),
        timers=(),
        stop_reason=str(error),
        working_since_ms=None,
    )


def test_an_abort_drops_steering_also_before_a_turn_has_started() -> None:
    world = session(Asker("before_prompt"))
    world.apply(hello())
    world.apply(SteerSent("quickly"))
    aborted = world.apply(AbortSent())
    assert events(aborted) == [
        AskAnswered("ask2", "Asker", "dropped"),
        SteeringReceived("s3", "quickly", "dropped"),
        AgentAbort(None, "user"),
        PromptRejected("p1", "user"),
    ]
    assert aborted.state.phase is Phase.IDLE


def test_changes_of_plugins_that_never_apply_are_reported() -> None:
    world = session(Scripted({}), options=Options())
    world.apply(hello())
    new = world.teach("Scripted", Scripted({"before_tool": ("continue",)}))
    world.apply(UpdatePluginSent(new, FrozenObject({"script": "other"})))
    stopped = world.apply(StopSent())
    assert events(stopped)[-2:] == [
        PluginOptsUpdated("Scripted", success=False, error="the session has ended"),
        SessionEnded("stopped"),
    ]


class AfraidOfStalls(Plugin[None]):
    """A critical plugin that fails when it gets the event of a stall."""

    critical = True

    def on_event(self, event: Envelope, state: None, ctx: Context) -> None:
        if isinstance(event.event, StreamStalledEvent):
            raise TypeError


def test_what_had_come_of_a_stream_is_kept_when_a_plugin_breaks_at_its_stall() -> None:
    world = session(AfraidOfStalls())
    world.apply(hello())
    begin(world)
    (request_id,) = world.out.live_requests
    world.apply(StreamStalled(request_id, 30.0, Partial("so far", usage=Usage(7, 3))))
    assert [message.text for message in world.state.history] == ["hello", "so far"]
    assert world.state.usage == Usage(7, 3)


def test_steering_that_plugins_replaced_is_told_as_it_was_queued_when_an_abort_in_the_same_step_drops_it() -> None:
    world = session(Scripted({"before_steering": ("replace_prompt",), "after_tool_batch": ("abort",)}))
    ask_for_calls(world, call("read"))
    steered = world.apply(SteerSent("rather that"))
    assert [event for event in events(steered) if isinstance(event, SteeringReceived)] == [
        SteeringReceived("s4", "said otherwise 0", "queued", None, ("Scripted",)),
        SteeringReceived("s4", "said otherwise 0", "dropped"),
    ]
    assert world.state.steering == ()
