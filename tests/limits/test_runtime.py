"""What must not happen at a limit: no events are merged that belong apart, and no session ends for a small loss."""

import pytest
import trio

from agentrail.errors import CommitUnknown, Fenced, JournalFailed, JournalFull
from agentrail.events import AgentStart, Cursor, Gap, MessageDelta, ThinkingDelta
from agentrail.journals import Claim, Snapshot
from agentrail.runtime.actor.journal_log import SNAPSHOT_EVERY
from tests.limits.shell import Keeping
from tests.runtime.recorded import Session
from tests.runtime.world import open_world, settle

FULL = "no space"


class NoSnapshots(Keeping):
    """A journal that can store records and no snapshots."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        self.kept.append(snapshot.number)
        await trio.lowlevel.checkpoint()
        raise self.error


@pytest.mark.long
@pytest.mark.parametrize(
    "error",
    [JournalFull(FULL), JournalFailed("keep a snapshot", FULL), Fenced("s", 1), OSError(FULL), ValueError(FULL)],
    ids=lambda value: type(value).__name__,
)
async def test_a_snapshot_that_cannot_be_kept_ends_nobody(error: Exception) -> None:
    journal = NoSnapshots(error)
    async with open_world(journal) as world:
        session, other = await world.spawn(["still here"]), await world.spawn(["so is it"])
        while len(await journal.read(session.id)) < SNAPSHOT_EVERY:
            await session.abort()
        await settle()
        assert journal.kept == [SNAPSHOT_EVERY]
        assert (await session.ask("go")).text == "still here"
        assert (await other.ask("go")).text == "so is it"
        assert world.supervisor.crashes() == ()


async def test_a_snapshot_of_which_nobody_knows_whether_it_is_written_ends_everything() -> None:
    """After a commit that may have failed, a further record could overwrite one that was stored."""
    journal = NoSnapshots(CommitUnknown("s"))

    async def until_it_ends() -> None:
        async with open_world(journal) as world:
            session = await world.spawn([])
            for _ in range(2 * SNAPSHOT_EVERY):
                await session.abort()

    with pytest.RaisesGroup(CommitUnknown, allow_unwrapped=True, flatten_subgroups=True):
        await until_it_ends()
    assert journal.kept == [SNAPSHOT_EVERY]


async def test_deltas_on_both_sides_of_a_durable_event_stay_apart() -> None:
    """This holds for a subscriber that does not get the durable event in between, too."""
    session = Session()
    async with session.subscribe(types=(MessageDelta,), capacity=1) as events:
        session.publish(AgentStart("p"))
        session.publish_ephemeral(MessageDelta("before, "))
        session.publish_ephemeral(MessageDelta("merged"))
        session.publish(AgentStart("q"))
        session.publish_ephemeral(MessageDelta("after"))
        heard = [await anext(events) for _ in range(2)]
    assert [envelope.event for envelope in heard] == [MessageDelta("before, merged"), MessageDelta("after")]
    assert [envelope.cursor for envelope in heard] == [Cursor(1, 2), Cursor(2, 1)]


async def test_a_delta_takes_in_none_of_another_kind_and_no_durable_event() -> None:
    session = Session()
    async with session.subscribe(capacity=2) as events:
        session.publish(AgentStart("p"))
        session.publish_ephemeral(ThinkingDelta("hm"))
        session.publish_ephemeral(MessageDelta("well"))
        session.publish(AgentStart("q"))
        session.publish_ephemeral(MessageDelta("yes"))
        heard = [(await anext(events)).event for _ in range(5)]
    assert heard == [AgentStart("p"), ThinkingDelta("hm"), MessageDelta("well"), AgentStart("q"), MessageDelta("yes")]


async def test_nothing_is_merged_for_who_would_rather_have_a_gap() -> None:
    session = Session()
    async with session.subscribe(policy="drop", capacity=1) as events:
        session.publish_ephemeral(MessageDelta("a"))
        session.publish_ephemeral(MessageDelta("b"))
        assert [(await anext(events)).event for _ in range(2)] == [MessageDelta("a"), Gap(0, 1, 0, 2)]
