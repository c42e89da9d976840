"""The agent that the hosts of these tests serve: what it does is what its user says."""

from __future__ import annotations

import re
from typing import Final

from agentrail import SessionSpec, tool
from agentrail.models import ModelRequest, ToolMessage, UserMessage
from agentrail.plugins import HumanApproval
from agentrail.sandboxes import MemorySandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools.builtin import ask_user
from tests.kit import Element

MARK: Final = re.compile(rb"mark(\d+)-")
"""A text by which it is found out where something comes from."""

SLOW: Final = 0.2
"""Seconds between the words of a slow answer."""


def mark(number: int) -> str:
    return f"mark{number}-"


@tool(effect="pure")
async def pay(text: str) -> str:
    """Pay somebody."""
    return f"paid {text}"


def _said(request: ModelRequest) -> str:
    return next((message.text for message in reversed(request.messages) if isinstance(message, UserMessage)), "")


def answer(request: ModelRequest) -> Element:
    """Return what the model says: it calls tools if its user has said so."""
    text = _said(request)
    if not isinstance(request.messages[-1], ToolMessage):
        if "pay" in text:
            return say(calls=[call("pay", {"text": text})])
        if "ask" in text:
            return say(calls=[call("ask_user", {"question": text})])
        if "child" in text:
            return say(calls=[call("task", {"agent": "helper", "description": text, "prompt": text})])
    if "slow" in text:
        return say(f"one two three {text}", delay=SLOW)
    return say(f"heard {text}", delay=None)


def agent() -> SessionSpec:
    helper = SessionSpec(
        model=ScriptedModel([lambda request: say(f"did {_said(request)}")], repeat_last=True), description="Helps."
    )
    return SessionSpec(
        model=ScriptedModel([answer], repeat_last=True),
        tools=[pay, ask_user],
        plugins=[HumanApproval(tools=["pay"])],
        agents={"helper": helper},
        sandbox=MemorySandbox(),
    )
