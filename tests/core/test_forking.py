"""A session that begins with the past of another one: what that had under way does not go on here."""

from agentrail.core.effects import StartCall
from agentrail.core.inputs import ToolReturned
from agentrail.core.sent import ApproveSent, RespondSent
from agentrail.core.state import Phase
from agentrail.testing.plugins import Asker, Holder
from agentrail.values.events.life import AgentStart, SessionForked
from agentrail.values.events.people import ApprovalRequired, AskUser
from agentrail.values.tools import AskPerson, Effect, ok
from tests.core.driving import answer, asked, begin, call, fork, hello, names, results, session


def test_a_fork_of_an_idle_session_goes_on_from_its_past() -> None:
    origin = session()
    origin.apply(hello())
    answer(origin, text="hello to you")
    world = fork(origin)
    assert [envelope.event for envelope in world.records[0].events] == [SessionForked("s", 3)]
    assert (world.state.seq, world.state.phase, world.state.opening) == (1, Phase.IDLE, False)
    assert world.state.history == origin.state.history
    assert (world.state.plugin_states, world.state.usage) == (origin.state.plugin_states, origin.state.usage)
    world.apply(hello("and then?"))
    answer(world, text="this")
    assert [message.text for message in world.state.history] == ["hello", "hello to you", "and then?", "this"]
    assert [message.text for message in origin.state.history] == ["hello", "hello to you"]
    world.check_replay()


def test_a_request_that_is_out_is_not_made_in_the_fork() -> None:
    origin = session()
    origin.apply(hello())
    begin(origin)
    origin.apply(hello("queued"))
    world = fork(origin)
    assert (world.state.phase, world.state.turn, world.state.queue) == (Phase.IDLE, None, ())
    assert [message.text for message in world.state.history] == ["hello"]


def test_a_call_that_runs_is_unknown_in_the_fork_and_never_runs_there() -> None:
    origin = session()
    asked(origin, call("keep"), call("read"))
    origin.apply(ToolReturned("c4", 1, ok("text")))
    world = fork(origin)
    assert results(world.state) == [
        "this branch began while the call ran; it may have taken effect; find out before calling it again",
        "text",
    ]
    assert [doubt.name for doubt in world.state.in_doubt] == ["keep"]
    assert (world.state.phase, world.state.turn, world.state.batch) == (Phase.IDLE, None, None)
    world.apply(hello("go on"))
    assert world.out.live_requests != []


def test_what_a_plugin_waits_for_is_not_asked_in_the_fork() -> None:
    origin = session(Asker("before_tool"))
    asked(origin, call("keep"))
    world = fork(origin)
    assert (world.state.suspended, world.out.live_asks) == ((), [])
    assert results(world.state) == ["this branch began before the call ran: it did not run here"]


def test_a_held_call_is_held_again_under_an_id_of_its_own() -> None:
    origin = session(Holder(frozenset({"write"}), timeout=60.0))
    asked(origin, call("write"))
    (held,) = (waiting.hold for waiting in origin.state.waiting_calls)
    world = fork(origin)
    (again,) = (waiting.hold for waiting in world.state.waiting_calls)
    assert held is not None
    assert again is not None
    assert (again.approval_id.startswith("fork:"), again.args, again.expires_at) == (True, held.args, held.expires_at)
    assert [type(envelope.event) for envelope in world.records[0].events] == [
        SessionForked,
        AgentStart,
        ApprovalRequired,
    ]
    step = world.apply(ApproveSent(again.approval_id))
    (start,) = (effect for effect in step.effects if isinstance(effect, StartCall))
    assert start.key == "fork/c3"
    assert [waiting.hold for waiting in origin.state.waiting_calls] == [held]


def test_the_time_of_a_held_call_goes_on() -> None:
    origin = session(Holder(frozenset({"write"}), timeout=60.0))
    asked(origin, call("write"))
    world = fork(origin)
    assert [at for _, at in world.state.timers] == [at for _, at in origin.state.timers]


def test_a_question_is_asked_again() -> None:
    origin = session()
    asked(origin, call("talk"))
    origin.apply(ToolReturned("c3", 1, Effect(AskPerson("which?"))))
    world = fork(origin)
    (question,) = (waiting.question for waiting in world.state.waiting_calls)
    assert question is not None
    assert AskUser(question.ref, "c3", "which?") in [envelope.event for envelope in world.records[0].events]
    step = world.apply(RespondSent(question.ref, "that one"))
    assert "RequestStart" in names(step)
