"""The queue: prompts that come during a turn wait for its end; one may be taken back, and an abort leaves the others.

With a `command` id, a prompt that is sent again is the same prompt, and its answer is there.

    started queued 1 queued 2
    waiting: ['two', 'three']
    waiting: ['three']
    three is answered: The third.
"""

import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.testing import ScriptedModel, stall


async def main() -> None:
    model = ScriptedModel([stall(), "The third."])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model))
        one, two, three = [await session.prompt(text, command=text) for text in ("one", "two", "three")]
        print(one.status, two.status, two.position, three.status, three.position)
        print("waiting:", [prompt.text for prompt in session.queued()])
        await session.withdraw(two.ref)
        print("waiting:", [prompt.text for prompt in session.queued()])
        await session.abort("enough of one")
        print("three is answered:", (await session.ask("three", command="three")).text)


trio.run(main)
