"""A session is brought back by what its steps changed; an audit makes the steps again, and tells what differs."""

from agentrail import State
from agentrail.core.audit import differences
from agentrail.core.machine.requests import sent_request
from agentrail.core.vocabulary.changes import Change, fold
from agentrail.core.vocabulary.effects import StartRequest
from agentrail.journals import Difference
from agentrail.testing.world.world import WorldRecord
from tests.core.driving import back, begin, hello, session
from tests.machinery.worlds.checked_world import CheckedWorld


def recorded() -> tuple[CheckedWorld, State, WorldRecord]:
    """Return a session, its state before its last record, and that record."""
    world = session()
    old = world.state
    world.apply(hello())
    return world, old, world.records[-1]


def audited(old: State, record: WorldRecord) -> tuple[State, tuple[Difference, ...]]:
    after = fold(old, record.change)
    return after, differences(old, after, record)


def test_a_change_has_a_field_for_each_of_the_state() -> None:
    assert Change.__struct_fields__ == State.__struct_fields__


def test_a_record_leads_to_the_state_that_was() -> None:
    world, old, record = recorded()
    assert fold(old, record.change) == world.state
    assert audited(old, record) == (world.state, ())


def test_the_request_that_was_sent_is_read_from_the_states_around_its_step() -> None:
    world = session()
    old, step = world.state, world.apply(hello())
    (sent,) = [effect.request for effect in step.effects if isinstance(effect, StartRequest)]
    assert sent_request(old, world.state) == sent
    assert sent_request(world.state, world.state) is None


def test_a_stream_that_had_begun_is_begun_again() -> None:
    world, _, _ = recorded()
    old = world.state
    request_id = begin(world)
    world.apply(back(world))
    record = world.records[-1]
    assert record.began == request_id
    assert audited(old, record) == (world.state, ())


def test_other_events_than_then_are_found() -> None:
    world, old, record = recorded()
    state, (difference,) = audited(old, record.but(events=record.events[:-1]))
    assert state == world.state
    assert (difference.record, difference.what) == (2, "events")
    assert "RequestStart" in difference.now
    assert "RequestStart" not in difference.recorded


def test_rulings_that_nobody_asks_for_are_found() -> None:
    _, old, record = recorded()
    _, actual = audited(old, record.but(rulings=(*record.rulings, record.rulings[-1])))
    hooks = ", ".join(ruling.hook for ruling in (*record.rulings, record.rulings[-1]))
    assert actual == (Difference(2, "rulings", hooks, "its rulings: some were not asked for"),)


def test_another_field_of_the_state_is_found() -> None:
    _, old, record = recorded()
    state, actual = audited(old, record.but(change=record.change.but(last_id=77)))
    assert (state.last_id, [(item.what, item.recorded) for item in actual]) == (77, [("state.last_id", "77")])


def test_a_step_that_cannot_be_made_any_more_is_found() -> None:
    _, old, record = recorded()
    _, (difference,) = audited(old.but(phase=None), record)
    assert (difference.what, difference.recorded, difference.now) == ("step", "PromptSent", "KeyError: None")
