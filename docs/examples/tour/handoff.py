"""A handoff: the conversation stays, and another agent goes on with it: other instructions, tools and model.

The model asks for it by calling a tool, and the turn goes on. The other agent may hand back, by the name of the first.

    front -> billing
    ('acme:front', 'transfer_to_billing') ('acme:billing', 'refund')
    Order 7 is refunded.
"""

import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.events import HandedOff
from agentrail.testing import ScriptedModel, call, say


@tool
async def refund(order: int) -> str:
    """Pay an order back."""
    return f"order {order} is refunded"


billing = SessionSpec(
    name="billing",
    description="Pays back what is owed.",
    model="acme:billing",
    system="You are the billing desk: pay back what is owed.",
    tools=[refund],
    handoffs=["front"],
)
desk = SessionSpec(
    name="front",
    description="Finds out who can help.",
    model="acme:front",
    system="Find out who can help.",
    handoffs=[billing],
)


async def main() -> None:
    front = ScriptedModel([say(calls=[call("transfer_to_billing")])], name="acme:front")
    money = ScriptedModel([say(calls=[call("refund", {"order": 7})]), "Order 7 is refunded."], name="acme:billing")
    async with open_supervisor(models={"acme": {"front": front, "billing": money}.__getitem__}) as supervisor:
        session = await supervisor.spawn(desk)
        async with session.stream("I want my money back for order 7.") as turn:
            async for event in turn:
                match event:
                    case HandedOff(from_=before, to=after):
                        print(before, "->", after)
        print(*[(request.model, request.tools[0].name) for request in (front.requests[0], money.requests[0])])
        print(session.messages()[-1].text)


trio.run(main)
