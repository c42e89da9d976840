"""A small story, played by a scripted model, of which the pictures of the console are made. `agentrail serve` runs it.

An agent pays invoices: who let a payment through, and why did it cost that much?
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrail import SessionSpec, tool
from agentrail.host import Host, Profile
from agentrail.knowledge import KnowledgeFolder
from agentrail.models import ModelRequest
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.testing.scripted import Element
from agentrail.values.json import Json
from agentrail.values.messages import ToolMessage
from agentrail.values.usage import Usage

INVOICES: Final = "\n".join(
    f"invoice {number}: {number * 37 % 900 + 100} EUR to supplier {number % 7}" for number in range(300)
)


@tool
async def read_invoices(month: str) -> str:
    """Return the open invoices of a month."""
    return f"Open in {month}:\n{INVOICES}"


@tool
async def pay(supplier: str, amount: int, reference: str) -> str:
    """Pay an amount to a supplier (this one only says so)."""
    return f"paid {amount} EUR to {supplier}, {reference}"


def answer(request: ModelRequest) -> Element:
    """Do what the last message says; what it costs grows with what the model has to read."""
    size = 600 + sum(len(message.text) for message in request.messages) // 4
    cached = 0 if isinstance(request.messages[-1], ToolMessage) and size > 3_000 else size * 3 // 4  # noqa: PLR2004
    usage = Usage(input_tokens=size, output_tokens=60, cached_tokens=cached, cost_usd=(size - cached) * 3e-6 + 9e-4)
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        done = {"pay": "It is paid.", "read_invoices": "There are 300 open invoices; 12 are due this week."}
        return say(done.get(last.name, "Done."), usage=usage)
    if "pay" in last.text.lower():
        args: Mapping[str, Json] = {"supplier": "Nordwind GmbH", "amount": 4200, "reference": "invoice 2026-118"}
        return say("I pay the invoice.", calls=[call("pay", args)], usage=usage)
    if "open" in last.text.lower():
        return say("I look.", calls=[call("read_invoices", {"month": "November"})], usage=usage)
    return say("Good morning. I can read invoices, and pay them.", usage=usage)


SPEC: Final = SessionSpec(
    model=ScriptedModel([answer], repeat_last=True, name="scripted"),
    tools=[read_invoices, pay],
    plugins=[HumanApproval(tools=("pay",), timeout=None)],
    context_window=8_000,
)

story = Host([Profile("accounts", SPEC)], knowledge=KnowledgeFolder("knowledge"))
