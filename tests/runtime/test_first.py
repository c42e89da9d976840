from agentrail.testing import call, say
from tests.runtime.tools import quick
from tests.runtime.world import World


async def test_a_turn_with_a_tool(world: World) -> None:
    session = await world.spawn([say("Let me see.", calls=[call("quick")]), "It is done."], tools=[quick()])
    reply = await session.ask("do it")
    assert reply.text == "It is done."
    assert reply.stop_reason == "end"
    assert world.heard(session).said == "Let me see.It is done."
