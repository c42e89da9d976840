"""Tasks in the background: two sub-agents search at the same time, and the program waits for the first answer.

The one that is not needed any more is cancelled.

    In the kitchen.
    still running: ['lead.c4']
    and then: it was stopped before it had an answer
"""

import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.models import Text
from agentrail.testing import ScriptedModel, call, say


def finder(name: str, answer: str, seconds: float) -> SessionSpec:
    model = ScriptedModel([say(answer, delay=seconds)], name=name)
    return SessionSpec(description="Finds things.", model=model)


async def main() -> None:
    agents = {"fast": finder("fast", "In the kitchen.", 0.05), "slow": finder("slow", "Not in the attic.", 600)}
    tasks = [
        call("task", {"agent": name, "description": "find the key", "prompt": "Find the key.", "background": True})
        for name in agents
    ]
    lead = ScriptedModel([say(calls=tasks), "Two are looking for it."])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=lead, agents=agents), "lead")
        await session.ask("Where is the key?")
        children = [task.child for task in session.tasks()]
        answers = await session.wait_tasks(*children, every=False, seconds=60)
        for answer in answers.values():
            print(*[part.text for part in answer.content if isinstance(part, Text)])
        late = [child for child in children if child not in answers]
        print("still running:", late)
        for child in late:
            await session.cancel_task(child)
            answer = await session.task_result(child)
            print("and then:", *[part.text for part in answer.content if isinstance(part, Text)])


trio.run(main)
