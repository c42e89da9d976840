"""The list of sessions in a journal: which of them have work under way."""

from agentrail.journals import StoredSession
from agentrail.testing import Holder, call, say, stall
from tests.runtime.tools import quick
from tests.runtime.world import World


async def test_what_is_under_way_is_told_and_what_rests_is_not(world: World) -> None:
    streaming = await world.spawn([stall(after=1)], "streaming")
    await streaming.prompt("go")
    idle = await world.spawn(["done"], "idle")
    await idle.ask("go")
    ended = await world.spawn(["done"], "ended")
    await ended.ask("go")
    await ended.stop()
    held = await world.spawn([say(calls=[call("quick")])], "held", tools=[quick], plugins=[Holder()])
    assert (await held.ask("go")).held
    stored = {session.session_id: session for session in await world.journal.sessions()}
    assert {name: (session.at_work, session.ended) for name, session in stored.items()} == {
        "ended": (False, True),
        "held": (False, False),
        "idle": (False, False),
        "streaming": (True, False),
    }
    idle_one = stored["idle"]
    assert idle_one == StoredSession("idle", idle_one.head, about=idle_one.about, active=idle_one.active)
    assert idle_one.about.created <= idle_one.active
    assert stored["held"].due is not None
