"""What events tell about decisions: which plugin or person has decided about a call, a prompt or an end, and why."""

from __future__ import annotations

from typing import Final

from agentrail.cli.screen import clipped, one_line
from agentrail.values import events as e

WIDTH: Final = 160
"""The most columns of a decision."""


def decision_in(event: e.Event) -> str | None:
    """Return one line about the decision in *event*: who decided, and why; `None` if it is about none."""
    text = _sentence_about(event)
    return None if text is None else clipped(one_line(text), WIDTH)


def _sentence_about(event: e.Event) -> str | None:
    match event:
        case e.ApprovalRequired():
            return f"{event.tool} waited for a person: {event.plugin} held it: {event.hint}"
        case e.ApprovalResolved():
            why = f": {event.reason}" if event.reason else ""
            return f"{event.tool} was {event.status}{' with edited arguments' if event.edited else ''}{why}"
        case e.ToolBlocked():
            return f"{event.name} was blocked by {event.plugin}: {event.reason}"
        case e.ToolExecutionStart(standing=(_, *_)):
            families = ", ".join(approval.command_family for approval in event.standing)
            return f"{event.name} ran without a question: a person has allowed always: {families}"
        case e.PromptRejected():
            return f"a prompt was refused{f' by {event.plugin}' if event.plugin else ''}: {event.reason}"
        case e.AgentAbort(ref=str()):
            return f"the turn was stopped ({event.kind}){f': {event.reason}' if event.reason else ''}"
        case e.AgentEnd():
            return f"the turn ended: {event.stop_reason}"
        case e.PluginError():
            return f"plugin {event.plugin} broke at {event.hook}: {event.error}"
        case _:
            return None
