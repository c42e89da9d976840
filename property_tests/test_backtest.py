"""A back-test finds the first ruling that differs, and no other: beside what the sessions had, and beside the truth."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentrail import State
from agentrail.core.machine.responses import begun
from agentrail.core.machine.step import Step, step
from agentrail.core.vocabulary.changes import NAMES
from agentrail.events import PluginError, PluginEvent, PluginSlow
from agentrail.hooks.attachments import AttachedPlugin, attached_plugin, class_name, in_order, options_of
from agentrail.hooks.live_runner import LiveRunner, any_model
from agentrail.insight import SessionBackTest
from agentrail.insight.candidate_row import CandidateRow, FindPlugin
from agentrail.insight.session_backtest import backtest_session
from agentrail.journals import MemoryJournal, Record
from agentrail.plugins import AnyPlugin, Keyed
from agentrail.testing import Choose, Scene, Simulator, World
from agentrail.testing.probe_plugins import can_store
from agentrail.testing.simulator import simulator
from agentrail.testing.world.random_setups import TOOLS, draw_options, draw_scene
from property_tests.policies import BASE, CHANGES, changed, drawn_changes
from property_tests.volume import profile

SESSIONS = 25 if profile() == "campaign" else 4
"""How many recorded sessions each change is tried on."""

OF_THE_ROW = {"plugins", "plugin_states", "listener_failures", "last_seq", "suspended_runs", "working_since_ms"}
"""Fields of the state that say who the plugins are, and how many events they have emitted."""

PEOPLE_THAT_CHANGE_PLUGINS = {"AttachPluginSent", "UpdatePluginSent", "DetachPluginSent", "SessionReturned"}


def recorded(world: World) -> list[Record]:
    """Return the steps of *world* as a journal has them."""
    return [
        Record(
            world.state.session_id,
            made.number,
            made.arrival,
            made.rulings,
            made.events,
            made.effects,
            made.change,
            made.began,
            answer=made.answer,
            opening=world.first if made.number == 1 else None,
        )
        for made in world.records
    ]


def played(scene: Scene, choose: Choose, steps: int, without: Collection[str] = ()) -> World:
    """Return a session of *scene*, without inputs of the kinds *without*."""
    world = World(scene)
    world.open()
    for _ in range(steps):
        moves = [move for move in world.moves() if move.kind.__name__ not in without]
        if not moves:
            break
        world.apply(choose.weighted([(move.weight, move) for move in moves]).make(choose), choose)
    return world


def back_tested(world: World, find: FindPlugin, added: Mapping[str, AnyPlugin]) -> tuple[SessionBackTest, CandidateRow]:
    row = CandidateRow(LiveRunner(can_store), find, added)
    return backtest_session("s", recorded(world), lambda _: row), row


@settings(max_examples=200 if profile() == "ci" else 10_000)
@example(26343281)  # a turn began in a step whose events no plugin was shown, and failures were counted on
@given(st.integers(0, 2**32))
def test_the_plugins_of_a_session_rule_as_they_did(seed: int) -> None:
    choose = Choose(random.Random(seed).randrange)
    world = played(draw_scene(choose), choose, 60)
    plugin = world.hook_runner.plugin
    outcome, row = back_tested(world, plugin, {})
    assert (outcome.parts, outcome.skipped, outcome.records) == ((), "", len(world.records))
    state = world.state
    if len(state.plugin_states) == len(state.plugins):
        keys = [attached.key for attached in state.plugins]
        assert [row.states.get(key) for key in keys] == list(state.plugin_states)


@cache
def sessions_of_base() -> Sequence[World]:
    """Return the recorded sessions on which changes are tried; nobody changes their plugins while they run."""
    worlds: list[World] = []
    for seed in range(SESSIONS):
        choose = Choose(random.Random(seed).randrange)
        scene = Scene(draw_options(choose), TOOLS, tuple(Keyed(key, plugin) for key, plugin in BASE.items()))
        worlds.append(played(scene, choose, 50, PEOPLE_THAT_CHANGE_PLUGINS))
    return worlds


def shown(made: Step) -> list[object]:
    """Return what a step does that somebody beside its plugins can see."""
    state = made.state
    events = [sent.event for sent in made.events if not isinstance(sent.event, PluginEvent | PluginError | PluginSlow)]
    fields = [getattr(state, name) for name in NAMES if name not in OF_THE_ROW | {"batch", "worked_ms"}]
    batch = () if state.batch is None else state.batch.calls
    calls = [(call.call_id, call.args, call.status, call.result) for call in batch]
    runs = [(run.ask_id, run.pause.request, run.pause.deadline, run.decisions) for run in state.suspended_runs]
    return [events, fields, calls, runs, made.effects, made.answer]


def truth(world: World, plugins: Mapping[str, AnyPlugin]) -> int | None:
    """Return the number of the first input at which a session that had *plugins* from the start goes otherwise."""
    runner = world.hook_runner.copy(any_model)
    row = []
    for key, plugin in plugins.items():
        runner.attach(key, 1, plugin)
        row.append(attached_plugin(key, plugin, 1))
    then: State = world.first
    now = then.but(plugins=tuple([row[index] for index in in_order(tuple(row))]))
    for made in world.records:
        if made.began is not None:
            then, now = begun(then, made.began), begun(now, made.began)
        before = step(then, made.arrival, world.hook_runner)
        after = step(now, made.arrival, runner)
        if shown(before) != shown(after):
            return made.number
        then, now = before.state, after.state
    return None


TRIED = {**CHANGES, **drawn_changes()} if profile() == "campaign" else CHANGES


@pytest.mark.parametrize("change", TRIED)
def test_a_change_of_policy_is_found_at_its_record(change: str) -> None:
    plugins = changed(TRIED[change])
    for seed, world in enumerate(sessions_of_base()):
        outcome, _ = back_tested(
            world,
            lambda attached: plugins.get(attached.key),
            {key: plugin for key, plugin in plugins.items() if key not in BASE},
        )
        found = outcome.parts[0].record if outcome.parts else None
        assert (seed, found) == (seed, truth(world, plugins))
        assert not outcome.skipped


def test_most_changes_matter() -> None:
    worlds = sessions_of_base()
    matter = [name for name, change in TRIED.items() if any(truth(world, changed(change)) for world in worlds)]
    assert len(matter) >= len(TRIED) * 3 // 4


FAULTS = (
    "process_dies",
    "actor_breaks",
    "actor_breaks_behind",
    "tool_raises",
    "model_transient",
    "meddling",
    "command_twice",
)
RUNS = 40 if profile() == "campaign" else 4


@pytest.mark.parametrize("seed", range(RUNS))
def test_the_plugins_of_whole_supervisors_rule_as_they_did(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that crash, sleep, wake, come back, fork, have sub-agents, and lose their process."""
    disks: list[MemoryJournal] = []
    code: dict[tuple[str, str, str], AnyPlugin] = {}
    attach = LiveRunner.attach

    class Kept(MemoryJournal):
        def __init__(self, *, encode: bool = False, keep: int | None = None) -> None:
            super().__init__(encode=encode, keep=keep)
            disks.append(self)

    def noted(self: LiveRunner, key: str, revision: int, plugin: AnyPlugin) -> None:
        code.setdefault((key, class_name(plugin), repr(options_of(plugin))), plugin)
        attach(self, key, revision, plugin)

    monkeypatch.setattr(simulator, "MemoryJournal", Kept)
    monkeypatch.setattr(LiveRunner, "attach", noted)
    Simulator("safety", faults=FAULTS).run(seed)
    monkeypatch.undo()
    (disk,) = disks
    for name, records in trio.run(all_records, disk).items():
        outcome = backtest_session(name, records, row_of(code))
        assert (name, outcome.parts, outcome.skipped) == (name, (), "")
        assert outcome.records == len(records)


def row_of(code: Mapping[tuple[str, str, str], AnyPlugin]) -> Callable[[State], CandidateRow]:
    """Return the function that makes a row of the plugins that the sessions had."""

    def find(attached: AttachedPlugin) -> AnyPlugin:
        return code[attached.key, attached.plugin, repr(attached.options)]

    return lambda _: CandidateRow(LiveRunner(can_store), find, {})


async def all_records(journal: MemoryJournal) -> dict[str, list[Record]]:
    """Return the records of all sessions of *journal*."""
    sessions: dict[str, list[Record]] = {}
    for stored in await journal.sessions():
        records: list[Record] = []
        while page := await journal.read(stored.session_id, len(records), 500):
            records += page
        if records:
            sessions[stored.session_id] = records
    return sessions
