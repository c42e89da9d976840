"""`recorded_turns`: the turns of a real session as a case needs them, read from its records."""

from __future__ import annotations

from collections.abc import Sequence

from agentrail.evals.calls import RecordedCall
from agentrail.events import (
    AgentEnd,
    ApprovalRequired,
    ApprovalResolved,
    AskUser,
    Envelope,
    PromptReceived,
    ToolExecutionEnd,
    ToolExecutionStart,
    UserResponded,
)
from agentrail.journals import Record
from agentrail.models import AssistantMessage, JsonObject, Text, UserMessage

DECIDED = {"approved", "rejected"}
"""The ways in which a person decides about a held call; any other end of a hold is nobody's decision."""


class RecordedTurn:
    """One turn: what was said, which calls were made, what the reply was."""

    def __init__(self, prompt: str, before: int) -> None:
        self.prompt = prompt
        """Text of the prompt."""
        self.before = before
        """Number of the last record before the turn."""
        self.reply = ""
        """Text of the answer; empty if the turn did not come to one."""
        self.problem = ""
        """Why no case can be made of the turn; empty if one can."""
        self._drafts: dict[str, _CallDraft] = {}
        """The calls, by id, in the order in which they were held or started."""

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        """The calls of the turn."""
        return tuple(draft.call() for draft in self._drafts.values())

    def take(self, envelope: Envelope) -> None:
        """Note what an event says of the turn."""
        match envelope.event:
            case ApprovalRequired(call_id=call_id, tool=name, args=args):
                self._drafts.setdefault(call_id, _CallDraft(name, args))
            case ApprovalResolved(call_id=call_id, status=status) as resolved if call_id in self._drafts:
                if status in DECIDED:
                    self._drafts[call_id].decided = resolved
            case ToolExecutionStart(call_id=call_id, name=name, args=args):
                draft = self._drafts.setdefault(call_id, _CallDraft(name, args))
                draft.ran_with = args
            case ToolExecutionEnd(call_id=call_id) as end if call_id in self._drafts:
                self._drafts[call_id].end = end
            case AskUser(call_id=call_id, ref=ref) if call_id in self._drafts:
                self._drafts[call_id].questions.add(ref)
            case UserResponded(ref=ref, response=response):
                for draft in self._drafts.values():
                    if ref in draft.questions:
                        draft.responses.append(response)
            case AgentEnd() as end:
                self._end(end)
            case _:
                pass

    def _end(self, end: AgentEnd) -> None:
        texts = [message.text for message in end.messages if isinstance(message, AssistantMessage)]
        self.reply = texts[-1] if texts else ""
        prompts = [message for message in end.messages if isinstance(message, UserMessage)]
        if prompts and not all(isinstance(part, Text) for part in prompts[0].parts):
            self.problem = "the prompt of the turn has images or files, and prompts of cases are texts"


class _CallDraft:
    """A call while its events are read."""

    def __init__(self, name: str, args: JsonObject) -> None:
        self.ran_with = args
        """Arguments with which it ran."""
        self.decided: ApprovalResolved | None = None
        """The decision about it; `None` if nobody made one."""
        self.end: ToolExecutionEnd | None = None
        """Its result; `None` if it has none."""
        self.questions = set[str]()
        """Ids of the questions that it asked."""
        self.responses = list[str]()
        """The answers to them."""
        self._name = name
        """Name of its tool."""
        self._args = args
        """Arguments that the model gave."""

    def call(self) -> RecordedCall:
        """Return the call as a case has it."""
        decision, end = self.decided, self.end
        is_edited = decision is not None and decision.edited
        return RecordedCall(
            self._name,
            dict(self._args),
            None if end is None else end.text,
            is_error=end is not None and end.is_error,
            decision="" if decision is None else "approved" if decision.status == "approved" else "rejected",
            reason=(decision.reason or "") if decision is not None else "",
            edited=dict(self.ran_with) if is_edited else None,
            responses=tuple(self.responses),
        )


def recorded_turns(records: Sequence[Record]) -> dict[int, RecordedTurn]:
    """Return the turns of a session by number; *records* begin with its first one."""
    turns: dict[int, RecordedTurn] = {}
    for record in records:
        for envelope in record.events:
            number = envelope.turn
            if isinstance(envelope.event, PromptReceived):
                turns[number] = RecordedTurn(envelope.event.text, record.number - 1)
            elif number in turns:
                turns[number].take(envelope)
            if record.redacted is not None and number in turns:
                turns[number].problem = "texts of the turn were replaced by a redaction"
    return turns
