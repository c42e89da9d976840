"""Sessions that a test drives by hand, as the records that a journal would have of them."""

from agentrail.core.vocabulary.changes import change
from agentrail.journals import Record
from agentrail.testing import World
from tests.cells.bench import Bench
from tests.kit import Arrival, TimerFired


def records_of(bench: Bench) -> list[Record]:
    """Return the records of the session on *bench*; what its test has changed by hand is a record of its own."""
    records: list[Record] = []
    state = bench.first
    for got in bench.got:
        if got.before is not state:
            by_hand = Arrival(TimerFired("by hand"), got.arrival.at)
            records.append(Record("s", len(records) + 1, by_hand, change=change(state, got.before)))
        record = Record(
            "s",
            len(records) + 1,
            got.arrival,
            got.step.rulings,
            got.step.events,
            tuple(type(effect).__name__ for effect in got.step.effects),
            change(got.before, got.step.state),
        )
        records.append(record)
        state = got.step.state
    return [records[0].but(opening=bench.first), *records[1:]]


def records_of_world(world: World) -> list[Record]:
    """Return the records of a random session, which has made a step at least."""
    records = [
        Record("s", one.number, one.arrival, one.rulings, one.events, one.effects, one.change, one.began)
        for one in world.records
    ]
    return [records[0].but(opening=world.first), *records[1:]]
