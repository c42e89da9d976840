"""What every turn is promised: one end, one `after_turn`, and nothing that comes late changes anything."""

from __future__ import annotations

import random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail import Ask, Context, Continue
from agentrail.core.machine.responses import begun
from agentrail.core.machine.step import step
from agentrail.core.vocabulary.inputs import AskSettled
from agentrail.events import AgentAbort, AgentEnd, AgentStart, ToolExecutionEnd
from agentrail.models import ToolMessage, UserMessage
from agentrail.plugins import AfterTurn, Answered, AnyPlugin, CallService, Hook
from agentrail.testing import Choose
from agentrail.testing.world.random_setups import draw_scene
from agentrail.tools import err, ok
from property_tests.begun_states import noted
from tests.cells.bench import Bench, Got, call, plug
from tests.cells.hook_cells import HOOK_CELLS
from tests.cells.tables import ACCEPTED
from tests.kit import AbortSent, Phase, SteerSent
from tests.machinery.worlds.checked_world import CheckedWorld

CAN_ASK: Final = sorted(hook for hook, action in ACCEPTED if action == "ask")


def recorder() -> AnyPlugin:
    """Return the plugin that remembers the outcome of each turn from `after_turn`."""
    return plug("Recorder", priority=-1, first=(), after_turn=_outcomes)


def _outcomes(hook: Hook, state: object, _ctx: Context) -> object:
    assert isinstance(hook, AfterTurn)
    assert isinstance(state, tuple)
    return Continue((*state, hook.outcome))


def asks(name: str, hook: str, times: int) -> AnyPlugin:
    """Return a plugin that asks *times* times at *hook*, then lets it pass."""

    def answer(_hook: Hook, state: object, _ctx: object) -> object:
        assert isinstance(state, int)
        return Ask(CallService(name), state + 1) if state < times else Continue(0)

    return plug(name, first=0, **{hook: answer})  # type: ignore[arg-type]  # a hook


def closes(bench: Bench) -> tuple[list[str], list[str], object]:
    """Return the refs of turns that started, the refs of those that ended, and the state of the `Recorder`."""
    events = [event for got in bench.got for event in got.events]
    started = [event.ref for event in events if isinstance(event, AgentStart)]
    ended = [event.ref for event in events if isinstance(event, AgentEnd | AgentAbort) and event.ref is not None]
    remembered = dict(zip((attached.key for attached in bench.state.plugins), bench.state.plugin_states, strict=False))
    return started, ended, remembered.get("Recorder", ())


@pytest.mark.parametrize("hook", CAN_ASK)
@pytest.mark.parametrize("kill_tools", ["killable", "all", "none"])
def test_an_abort_at_each_point_of_a_suspended_hook_gives_one_after_turn(hook: str, kill_tools: str) -> None:
    for point in range(6):
        bench = _suspended(hook, point)
        if bench.state.phase not in (Phase.IDLE, Phase.ENDED):
            bench.send(AbortSent(kill_tools=kill_tools))
        while bench.state.suspended_runs:
            bench.send(AbortSent(kill_tools=kill_tools))
        started, ended, remembered = closes(bench)
        going = bench.state.turn is not None
        assert started[: len(started) - going] == ended
        assert isinstance(remembered, tuple)
        assert len(remembered) == len(ended), "one after_turn for each turn, and none for what was no turn"


def _suspended(hook: str, point: int) -> Bench:
    """Return a session in which two plugins ask three times each at *hook*, after *point* answers."""
    both = [asks("A", hook, 3), asks("B", hook, 3)]
    cell = HOOK_CELLS[hook]
    bench = cell.begin(recorder())
    for plugin in both:
        _join(bench, plugin)
    bench.send(cell.next_input(bench))
    for _ in range(point):
        if bench.state.suspended_runs:
            bench.send(AskSettled(bench.state.suspended_runs[0].ask_id, Answered(None)))
    return bench


def _join(bench: Bench, plugin: AnyPlugin) -> None:
    """Add a plugin at the end of the row at once; `attach_plugin` would wait until no turn is open."""
    known = bench.state.phase is not Phase.NEW
    bench.state = bench.state.but(
        plugins=(*bench.state.plugins, bench.attach(plugin)),
        plugin_states=(*bench.state.plugin_states, 0) if known else (),
    )


# Lingering calls


LATER: Final = ("prompt", "begin", "answer", "call", "steer", "abort")


@given(st.lists(st.sampled_from(LATER), max_size=8), st.integers(0, 8), st.booleans())
def test_the_result_of_a_lingering_call_is_told_once_in_each_later_state(
    moves: list[str], when: int, fails: bool
) -> None:
    bench = Bench()
    bench.prompt()
    bench.answers("", call("keep"))
    bench.send(AbortSent())
    entry = next(message for message in bench.state.history if isinstance(message, ToolMessage))
    for index, move in enumerate([*moves, "prompt", "begin", "answer"]):
        if index == min(when, len(moves)):
            late = bench.returns("c3", err("no disk") if fails else ok("all of it"))
            _is_told(late, "no disk" if fails else "all of it")
            _again(bench)
        _move(bench, move)
    assert entry in bench.state.history
    notices = [m.text for m in bench.state.history if isinstance(m, UserMessage) and "in the background" in m.text]
    ended = bench.state.request is None and "background" not in "".join(bench.state.notices)
    assert len(notices) == 1 or not ended
    assert bench.state.lingering_calls == () or any(
        detached.call_id != "c3" for detached in bench.state.lingering_calls
    )


def _is_told(late: Got, text: str) -> None:
    (told,) = (event for event in late.events if isinstance(event, ToolExecutionEnd))
    assert (told.call_id, told.late, told.text) == ("c3", True, text)
    assert not any(ruling.hook == "after_tool" for ruling in late.step.rulings), "no hook runs"
    assert late.step.state.history == late.before.history
    assert late.step.state.turn == late.before.turn


def _again(bench: Bench) -> None:
    before = bench.state
    bench.returns("c3", ok("again"))
    assert bench.state == before


def _move(bench: Bench, move: str) -> None:
    """Make the move *move*, if it is possible in this state."""
    asked = bench.state.request is not None
    if move == "prompt":
        bench.prompt("next")
    elif move == "begin" and asked and bench.state.phase is Phase.RUNNING:
        bench.begins()
    elif move == "answer" and asked:
        bench.answers("fine")
    elif move == "call" and asked:
        bench.answers("", call("look", path=str(bench.state.last_id)))
    elif move == "steer":
        bench.send(SteerSent("rather this"))
    elif move == "abort":
        bench.send(AbortSent())


# The same again


@given(st.integers(0, 2**32))
def test_the_same_inputs_give_the_same_state(seed: int) -> None:
    choose = Choose(random.Random(seed).randrange)
    world = CheckedWorld(draw_scene(choose))
    world.open()
    for _ in range(60):
        if world.go(choose) is None:
            break
    state = world.first
    for record in world.records:
        start = state if record.began is None else begun(state, record.began)
        once, twice = (step(start, record.arrival, world.hook_runner) for _ in range(2))
        assert once == twice
        assert repr(once.state) == repr(twice.state)
        assert (once.rulings, once.events) == (record.rulings, record.events)
        state = once.state
    assert noted(state, world.state) == world.state
