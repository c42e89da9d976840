"""With a journal that is submitted to, a session has no task while a record is being written."""

import logging
from collections.abc import Sequence
from functools import partial

import pytest
import trio
import trio.testing

from agentrail import open_supervisor
from agentrail.errors import Fenced, JournalFailed, NothingWritten, SessionParked
from agentrail.journals import Claim, Record
from agentrail.ports.journal import OnWritten, RecordWithStates, Withdraw, changed
from agentrail.runtime.inbox.end_reason import TAKEN
from agentrail.testing import ScriptedModel
from tests.kit import Failpoint
from tests.runtime.journals import BROKEN, TestJournal
from tests.runtime.poison import crash_this_step
from tests.runtime.world import spec_of


class Queued(TestJournal):
    """Writes what is submitted to it when the test says so."""

    __module__ = "agentrail.testing"  # else it is a stranger's, to which sessions append
    submits = True
    is_direct = False

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Claim, int, tuple[Record, ...], OnWritten]] = []
        self.withdrawn = 0

    def submit(
        self, claim: Claim, expected: int, entries: Sequence[RecordWithStates], written: OnWritten
    ) -> Withdraw | None:
        submission = (claim, expected, changed(entries), written)
        self.waiting.append(submission)

        def withdraw() -> bool:
            if submission not in self.waiting:
                return False
            self.waiting.remove(submission)
            self.withdrawn += 1
            return True

        return withdraw

    async def write(self, error: Exception | None = None) -> None:
        """Write what waits first, and tell of it; of *error*, as if that was not known."""
        claim, expected, records, written = self.waiting.pop(0)
        try:
            await self.append(claim, expected, records)
        except Fenced as fenced:
            error = fenced
        written(records if error is None else error)

    def fail(self, error: Exception) -> None:
        """Tell of what waits first that it could not be written."""
        *_, written = self.waiting.pop(0)
        written(error)

    async def write_all(self) -> None:
        """Write until nobody waits."""
        while True:
            await trio.testing.wait_all_tasks_blocked()
            if not self.waiting:
                return
            await self.write()


def tasks() -> int:
    """Return how many tasks there are."""
    return trio.lowlevel.current_statistics().tasks_living


async def test_what_is_asked_is_answered_once_it_is_written_and_no_task_waits_for_that() -> None:
    journal = Queued()
    async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(spec_of(ScriptedModel(["one", "two"])))
        await journal.write_all()
        old_tasks = tasks()
        answers: list[str] = []

        async def ask(text: str) -> None:
            answers.append((await session.ask(text)).text)

        nursery.start_soon(ask, "hi")
        await trio.testing.wait_all_tasks_blocked()
        assert len(journal.waiting) == 1
        assert tasks() == old_tasks + 1  # who asks
        assert answers == []
        nursery.start_soon(ask, "and?")
        await trio.testing.wait_all_tasks_blocked()
        assert len(journal.waiting) == 1, "one step after the other"
        await journal.write_all()
        assert answers == ["one", "two"]


async def test_what_could_not_be_written_is_written_again() -> None:
    journal = Queued()
    async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(spec_of(ScriptedModel(["one"])))
        await journal.write_all()
        nursery.start_soon(partial(session.prompt, "hi"))
        await trio.testing.wait_all_tasks_blocked()
        journal.fail(NothingWritten("the disk is away"))
        await trio.sleep(1)
        await journal.write_all()
    assert [message.text for message in session.messages()] == ["hi", "one"]


async def test_what_may_have_been_written_is_not_written_twice() -> None:
    journal = Queued()
    async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(spec_of(ScriptedModel(["one"])), "s")
        await journal.write_all()
        nursery.start_soon(partial(session.prompt, "hi"))
        await trio.testing.wait_all_tasks_blocked()
        commits = journal.commits
        await journal.write(JournalFailed("write a record", "the connection broke"))
        await trio.sleep(1)
        assert journal.commits == commits + 1
        await journal.write_all()
        assert [record.number for record in await journal.read("s")] == list(range(1, journal.commits + 1))
    assert [message.text for message in session.messages()] == ["hi", "one"]


@pytest.mark.parametrize("is_written", [False, True])
async def test_a_journal_that_breaks_is_the_crash_of_the_session_which_goes_on(is_written: bool) -> None:
    journal = Queued()
    async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(spec_of(ScriptedModel(["one", "two"])))
        await journal.write_all()
        nursery.start_soon(partial(session.ask, "hi"))
        await trio.testing.wait_all_tasks_blocked()
        if is_written:
            await journal.write(BROKEN)
        else:
            journal.fail(BROKEN)
        await journal.write_all()
        (report,) = supervisor.crashes()
        assert (report.done, report.input.partition(" ")[0]) == ("restarted", "PromptSent")
    assert [message.text for message in session.messages()] == ["hi", "one"]


