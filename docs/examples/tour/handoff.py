"""A handoff: the conversation stays, and another agent goes on with it: other instructions, tools and model.

The model asks for it by calling a tool. A plugin carries it out, and the turn goes on.

    ('acme:front', 'hand_over') ('acme:billing', 'refund')
    Order 7 is refunded.
"""

import trio

from agentrail import Ask, Continue, Plugin, SessionSpec, SetSection, SwitchModel, open_supervisor, tool
from agentrail.plugins import AfterTool, AfterToolBatch, BroughtTools, ChangeTools, Context
from agentrail.testing import ScriptedModel, call, say


@tool(effect="pure")
async def hand_over() -> str:
    """Hand over to the billing desk."""
    return "the billing desk goes on"


@tool
async def refund(order: int) -> str:
    """Pay an order back."""
    return f"order {order} is refunded"


class Handoff(Plugin[bool]):
    """Make a session that of the billing desk when `hand_over` was called."""

    @property
    def declarations(self) -> tuple[BroughtTools]:
        return (BroughtTools((refund,)),)

    def init(self, ctx: Context) -> bool:
        return False  # whether the model is still to be switched

    def after_tool(self, hook: AfterTool, state: bool, ctx: Context) -> Continue[bool] | Ask[bool] | SetSection[bool]:
        if hook.name != "hand_over":
            return Continue()
        if hook.answer is None:
            return Ask(ChangeTools(attach=("refund",), detach=("hand_over",)))
        return SetSection("desk", "You are the billing desk now: pay back what is owed.", state=True)

    def after_tool_batch(self, hook: AfterToolBatch, state: bool, ctx: Context) -> Continue[bool] | SwitchModel[bool]:
        return SwitchModel("acme:billing", state=False) if state else Continue()


async def main() -> None:
    front = ScriptedModel([say(calls=[call("hand_over")])], name="acme:front")
    billing = ScriptedModel([say(calls=[call("refund", {"order": 7})]), "Order 7 is refunded."], name="acme:billing")
    spec = SessionSpec(model="acme:front", system="Find out who can help.", tools=[hand_over], plugins=[Handoff()])
    async with open_supervisor(models={"acme": {"front": front, "billing": billing}.__getitem__}) as supervisor:
        reply = await (await supervisor.spawn(spec)).ask("I want my money back for order 7.")
        print(*[(request.model, request.tools[0].name) for request in (front.requests[0], billing.requests[0])])
        print(reply.text)


trio.run(main)
