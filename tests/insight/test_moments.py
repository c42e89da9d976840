"""`at` and `moments`: the state after each record, and what the record changed."""

import random

import pytest

from agentrail import Continue, State
from agentrail.core.machine.responses import begun
from agentrail.core.vocabulary.changes import NAMES
from agentrail.core.vocabulary.state import IDLE, RUNNING
from agentrail.errors import UnknownRecord
from agentrail.insight import FieldChange, at, moments
from agentrail.testing import Choose
from agentrail.testing.world.random_setups import draw_scene
from tests.cells.bench import Bench, call, plug
from tests.insight.stories import records_of, records_of_world
from tests.kit import AbortSent
from tests.machinery.worlds.checked_world import CheckedWorld
from tests.profiles import CAMPAIGN


def fields(bench: Bench, number: int) -> dict[str, FieldChange]:
    return {change.field: change for change in at(records_of(bench), number).changes}


def test_what_changed_is_told_down_to_the_part_that_did() -> None:
    bench = Bench(plug("Counter", first=0, before_tool=lambda _hook, count, _ctx: Continue(count + 1)))
    bench.prompt("go")
    bench.answers("", call("look", path="a"), call("edit"))
    bench.returns("c3")
    opened, prompted, answered, returned = (fields(bench, number) for number in range(1, 5))
    assert opened["plugin_states"].after == {"Counter": 0}
    assert (prompted["phase"].before, prompted["phase"].after) == (IDLE, RUNNING)
    assert prompted["history[0:1]"].before == ()
    assert prompted["history[0:1]"].after == tuple(bench.state.history[:1])
    assert (answered["plugin_states.Counter"].before, answered["plugin_states.Counter"].after) == (0, 2)
    assert returned["batch.calls[0].status"].after == bench.call("c3").status
    assert not any(name.startswith(("batch.calls[1]", "history")) for name in returned)


def test_what_left_a_sequence_is_told_by_the_stretch_that_differs() -> None:
    bench = Bench()
    for text in ("one", "two", "three"):
        bench.prompt(text)
    bench.send(AbortSent())
    change = at(records_of(bench), 5).changes
    (queue,) = [one for one in change if one.field.startswith("queue")]
    assert queue.field == "queue[0:1]"
    assert isinstance(queue.before, tuple)
    assert [prompt.text for prompt in queue.before] == ["two"]
    assert queue.after == ()


def test_a_record_that_is_not_there_is_told() -> None:
    records = records_of(Bench())
    for number in (0, 2, -1, 10**30):
        with pytest.raises(UnknownRecord, match=f"session `s` has no record {number}"):
            at(records, number)
    assert at(records, 1).record is records[0]


def test_moments_do_not_fold_again_and_share_what_they_have_in_common() -> None:
    bench = Bench()
    bench.prompt("go")
    bench.answers("done")
    several = list(moments(records_of(bench)))
    assert [moment.before for moment in several[1:]] == [moment.state for moment in several[:-1]]
    assert several[2].state.setup is several[0].state.setup


@pytest.mark.long
def test_the_state_after_each_record_is_the_one_that_the_session_had() -> None:
    for seed in range(2_000 if CAMPAIGN else 50):
        choose = Choose(random.Random(seed).randrange)
        world = CheckedWorld(draw_scene(choose))
        world.open()
        states: list[State] = [world.state]
        while len(states) < 60 and world.go(choose) is not None:
            states.append(world.state)
        records = records_of_world(world)
        begins = [record.began for record in records[1:]]  # a response that begins after a record is noted in the next
        told = list(moments(records))
        for state, moment, began in zip(states, told, begins, strict=False):
            after = moment.state if began is None else begun(moment.state, began)
            assert after == state, (seed, moment.record.number)
            changed = {change.field.partition(".")[0].partition("[")[0] for change in moment.changes}
            differ = {name for name in NAMES if getattr(moment.before, name) != getattr(moment.state, name)}
            assert changed <= differ, (seed, moment.record.number)
            assert differ - changed <= {"plugin_states"}, "states of plugins in another order are the same by name"
        number = 1 + seed % len(records)
        assert at(records, number).state == told[number - 1].state
