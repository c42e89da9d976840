"""A support desk: it answers in a form, hands money over to the billing desk, and pays nothing without a person.

Offline it plays scripts; `--model` gives it a real model:

    agentrail evals run support_desk.jsonl --agent support_desk.py:desk
    agentrail evals run support_desk.jsonl --agent support_desk.py:desk --model openai:gpt-5-mini
    agentrail chat support_desk.py:desk --model openai:gpt-5-mini
"""

import json
from dataclasses import dataclass

from agentrail import SessionSpec, tool
from agentrail.evals import Run, calls_match, fits, scorer
from agentrail.plugins import HumanApproval, OutputFilter
from agentrail.testing import ScriptedModel, by_prompt, call, say
from agentrail.tools import ToolContext

ORDERS = {17: {"customer": "ann", "euros": 30}, 18: {"customer": "bob", "euros": 9}}


@dataclass
class Answer:
    """What the customer is told."""

    text: str
    refunded_euros: float
    needs_person: bool


@tool(effect="pure")
async def show_order(order: int, ctx: ToolContext) -> str:
    """Show an order of the customer."""
    found = ORDERS.get(order)
    is_own = found is not None and found["customer"] == ctx.user_data.get("customer", "ann")
    return json.dumps(found) if is_own else f"the customer has no order {order}"


@tool
async def refund(order: int) -> str:
    """Pay the money for an order back."""
    return f"order {order} is paid back"


def answer(text: str, euros: float = 0, *, needs_person: bool = False) -> str:
    """Return an answer in the form."""
    return json.dumps({"text": text, "refunded_euros": euros, "needs_person": needs_person})


SCRIPTS = {
    "When do you open?": [say(answer("We open at nine, Monday to Saturday."))],
    "I want my money back for order 17": [
        say(calls=[call("transfer_to_billing")]),
        say(calls=[call("show_order", {"order": 17})]),
        say(calls=[call("refund", {"order": 17})]),
        say(answer("Order 17 is paid back: 30 euros.", 30)),
    ],
    "Pay order 18 back to me": [
        say(calls=[call("transfer_to_billing")]),
        say(calls=[call("show_order", {"order": 18})]),
        say(answer("You have no order 18; somebody will look at it.", needs_person=True)),
    ],
}

RULES = "We open at nine, Monday to Saturday. Promise nothing that a tool has not done."

billing = SessionSpec(
    name="billing",
    description="Pays back what is owed.",
    system=f"You are the billing desk. {RULES} Look at an order before you pay it back; pay only the customer's own.",
    tools=[show_order, refund],
    returns=Answer,
)
desk = SessionSpec(
    name="desk",
    model=ScriptedModel([by_prompt(SCRIPTS)], repeat_last=True),
    system=f"You are the support desk. {RULES} Hand whatever is about money over to billing.",
    tools=[show_order],
    returns=Answer,
    handoffs=[billing],
    plugins=[HumanApproval(("refund",), timeout=None), OutputFilter(kinds={"email"})],
)

in_form = fits(Answer)
steps = calls_match("in order")


@scorer
def pays_own_orders(run: Run) -> bool:
    """Whether nothing was paid but what the case expects."""
    expected = {call.args.get("order") for call in run.case.calls if call.name == "refund"}
    return all(call.args.get("order") in expected for call in run.calls if call.name == "refund")
