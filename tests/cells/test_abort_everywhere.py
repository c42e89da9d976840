"""Abort before every input of every script, with each `kill_tools` and both values of `clear_queue`."""

from collections.abc import Iterator
from itertools import product

import pytest

from agentrail import State
from agentrail.core.machine.responses import begun
from agentrail.core.machine.step import step
from agentrail.core.vocabulary.effects import CancelAsk, CancelCalls, CancelCompaction, CancelRequest, ClearTimer
from agentrail.core.vocabulary.inputs import (
    AskSettled,
    CompactionEnded,
    CompactionFailed,
    StreamCut,
    StreamEnded,
    StreamStalled,
    ToolRaised,
    ToolStopped,
)
from agentrail.core.vocabulary.tool_calls import DetachedCall
from agentrail.errors import IllegalInput
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentStart,
    PromptDropped,
    PromptReceived,
    PromptRejected,
    SessionStarted,
    ToolExecutionEnd,
    ToolExecutionMetrics,
)
from agentrail.hooks.hook_runner import RecordedRunner
from agentrail.models import AssistantMessage, Failure, FailureKind, Response, ToolMessage
from agentrail.plugins import Answered
from agentrail.testing.world.outstanding import Outstanding
from agentrail.tools import ok
from agentrail.values.messages import why_unfit
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import Bench, Got, response
from tests.cells.scripts import SCRIPTS
from tests.kit import AbortSent, AnyInput, Arrival, Phase, TimerFired, ToolReturned

KILL_TOOLS = ("killable", "all", "none")
RECORDED = {name: script.record() for name, script in SCRIPTS.items()}


def aborted(name: str, index: int, kill_tools: str, *, clear_queue: bool) -> tuple[Bench, Got]:
    """Play the first *index* inputs of a script, and abort."""
    bench = SCRIPTS[name].bench()
    for move in RECORDED[name][:index]:
        replay(bench, move)
    partial = bench.cut_short()
    return bench, bench.send(AbortSent("enough", kill_tools, clear_queue, partial=partial))


def replay(bench: Bench, move: Arrival | None) -> None:
    if move is None:
        bench.begins()
    else:
        bench.now = move.at
        bench.send(move.input, random=move.random)


def everywhere(name: str) -> range:
    """Return all places for an abort: before each input except the first (it opens the session), and after the last."""
    return range(1, len(RECORDED[name]) + 1)


ALL = pytest.mark.parametrize(
    ("name", "kill_tools", "clear_queue"), list(product(SCRIPTS, KILL_TOOLS, (False, True))), ids=str
)


def test_there_are_scripts_of_every_kind_and_they_visit_every_state() -> None:
    assert len(SCRIPTS) >= 12
    seen = set[Phase]()
    for name, moves in RECORDED.items():
        bench = SCRIPTS[name].bench()
        for move in moves:
            seen.add(bench.state.phase)
            replay(bench, move)
    assert seen == set(Phase) - {Phase.ENDED}


def test_a_session_that_was_not_opened_cannot_be_aborted() -> None:
    for script in SCRIPTS.values():
        with pytest.raises(IllegalInput):
            script.bench().send(AbortSent())


@ALL
def test_an_abort_is_reported_once_and_closes_the_open_turn(name: str, kill_tools: str, clear_queue: bool) -> None:
    for index in everywhere(name):
        _, got = aborted(name, index, kill_tools, clear_queue=clear_queue)
        old = got.before
        going = old.turn is not None and old.turn.ended is None
        ref = old.turn.ref if going and old.turn is not None else None
        assert [event for event in got.events if isinstance(event, AgentAbort)] == [AgentAbort(ref, "user", "enough")]
        assert not any(isinstance(event, AgentEnd) for event in got.events)
        assert got.step.state.turn is None or got.step.state.turn != old.turn
        _demand_valid(got.step.state)


def _demand_valid(state: State) -> None:
    assert why_unfit(state.history, open_end=state.batch is not None) is None
    call_ids = [c.call_id for m in state.history if isinstance(m, AssistantMessage) for c in m.calls]
    reported_call_ids = [m.call_id for m in state.history if isinstance(m, ToolMessage)]
    still_open = [c.call_id for c in state.batch.calls] if state.batch is not None else []
    assert sorted([*reported_call_ids, *still_open]) == sorted(call_ids)
    assert len(set(reported_call_ids)) == len(reported_call_ids)


@ALL
def test_the_queue_is_kept_and_consumed_or_dropped_as_asked(name: str, kill_tools: str, clear_queue: bool) -> None:
    for index in everywhere(name):
        _, got = aborted(name, index, kill_tools, clear_queue=clear_queue)
        old, after = got.before, got.step.state
        queued = [prompt.ref for prompt in old.queue]
        taken = [prompt.ref for prompt in (after.next_prompt,) if prompt is not None]
        received = [event.ref for event in got.events if isinstance(event, PromptReceived)]
        dropped = [event.ref for event in got.events if isinstance(event, PromptDropped)]
        refs = [prompt.ref for prompt in after.queue]
        if clear_queue or after.phase is Phase.ENDED:
            assert (dropped, received, taken, refs) == (queued, [], [], [])
        else:
            assert (dropped, [*received, *taken, *refs]) == ([], queued)
        refused = [event.ref for event in got.events if isinstance(event, PromptRejected)]
        assert refused == ([old.next_prompt.ref] if old.next_prompt is not None else [])
        assert after.steering == ()