async def test_a_step_that_crashes_once_it_is_written_is_carried_out_by_the_next_actor() -> None:
    journal = Queued()
    async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(spec_of(ScriptedModel(["one"])))
        await journal.write_all()
        nursery.start_soon(partial(session.ask, "hi"))
        await trio.testing.wait_all_tasks_blocked()
        crash_this_step(Failpoint.APPENDED)
        await journal.write_all()
        assert [report.done for report in supervisor.crashes()] == ["restarted"]
    assert [message.text for message in session.messages()] == ["hi", "one"]


async def test_what_is_not_written_yet_when_the_session_is_killed_is_withdrawn() -> None:
    journal = Queued()
    async with trio.open_nursery() as nursery:
        async with open_supervisor(journal=journal, stop_within=1) as supervisor:
            session = await supervisor.spawn(spec_of(ScriptedModel(["one"])), "s")
            await journal.write_all()
            head = len(await journal.read("s"))

            async def ask() -> None:
                with pytest.raises(SessionParked):
                    await session.prompt("hi")

            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            assert len(journal.waiting) == 1
        assert (journal.waiting, journal.withdrawn) == ([], 1)
        assert len(await journal.read("s")) == head


async def test_what_is_being_written_when_the_session_is_killed_is_waited_for() -> None:
    journal = Queued()
    async with trio.open_nursery() as nursery:

        async def write_late() -> None:
            await trio.sleep(1.5)
            await journal.append(claim, expected, records)
            written(records)

        async with open_supervisor(journal=journal, stop_within=5) as supervisor:
            session = await supervisor.spawn(spec_of(ScriptedModel(["one"])), "s")
            await journal.write_all()
            nursery.start_soon(session.prompt, "hi")
            await trio.testing.wait_all_tasks_blocked()
            claim, expected, records, written = journal.waiting.pop()  # it has begun
            nursery.start_soon(write_late)
    assert [record.number for record in await journal.read("s")][: expected + 1] == list(range(1, expected + 2))


async def test_one_that_was_left_behind_while_it_was_written_ends_after_that() -> None:
    journal, model = Queued(), ScriptedModel(["one"])
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(SessionParked):
                await session.prompt("hi")

        async def write_late() -> None:
            await trio.sleep(1)
            on_written(records)

        async with open_supervisor(journal=journal, stop_within=5) as supervisor:
            session = await supervisor.spawn(spec_of(model, shutdown=0.2), "s")
            await journal.write_all()
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            *_, records, on_written = journal.waiting.pop()  # it has begun
            nursery.start_soon(write_late)
            began = trio.current_time()
        assert trio.current_time() - began == pytest.approx(1)
        await trio.testing.wait_all_tasks_blocked()
    assert model.requests == []  # it is over: nobody would hear the answer


async def test_what_raises_while_the_end_of_a_write_is_told_is_the_crash_of_the_session() -> None:
    journal = Queued()

    def broken(_: logging.LogRecord) -> bool:
        log.removeFilter(broken)
        raise OSError

    log = logging.getLogger("agentrail.journal")
    async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(spec_of(ScriptedModel(["one"])))
        await journal.write_all()
        nursery.start_soon(session.prompt, "hi")
        await trio.testing.wait_all_tasks_blocked()
        log.addFilter(broken)
        journal.fail(NothingWritten("the disk is away"))
        await journal.write_all()
        assert [report.done for report in supervisor.crashes()] == ["restarted"]
    assert [message.text for message in session.messages()] == ["hi", "one"]


async def test_what_is_written_before_a_takeover_is_answered_when_a_renewal_tells_of_that_first() -> None:
    journal = Queued()
    answered: list[bool] = []
    async with trio.open_nursery() as nursery, open_supervisor(journal=journal, lease=30.0) as supervisor:
        session = await supervisor.spawn(spec_of(ScriptedModel(["one"])), "s")
        await journal.write_all()

        async def ask() -> None:
            answered.append(bool((await session.prompt("hi")).ref))

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        claim, expected, records, on_written = journal.waiting.pop()
        await journal.append(claim, expected, records)
        await journal.claim("s", "elsewhere", take_over=True)
        await trio.sleep(20)  # until the leases are renewed
        on_written(records)
        await trio.testing.wait_all_tasks_blocked()
        assert answered == [True]
        assert supervisor.sessions() == ()


async def test_one_that_is_taken_over_while_it_writes_ends() -> None:
    journal = Queued()
    async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(spec_of(ScriptedModel(["one"])), "s")
        await journal.write_all()

        async def ask() -> None:
            with pytest.raises(Fenced):
                await session.ask("hi")

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        async with session.monitor() as monitor:
            await journal.claim("s", "elsewhere", take_over=True)
            await journal.write()
            assert (await monitor.wait()).reason == TAKEN
