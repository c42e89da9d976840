"""`ask` with a command id reads the journal only if the id was answered before, and its turn is over."""

import pytest
import trio

from agentrail import Reply, open_supervisor
from agentrail.journals import Record
from agentrail.testing import ScriptedModel, say
from tests.profiles import CAMPAIGN
from tests.runtime.journals import TestJournal
from tests.runtime.world import spec_of

TURNS = 1_500 if CAMPAIGN else 300


class Reads(TestJournal):
    """A journal that counts how often records are read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        self.reads += 1
        return await super().read(session_id, after, limit)


async def test_records_are_read_only_for_a_repeated_id_whose_turn_is_over() -> None:
    journal = Reads()
    async with open_supervisor(journal=journal) as supervisor:
        model = ScriptedModel(["one", "two", say("three", delay=1.0), "four"])
        session = await supervisor.spawn(spec_of(model), "s")
        journal.reads = 0
        for name in ("a", "b"):
            await session.ask(name, command=name)
        assert journal.reads == 0
        assert (await session.ask("a", command="a")).text == "one"
        assert journal.reads == 1
        answers: list[Reply] = []

        async def ask(text: str) -> None:
            answers.append(await session.ask(text, command=text))

        async with trio.open_nursery() as nursery:
            for text in ("c", "d"):  # the second one waits in the queue
                nursery.start_soon(ask, text)
                await trio.sleep(0.1)
                nursery.start_soon(ask, text)
                await trio.sleep(0.1)
        assert [answer.text for answer in answers] == ["three", "three", "four", "four"]
        assert journal.reads == 1
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec_of(ScriptedModel(["five"])))
        journal.reads = 0
        assert (await session.ask("e", command="e")).text == "five"
        assert journal.reads == 0
        assert (await session.ask("b", command="b")).text == "two"
        assert journal.reads == 2  # in pieces, the last one first


class Fetched(Reads):
    """A journal that notes how many records it has returned."""

    def __init__(self) -> None:
        super().__init__()
        self.records = 0

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        records = await super().read(session_id, after, limit)
        self.records += len(records)
        return records


@pytest.mark.long
async def test_a_new_id_costs_no_record_however_long_the_session_is() -> None:
    journal = Fetched()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of(ScriptedModel(["fine"], repeat_last=True)), "s")
        await session.ask("first", command="first")
        for _ in range(TURNS):
            await session.ask("go on")
        journal.records = 0
        assert (await session.ask("new", command="new")).text == "fine"
        assert journal.records == 0
        for name in ("first", "new"):  # the answers of these came from the journal
            assert (await session.ask(name, command=name)).text == "fine"
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec_of(ScriptedModel(["well"], repeat_last=True)))
        journal.records = 0
        assert (await session.ask("newer", command="newer")).text == "well"
        assert journal.records == 0
