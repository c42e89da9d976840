"""A session is rebuilt from its records; if the result differs from what was recorded, it is refused."""

import pytest

from agentrail.core.machine.step import redo
from agentrail.core.vocabulary.effects import OpenStream
from agentrail.core.vocabulary.state import State
from agentrail.errors import ReplayDiffers
from agentrail.testing.world.plausible import World, WorldRecord
from tests.core.driving import back, begin, hello, session


def recorded() -> tuple[World, State, WorldRecord]:
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
    began = begin(world)
    (stream,) = began.effects
    assert isinstance(stream, OpenStream)
    world.apply(back(world))
    record = world.records[-1]
    again = redo(before, record.arrival, record.rulings, record.events, stream.request_id)
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
