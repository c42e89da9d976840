"""When a session may sleep: not before `spawn` has returned it."""

import trio
import trio.testing

from agentrail import Context, Plugin, SessionSpec, open_supervisor
from agentrail.testing import ScriptedModel
from tests.runtime.journals import TestJournal


class SlowToBegin(Plugin):
    """A plugin whose start takes longer than the idle time after which its session sleeps."""

    def init(self, ctx: Context) -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(20)


async def test_a_session_is_spawned_before_it_sleeps() -> None:
    spec = SessionSpec(model=ScriptedModel([]), plugins=[SlowToBegin()], hibernate_after=10)
    for _ in range(20):  # Trio shuffles who runs first
        async with open_supervisor(journal=TestJournal(), seed=1) as supervisor:
            await supervisor.spawn(spec)
