"""A test in virtual time: an hour passes at once, and the model says what its script has.

Trio's `MockClock` jumps to the next time for which somebody waits. With pytest-trio it is the fixture
`autojump_clock`.

    the tool ran for an hour
    the model was told: tea
    it took less than a second
"""

import time

import trio
from trio.testing import MockClock

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.testing import ScriptedModel, call, say


@tool(timeout=7200)
async def brew(minutes: int) -> str:
    """Brew tea."""
    await trio.sleep(60 * minutes)
    return "tea"


async def test_tea_is_served_after_an_hour() -> None:
    model = ScriptedModel([say(calls=[call("brew", {"minutes": 60})]), "Here is your tea."])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=[brew]))
        began = trio.current_time()
        reply = await session.ask("Tea, please.")
        assert reply.text == "Here is your tea."
        assert trio.current_time() - began >= 3600
        print("the tool ran for an hour")
        print("the model was told:", model.requests[1].messages[-1].text)


if __name__ == "__main__":
    began = time.monotonic()
    trio.run(test_tea_is_served_after_an_hour, clock=MockClock(autojump_threshold=0.01))
    print("it took less than", "a second" if time.monotonic() - began < 60 else "an hour")
