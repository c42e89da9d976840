"""Callers cannot flood a session: equal calls share one letter, and too many others are refused."""

from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio

from agentrail import SessionHandle, Task
from agentrail.core.vocabulary.commands import Kill
from agentrail.core.vocabulary.inputs import ElsewhereUsed
from agentrail.errors import AgentrailError, MailboxFull, UnknownApproval
from agentrail.events import AgentAbort, StreamStalled
from agentrail.models import Usage
from agentrail.runtime.actor.parent_link import ParentLink
from agentrail.runtime.inbox.mailbox import MAX_MESSAGES
from agentrail.testing import say, stall
from tests.runtime.journals import TestJournal
from tests.runtime.world import World, open_world, settle

MANY = 300


async def at_once(calls: Sequence[Callable[[], Awaitable[object]]]) -> list[AgentrailError | None]:
    """Make the calls at the same time, and return the error that each raised, or `None`."""
    raised: list[AgentrailError | None] = [None] * len(calls)
    count = len(calls)

    async def make(index: int) -> None:
        nonlocal count
        try:
            await calls[index]()
        except AgentrailError as error:
            raised[index] = error
        count -= 1

    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            for index in range(len(calls)):
                nursery.start_soon(make, index)
    assert count == 0
    return raised


@pytest.mark.parametrize("kill_tools", ["none", "killable", "all"])
async def test_aborts_with_reasons_of_their_own_are_all_answered_and_few_are_written(
    world: World, kill_tools: Kill
) -> None:
    session = await world.spawn([stall(after=1), "ok"])
    await session.prompt("go")
    await settle()
    calls = [lambda n=n: session.abort(f"reason {n}", kill_tools=kill_tools) for n in range(MANY)]
    assert await at_once(calls) == [None] * MANY
    await settle()
    aborts = world.heard(session).of(AgentAbort)
    assert 1 <= len(aborts) <= 3
    assert all(abort.reason is not None and abort.reason.startswith("reason ") for abort in aborts)
    assert (await session.ask("again")).text == "ok"


async def test_each_command_id_of_an_abort_has_an_answer_of_its_own_or_is_refused() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn([])
        journal.commit = 0.1
        calls = [lambda n=n: session.abort("same", command=f"c{n}") for n in range(MANY)]
        raised = await at_once(calls)
        refused = [error for error in raised if error is not None]
        assert {type(error) for error in refused} == {MailboxFull}
        assert MAX_MESSAGES <= MANY - len(refused) <= MAX_MESSAGES + 2
        answered = next(index for index, error in enumerate(raised) if error is None)
        old_count = len(await journal.read(session.id))
        await session.abort("same", command=f"c{answered}")
        assert len(await journal.read(session.id)) == old_count


@pytest.mark.parametrize("kind", ["steer", "approve", "reject", "respond"])
async def test_what_callers_say_to_a_session_that_is_held_up_is_refused_in_time(world: World, kind: str) -> None:
    session = await world.spawn([stall(after=1), "ok"], max_steering_queue=2 * MANY)
    await session.prompt("go")
    await settle()
    await session.suspend()

    def send(handle: SessionHandle, number: int) -> Awaitable[object]:
        match kind:
            case "steer":
                return handle.steer(f"{number}")
            case "approve":
                return handle.approve(f"{number}")
            case "reject":
                return handle.reject(f"{number}")
            case _:
                return handle.respond(f"{number}", "yes")

    full: list[MailboxFull] = []

    async def say_it(number: int) -> None:
        try:
            await send(session, number)
        except MailboxFull as error:
            full.append(error)
        except UnknownApproval:
            return

    async with trio.open_nursery() as nursery:
        for number in range(MANY):
            nursery.start_soon(say_it, number)
        await settle()
        assert len(full) >= MANY - MAX_MESSAGES - 1
        await session.abort()
        await session.resume()
    await settle()
    assert session.status().phase == "idle"


async def test_a_stall_that_waits_is_reported_once_however_long_it_waits(world: World) -> None:
    session = await world.spawn([stall(after=1), say("ok")])
    await session.prompt("go")
    await settle()
    await session.suspend()
    await trio.sleep(3600)
    (view,) = world.supervisor.tree().children
    assert view.mailbox == (0, 1, 0)
    await session.resume()
    await settle()
    assert [event.count for event in world.heard(session).of(StreamStalled)] == [1]
    await trio.sleep(40)
    assert [event.count for event in world.heard(session).of(StreamStalled)] == [1, 2]


def test_what_is_used_elsewhere_is_one_letter_until_the_sub_agent_has_heard_of_it() -> None:
    link = ParentLink(Task("child", "agent", "words", "c1"), lambda _: None)
    assert [link.note_elsewhere(ElsewhereUsed(Usage(tokens))) for tokens in (0, 10, 20, 20, 30)] == [
        False,
        True,
        False,
        False,
        False,
    ]
    assert link.latest() == ElsewhereUsed(Usage(30))
    assert link.note_elsewhere(ElsewhereUsed(Usage(40)))
