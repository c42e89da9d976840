"""A support desk: a typed answer, a tool that knows the customer, no mail address in any text, and a billing desk.

The model hands the conversation over to the billing desk, which has other tools.

    text='12.5 EUR are paid back, [redacted] knows.' block_card=False risk=1
"""

from pydantic import BaseModel, Field

from agentrail import SessionSpec, tool
from agentrail.plugins import OutputFilter
from agentrail.sync import run_sync
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext

BALANCES = {"ann": 12.5}


class Advice(BaseModel):
    """What the customer is told."""

    text: str
    block_card: bool
    risk: int = Field(ge=0, le=10)


@tool(effect="pure")
async def balance(ctx: ToolContext) -> float:
    """Return the balance of the customer."""
    return BALANCES[str(ctx.user_data["customer"])]


@tool
async def pay_back(euros: float, ctx: ToolContext) -> str:
    """Pay the customer back."""
    return f"{euros} EUR are paid back to {ctx.user_data['customer']}"


def desk(customer: str) -> SessionSpec:
    """Return the desk for *customer*."""
    system = "You help customers of a bank."
    billing = SessionSpec(name="billing", description="Pays back.", system=system, tools=[pay_back], returns=Advice)
    return SessionSpec(
        model="demo",
        system=system,
        tools=[balance],
        returns=Advice,
        handoffs=[billing],
        plugins=[OutputFilter(kinds={"email"})],
        user_data={"customer": customer},
    )


calls = [say(calls=[call("balance")]), say(calls=[call("transfer_to_billing")])]
calls.append(say(calls=[call("pay_back", {"euros": 12.5})]))
answer = '{"text": "12.5 EUR are paid back, bob@example.org knows.", "block_card": false, "risk": 1}'
print(run_sync("Pay my balance back.", desk("ann").but(model=ScriptedModel([*calls, answer])), returns=Advice))
