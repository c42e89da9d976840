"""A call of `shell` that does not want to end: however its session takes leave of it, none of its tree is alive."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from agentrail import SessionHandle, open_supervisor
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import standard_tools
from tests.patience import within
from tests.runtime.world import spec_of
from tests.sandboxes.kinds import WITH_COMMANDS, Opened
from tests.sandboxes.test_trees import STUBBORN, Sleepers

pytestmark = pytest.mark.long

TREES = ("ignores TERM", "leader obeys, grandchild does not", "setsid", "double fork")


async def aborted(session: SessionHandle) -> None:
    await session.abort()


async def steered(session: SessionHandle) -> None:
    await session.steer("rather something else")


async def stopped(session: SessionHandle) -> None:
    await session.stop("enough")


async def left(_: SessionHandle) -> None:
    """The supervisor ends with its block."""
    await trio.lowlevel.checkpoint()


ENDS = [aborted, steered, stopped, left]


@pytest.mark.parametrize("opened", WITH_COMMANDS)
@pytest.mark.parametrize("end", ENDS)
async def test_none_is_alive_a_second_later(
    tmp_path: Path, opened: Opened, end: Callable[[SessionHandle], Awaitable[None]]
) -> None:
    sleepers = {kind: Sleepers() for kind in TREES}
    try:
        with trio.move_on_after(30) as limit:
            async with open_supervisor() as supervisor, trio.open_nursery() as nursery:
                for kind, made in sleepers.items():
                    line, number = STUBBORN[kind]
                    asked = call("shell", {"command": line.replace("{sleep}", made.sleep)})
                    spec = spec_of(
                        ScriptedModel([say(calls=[asked]), "then not"]),
                        tools=standard_tools(),
                        sandbox=opened(tmp_path),
                    )
                    session = await supervisor.spawn(spec)
                    await session.prompt("go")
                    await made.wait(number)
                began = trio.current_time()
                for session in supervisor.sessions():
                    nursery.start_soon(end, session)
                if end is not left:
                    for made in sleepers.values():
                        await made.wait(0)
                    assert trio.current_time() - began < within(1)
            if end is left:
                assert trio.current_time() - began < within(1)
        assert not limit.cancelled_caught
        assert {kind: made.alive() for kind, made in sleepers.items()} == {kind: [] for kind in TREES}
    finally:
        for made in sleepers.values():
            made.end()
