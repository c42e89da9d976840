"""An agent for the tests of the browser client: what it does is what its user says. `agentrail serve` runs it."""

from __future__ import annotations

import json
from typing import Final

from agentrail import SessionSpec, tool
from agentrail.host import Host, Invocation, Profile, SlashCommand, SlashCommands
from agentrail.models import Json, ModelRequest, ToolMessage
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say, stall
from tests.kit import Element

HOSTILE: Final = (
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    "<a href=\"javascript:alert(1)\">&lt;b&gt;</a></li></ol><iframe srcdoc='<p>'></iframe>\u202e\u2028{{1}}${1}"
)

TRANSFER: Final[dict[str, Json]] = {
    "to": "Bob\u202eecilA\u200b",
    "amount": 9007199254740993,
    "rate": 1.0,
    "notes": {"b": "2", "10": "<b>ten</b>", "9": [], "args": {"z": 1, "1": 2}, "__proto__": "\u00e9\U000e0041"},
}


@tool
async def transfer(to: str, amount: int, rate: float, notes: Json) -> str:
    """Send money (this one only says so)."""
    return json.dumps({"to": to, "amount": amount, "rate": rate, "notes": notes})


@tool
async def read_page() -> str:
    """Return what a page of the web might say."""
    return HOSTILE


def answer(request: ModelRequest) -> Element:
    """Do what the last message says."""
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return "Sent." if last.name == "transfer" else "I have read it."
    match last.text:
        case "wait":
            return stall(text="one two three", after=3)
        case "pay":
            return say(thinking="They mean Bob.", calls=[call("transfer", TRANSFER)])
        case "attack":
            return say(HOSTILE, calls=[call("read_page")])
        case "think":
            return say("Yes.", thinking="Is it so?")
        case text:
            return f"You said: {text}"


SPEC: Final = SessionSpec(
    model=ScriptedModel([answer], repeat_last=True),
    tools=[transfer, read_page],
    plugins=[HumanApproval(tools=("transfer",), timeout=None)],
)


def ping(invocation: Invocation) -> str:
    """Answer without the model."""
    return f"pong {invocation.arguments}"


scenes = Host([Profile("scenes", SPEC)], [SlashCommands([SlashCommand("/ping", "say pong: /ping TEXT", ping)])])