@ALL
def test_each_started_turn_has_one_end_and_one_after_turn(name: str, kill_tools: str, clear_queue: bool) -> None:
    for index in everywhere(name):
        bench, _ = aborted(name, index, kill_tools, clear_queue=clear_queue)
        while bench.state.phase not in (Phase.IDLE, Phase.ENDED):
            bench.send(AbortSent(clear_queue=True))
        events = [event for got in bench.got for event in got.events]
        started = [event.ref for event in events if isinstance(event, AgentStart)]
        ended = [event for event in events if isinstance(event, AgentEnd | AgentAbort) and event.ref is not None]
        assert [event.ref for event in ended] == started
        outcomes = tuple("finished" if isinstance(event, AgentEnd) else "aborted" for event in ended)
        assert bench.state.plugin_states[:1] == (outcomes,)
        assert SessionStarted("m") in events or bench.state.phase is Phase.ENDED


@ALL
def test_late_results_of_cancelled_work_change_nothing(name: str, kill_tools: str, clear_queue: bool) -> None:
    for index in everywhere(name):
        bench, got = aborted(name, index, kill_tools, clear_queue=clear_queue)
        if bench.state.phase is Phase.ENDED:
            continue
        for late in _late(got):
            bench.send(late).expect_nothing()
        for detached in (*bench.state.lingering_calls, *bench.state.quarantined_calls):
            _closes(bench, detached)


def _late(got: Got) -> Iterator[AnyInput]:
    """Yield the inputs that work cancelled by the abort may still send."""
    for effect in got.step.effects:
        match effect:
            case CancelRequest(request_id=name):
                yield StreamStalled(name, 30.0)
                yield StreamEnded(name, response("late"))
                yield StreamEnded(name, Response())
                yield StreamCut(name, NOTHING_YET, Failure(FailureKind.TRANSIENT, "Busy", "late"))
            case CancelAsk(ask_id=name):
                yield AskSettled(name, Answered("late"))
            case CancelCompaction(compaction_id=name):
                yield CompactionEnded(name, (), 9, "late")
                yield CompactionFailed(name, "late")
            case ClearTimer(timer=name):
                if name not in dict(got.step.state.timers):
                    yield TimerFired(name)
            case CancelCalls(call_ids=names):
                yield from (TimerFired(f"call:{name}") for name in names)
            case _:
                pass


def _closes(bench: Bench, detached: DetachedCall) -> None:
    """End a call that has left its turn: it is forgotten, its end is reported if it lingered, and no more changes."""
    old = bench.state
    call_id = detached.call_id
    lingers = detached in old.lingering_calls
    got = bench.send(ToolReturned(call_id, 1, ok("late")))
    report = [type(event) for event in got.events]
    assert report == ([ToolExecutionEnd, ToolExecutionMetrics] if lingers else [])
    assert all(isinstance(effect, ClearTimer) for effect in got.step.effects)
    after = bench.state
    assert call_id not in {other.call_id for other in (*after.lingering_calls, *after.quarantined_calls)}
    assert (after.history, after.phase, after.turn) == (old.history, old.phase, old.turn)
    assert len(after.notices) == len(old.notices) + int(lingers)
    for again in (ToolReturned(call_id, 1, ok("again")), ToolRaised(call_id, 1, "late"), ToolStopped(call_id, 1)):
        bench.send(again).expect_nothing()


@ALL
def test_the_world_is_told_to_stop_exactly_what_runs(name: str, kill_tools: str, clear_queue: bool) -> None:
    for index in everywhere(name):
        out = Outstanding()
        bench, got = aborted(name, index, kill_tools, clear_queue=clear_queue)
        for done in bench.got:
            _comes(out, done.arrival.input)
            for effect in done.step.effects:
                out.perform(effect, done.arrival.at)
        state = got.step.state
        assert out.timers == dict(state.timers)
        assert out.live_requests == ([state.request.request_id] if state.request is not None else [])
        assert set(out.live_asks) == {waiting.ask_id for waiting in state.suspended_runs}
        assert set(out.live_calls) == {detached.call_id for detached in state.lingering_calls}
        assert len(out.live_compactions) == (state.compaction is not None and state.compaction.running)


def _comes(out: Outstanding, input_: AnyInput) -> None:
    match input_:
        case StreamEnded(request_id=name) | StreamCut(request_id=name):
            del out.requests[name]
        case ToolReturned(call_id=name) | ToolRaised(call_id=name) | ToolStopped(call_id=name):
            del out.calls[name]
        case AskSettled(ask_id=name):
            del out.asks[name]
        case CompactionEnded(compaction_id=name):
            del out.compactions[name]
        case TimerFired(timer=name):
            del out.timers[name]
        case _:
            pass


@pytest.mark.long
@ALL
def test_the_records_lead_to_the_same_session(name: str, kill_tools: str, clear_queue: bool) -> None:
    for index in everywhere(name):
        bench, _ = aborted(name, index, kill_tools, clear_queue=clear_queue)
        state = bench.first
        for got in bench.got:
            if got.before != state and state.request is not None:  # a response has begun meanwhile, which is no step
                state = begun(state, state.request.request_id)
            assert got.before == state
            hook_runner = RecordedRunner(got.step.rulings)
            again = step(state, got.arrival, hook_runner)
            assert again == got.step
            assert repr(again.state) == repr(got.step.state)
            assert hook_runner.left == 0
            state = again.state
        assert state == bench.state
