"""What a parent hears of a sub-agent that has nothing to tell, or that is gone before it has."""

import trio

from agentrail import Task
from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.inputs import SubagentStarted
from agentrail.errors import Fenced
from agentrail.events import SubagentEnd
from agentrail.ports.tool import Offer
from agentrail.runtime.actor.parent_link import ParentLink
from agentrail.testing import call, say
from tests.kit import AnyInput
from tests.runtime.families import agent, task
from tests.runtime.journals import TestJournal
from tests.runtime.tools import slow
from tests.runtime.world import World, open_world


async def test_a_step_that_changes_nothing_for_the_parent_is_not_reported(world: World) -> None:
    step = Step((await world.spawn([])).inspect())
    posted: list[AnyInput] = []
    link = ParentLink(Task("p.c3", "finder", "look", "c3"), posted.append)
    link.tell(step)
    link.tell(step)
    assert [type(value) for value in posted] == [SubagentStarted]


async def test_a_sub_agent_that_another_supervisor_takes_in_its_turn_is_an_error_of_its_call() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        finder = agent([say(calls=[call("slow")]), "never"], tools=[slow(seconds=1)])
        session = await world.spawn([task(), "fine"], "p", agents={"finder": finder})
        journal.failing = lambda record: (
            Fenced("p.c3", 2) if record.session_id == "p.c3" and record.number > 4 else None
        )
        assert (await session.ask("go")).text == "fine"
        text = world.heard(session).only(SubagentEnd).text
        assert text.startswith("the sub-agent failed: session `p.c3` was claimed by another holder")


class Slow:
    """A source of tools that takes a second to offer none."""

    name = "far"

    def check(self) -> None:
        pass

    async def supply(self, working_dir: str, offer: Offer) -> None:
        await trio.sleep(1)
        await offer(())
        await trio.sleep_forever()


async def test_a_sub_agent_that_is_stopped_while_its_tools_are_awaited_is_an_error_of_its_call(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent(["never"], tools=[Slow()])})
    await session.prompt("go")
    await trio.sleep(0.5)
    await world.supervisor.session("p.c3").stop()
    await trio.sleep(5)
    text = world.heard(session).only(SubagentEnd).text
    assert text.startswith("the sub-agent failed: session `p.c3` has ended (it has ended at once)")
