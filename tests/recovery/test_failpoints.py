"""At each failpoint the process dies; then it comes back, its caller repeats everything, and the result is compared.

`AGENTRAIL_PROFILE=campaign` dies there each time that a story comes by, with each effect class.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
import trio
import trio.testing

from agentrail import Accepted, SessionHandle
from agentrail.journals import SqliteJournal
from agentrail.models import ToolMessage, UserMessage
from agentrail.ports import failpoints
from agentrail.runtime.work.stored_messages import StoredPast
from agentrail.testing.simulator.virtual import ClockWatch, run
from agentrail.tools import EffectClass
from agentrail.values.messages import why_unfit
from tests.kit import Failpoint, prompted
from tests.profiles import CAMPAIGN
from tests.recovery.eraser import ERASED, REDACTED
from tests.recovery.expected import STORED, TOLD, Stored, Told
from tests.recovery.mortal import SESSION, World, live
from tests.recovery.stories import STORIES
from tests.recovery.writer import LONG, REACHED
from tests.runtime.world import check_records
from tests.sandboxes.kept_files.mortal import STEPS

T = TypeVar("T")

STRIDE = 1 if CAMPAIGN else 25
"""Step in the list of places that are not in the table: only every `STRIDE`-th is tried."""

EFFECTS = tuple(EffectClass)

FATES = ("may have taken effect", "unknown"), ("worked", "worked"), ("found", "found"), ("stopped", "stopped")
"""Text in the result of a call, and the fate that it means."""


class Place(NamedTuple):
    """Where a process dies."""

    story: str
    effect: EffectClass
    point: Failpoint
    times: int


def in_virtual_time(doing: Callable[[], Awaitable[T]]) -> T:
    """Run *doing* on a virtual clock, with the same order of tasks each time."""
    results: list[T] = []

    async def bounded(_: trio.testing.MockClock) -> None:
        with trio.fail_after(1000):
            results.append(await doing())

    run(0, ClockWatch(), bounded)
    return results[0]


async def runs_and_result(index: Place) -> str:
    """Die at *index* and come back; return how often the tool ran, and which result the model got."""
    story = STORIES[index.story]
    world = story.begin()
    if story.comes_back:
        await live(world, story.spec(world, index.effect), story.script, Failpoint.CALL_SPAWNED)
    await live(world, story.spec(world, index.effect), story.script, index.point, index.times)
    assert world.reached[index.point] == index.times, "it was not reached"
    session = await live(world, story.spec(world, index.effect), story.script)
    assert session is not None
    await check(world, session, index.effect)
    messages = [past.message for past in await StoredPast(world.journal, SESSION).messages(0, 1_000)]
    results = " ".join(message.text for message in messages if isinstance(message, ToolMessage))
    fate = next((fate for actual, fate in FATES if actual in results), results or "-")
    return f"{len(world.ran)} {fate}"


async def check(world: World, session: SessionHandle, effect: EffectClass) -> None:
    """Compare what the caller knows and what the tool did with the journal."""
    records = await world.journal.read(SESSION, 0, 1_000)
    stored = [envelope for record in records for envelope in record.events]
    assert [envelope.seq for envelope in stored] == list(range(1, len(stored) + 1))
    assert world.heard == stored[: len(world.heard)]
    commands = [record.command for record in records if record.command is not None]
    answers = {record.command: record.answer for record in records}
    assert sorted(commands) == sorted(set(commands))
    for command, ref in world.told.items():
        answer = answers[command]
        assert not isinstance(answer, Accepted) or answer.ref == ref
    texts = [message.text for message in session.messages() if isinstance(message, UserMessage)]
    assert texts.count("work") == 1
    assert why_unfit(session.messages()) is None
    assert len(set(world.ran)) <= 1
    assert len(world.ran) <= (1 if effect in (EffectClass.UNSAFE, EffectClass.CHECKABLE) else 2)
    assert not session.inspect().has_running_work
    await check_records(world.journal, session)


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.value)
@pytest.mark.parametrize("row", TOLD, ids=lambda row: f"{row.point.name}-{row.story}-{row.times}")
def test_a_crash_leaves_what_the_table_says(row: Told, effect: EffectClass) -> None:
    expected = {EffectClass.CHECKABLE: row.checkable, EffectClass.UNSAFE: row.unsafe}.get(effect, row.repeatable)
    if expected is not None:
        assert in_virtual_time(
            partial(runs_and_result, Place(row.story, effect, row.point, row.times))
        ) in expected.split(" or ")


async def reached(name: str, effect: EffectClass) -> Counter[Failpoint]:
    """Return how often a story reaches each failpoint."""
    story = STORIES[name]
    world = story.begin()
    if story.comes_back:
        await live(world, story.spec(world, effect), story.script, Failpoint.CALL_SPAWNED)
    await live(world, story.spec(world, effect), story.script)
    return world.reached


def places() -> Iterator[Place]:
    """Return every place that the stories reach."""
    for name, effect in product(STORIES, EFFECTS):
        for point, count in in_virtual_time(partial(reached, name, effect)).items():
            yield from (Place(name, effect, point, times) for times in range(1, count + 1))


@pytest.mark.long
def test_a_crash_loses_nothing_and_repeats_nothing_wherever_a_story_is() -> None:
    for index in list(places())[::STRIDE]:
        try:
            in_virtual_time(partial(runs_and_result, index))
        except Exception as error:
            error.add_note(f"at {index}")
            raise


@pytest.mark.long
def test_a_task_is_never_in_doubt() -> None:
    """Whether a sub-agent has started is in its own records: it is found there, or started now."""
    for point, count in in_virtual_time(partial(reached, "delegate", EffectClass.UNSAFE)).items():
        for times in range(1, count + 1, 1 if CAMPAIGN else 4):
            index = Place("delegate", EffectClass.UNSAFE, point, times)
            assert in_virtual_time(partial(runs_and_result, index)) == "0 let me see", index


# The thread that writes


@cache
def ended(folder: Path) -> dict[str, int]:
    """End a process at each place of the table of a journal in *folder*; return the exit status by place."""
    texts = [f"{row.point.name}:{row.times}" for row in STORED]
    command = [sys.executable, "-m", "tests.recovery.writer", str(folder), *texts]
    stdout = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own program
    statuses = dict(line.split() for line in stdout.splitlines())
    return {index: int(status) for index, status in statuses.items()}


@pytest.fixture(scope="module")
def ended_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder in which processes have ended."""
    return tmp_path_factory.mktemp("ended")


