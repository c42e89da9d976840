"""A session is rebuilt from its records, and one that does not come out as it did then is refused."""

import pytest

from agentrail.core.inputs import StreamBegan, StreamEnded
from agentrail.core.rebuilding import redo
from agentrail.core.state import State
from agentrail.errors import ReplayDiffers
from agentrail.testing.world import Record, World
from tests.core.driving import answer, begin, hello, session


def recorded() -> tuple[World, State, Record]:
    """Return a session, its state before its last record, and that record."""
    world = session()
    before = world.state
    world.apply(hello())
    return world, before, world.records[-1]


def test_a_record_leads_to_the_state_that_was() -> None:
    world, before, record = recorded()
    assert redo(before, record.arrival, record.rulings, record.events) == world.state


def test_a_stream_that_had_begun_is_begun_again() -> None:
    world, _, _ = recorded()
    before = world.state
    begin(world)
    began = world.records[-1].arrival.input
    assert isinstance(began, StreamBegan)
    answer(world, text="hello to you")
    record = world.records[-1]
    assert isinstance(record.arrival.input, StreamEnded)
    again = redo(before, record.arrival, record.rulings, record.events, began.request_id)
    assert again == world.state


def test_other_events_than_then_are_refused() -> None:
    _, before, record = recorded()
    with pytest.raises(ReplayDiffers) as refused:
        redo(before, record.arrival, record.rulings, record.events[:-1], number=2)
    assert refused.value == ReplayDiffers("s", 2, "its events")


def test_rulings_that_nobody_asks_for_are_refused() -> None:
    _, before, record = recorded()
    with pytest.raises(ReplayDiffers) as refused:
        redo(before, record.arrival, (*record.rulings, record.rulings[-1]), record.events, number=2)
    assert refused.value == ReplayDiffers("s", 2, "its rulings: some were not asked for")
