"""What events tell about decisions, in sentences: which plugin or person decided about a call or a turn, and why."""

from __future__ import annotations

from typing import Final

from agentrail.values import events as e

BY_PERSON: Final = frozenset({"approved", "rejected", "cleared"})
"""What becomes of a held call only if a person decides so."""


def decision_in(event: e.Event) -> str | None:
    """Return a sentence about the decision in *event*: who decided, and why; `None` if it is about none."""
    match event:
        case e.ApprovalRequired():
            return f"{event.tool} waited for a person: {event.plugin} held it: {event.hint}"
        case e.ApprovalResolved():
            return _resolved(event, f" by {event.by}" if event.by else "")
        case e.ToolBlocked():
            return f"{event.name} was blocked by {event.plugin}: {event.reason}"
        case e.ToolExecutionStart(standing=(_, *_)):
            families = ", ".join(approval.command_family for approval in event.standing)
            return f"{event.name} ran without a question: a person has allowed always: {families}"
        case e.PromptRejected():
            return f"a prompt was refused{f' by {event.plugin}' if event.plugin else ''}: {event.reason}"
        case e.HandedOff():
            return f"the conversation was handed over to {event.to}, as the model asked"
        case e.AgentAbort(ref=str()):
            return f"the turn was stopped ({event.kind}){f': {event.reason}' if event.reason else ''}"
        case e.AgentEnd():
            return f"the turn ended: {event.reason}"
        case e.PluginError():
            return f"plugin {event.plugin} broke at {event.hook}: {event.error}"
        case _:
            return None


def _resolved(event: e.ApprovalResolved, by: str) -> str:
    edited, why = " with edited arguments" if event.edited else "", f": {event.reason}" if event.reason else ""
    return f"{event.tool} was {event.status}{by}{edited}{why}"


def fact_in(event: e.Event) -> str | None:
    """Return a sentence about what *event* says became of a call or a session, also if nobody decided it."""
    match event:
        case e.ToolExecutionStart(standing=()):
            return f"{event.name} was started{f', attempt {event.attempt}' if event.attempt > 1 else ''}"
        case e.ToolExecutionEnd():
            how = "with an error" if event.is_error else "with a result"
            return f"{event.name} ended {how}{', too late for its turn' if event.late else ''}"
        case e.ToolCallUnknown():
            return f"there is no tool `{event.name}`"
        case e.ApprovalResolved(by="", status=status) if status in BY_PERSON:
            return _resolved(event, " by somebody whose name is not stored")
        case e.SessionEnded():
            return f"the session ended{f': {event.reason}' if event.reason else ''}"
        case _:
            return _interruption_in(event) or decision_in(event)


def _interruption_in(event: e.Event) -> str | None:
    """Return a sentence about how a running call was interrupted; `None` if *event* is about something else."""
    match event:
        case e.ToolKilled():
            return f"{event.name} was stopped with its turn: {event.reason}"
        case e.ToolSkippedForSteering():
            return f"{event.name} was stopped, because the user steered"
        case e.ToolAbandoned():
            return f"{event.name} did not end when it was cancelled, and was left behind"
        case e.ToolUnknown():
            return f"{event.name} was interrupted, and nobody knows whether it has taken effect"
        case _:
            return None