@pytest.mark.long
@pytest.mark.parametrize("row", STORED, ids=lambda row: f"{row.point.name}-{row.times}")
async def test_a_crash_of_what_writes_leaves_what_the_table_says(row: Stored, ended_in: Path) -> None:
    text = f"{row.point.name}:{row.times}"
    assert ended(ended_in)[text] == REACHED, "it was not reached"
    folder = ended_in / text
    journal = SqliteJournal(folder / "agentrail.db")
    records = await journal.read("s")
    snapshot = (await journal.latest("s")).snapshot
    claim = await journal.claim("s", "test")
    assert await journal.append(claim, len(records), (prompted("s", len(records) + 1),)) == len(records) + 1
    await journal.close()
    assert (claim.epoch - 1, len(records), snapshot is not None) == row[2:]
    assert records == (prompted("s", 1), prompted("s", 2, LONG), prompted("s", 3))[: len(records)]
    done = (folder / "done").read_text().split("\n")[:-1] if (folder / "done").exists() else []
    acknowledged = sum(what.startswith("record") for what in done)
    assert acknowledged <= len(records)
    assert ("snapshot" in done) <= row.snapshot
    assert ("claim" in done) <= bool(row.epoch)


def test_each_failpoint_is_in_a_table() -> None:
    # where tables are brought up to date, processes end in tests/adapters/journals/test_upgrades.py
    upgrading = {Failpoint.TABLE_UPGRADED}
    named = (
        {row.point for row in TOLD}
        | upgrading
        | STEPS.keys()
        | {row.point for row in STORED}
        | {point for point, _ in (*ERASED, *REDACTED)}
    )
    assert named == set(Failpoint)
    assert len(Failpoint) >= 40


@pytest.mark.long
def test_the_code_names_failpoints_that_exist_and_each_of_them() -> None:
    package = Path(failpoints.__file__).parents[1]
    named = {
        name for file in package.rglob("*.py") for name in re.findall(r'\breach\("(\w+)"\)', file.read_text("utf-8"))
    }
    assert named == set(Failpoint.__members__)
