"""The cost of ending a session does not depend on the number of sessions; it is measured in opcodes."""

from statistics import fmean

import pytest
import trio
import trio.testing

from agentrail import SessionSpec, Supervisor, open_supervisor
from agentrail.models import EmitChunk, ModelRequest, Response, TextChunk
from tests.opcodes import counted_opcodes
from tests.runtime.world import settle

pytestmark = pytest.mark.long

FEW, MANY = 20, 320
WAYS = ("left", "stopped", "asleep")


class Silent:
    """A model whose response begins and does not end."""

    name = "silent"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        emit(TextChunk("hm"))
        await trio.sleep_forever()
        raise AssertionError


async def _spawn(supervisor: Supervisor, count: int, way: str) -> None:
    """Start sessions that have timers and, unless they sleep, a response that does not end."""
    model = Silent()
    for _ in range(count):
        session = await supervisor.spawn(SessionSpec(model=model, hibernate_after=1.0 if way == "asleep" else 1000.0))
        if way != "asleep":
            await session.prompt("go")
    await settle()


async def _opcodes_per_session(count: int, way: str) -> float:
    """Return the opcodes that the end of one session takes, on average."""
    ends = FEW if way == "stopped" else count
    async with open_supervisor(seed=1) as supervisor:
        await _spawn(supervisor, count, way)
        if way == "asleep":
            await trio.sleep(5)
            assert {child.state for child in supervisor.tree().children} == {"asleep"}
        leaving = supervisor.sessions()[:ends] if way == "stopped" else ()
        with counted_opcodes() as counted:
            for session in leaving:
                await session.stop()
            if not leaving:
                await supervisor._sessions.root.wind_down()  # noqa: SLF001 - the first half of leaving
                await settle()
    return counted[0] / ends


@pytest.mark.parametrize("way", WAYS)
async def test_the_end_of_a_session_costs_the_same_among_many(way: str) -> None:
    # one time among few varies by 4 %, as the order does in which Trio runs tasks
    few = fmean([await _opcodes_per_session(FEW, way) for _ in range(8)])
    many = await _opcodes_per_session(MANY, way)
    assert many <= 1.03 * few, f"{way}: {few:.0f} opcodes among {FEW}, {many:.0f} among {MANY}"
