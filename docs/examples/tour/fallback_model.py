"""A chain of models: when the first one fails, the next one goes on in the same turn.

An error that another try may mend counts; what the model refuses for good ends the turn.

    asking acme:large
    acme:small instead: TransientModelError: overloaded
    asking acme:small
    Hello.
"""

import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.events import ModelSwitched, RequestStart
from agentrail.testing import ScriptedModel, transient


async def main() -> None:
    large = ScriptedModel([transient("overloaded")], repeat_last=True, name="acme:large")
    small = ScriptedModel(["Hello."], name="acme:small")
    spec = SessionSpec(model=[large, small], fallback_after=1)
    async with open_supervisor(seed=1) as supervisor:
        session = await supervisor.spawn(spec)
        async with session.stream("Hi") as turn:
            async for event in turn:
                match event:
                    case RequestStart(model=model):
                        print("asking", model)
                    case ModelSwitched(to=model, reason=reason):
                        print(f"{model} instead: {reason}")
        print(session.messages()[-1].text)


trio.run(main)
