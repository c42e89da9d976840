"""`TaskFrames`: what happens in one turn, as frames of A2A: at most one frame with the number of each event."""

from __future__ import annotations

from collections.abc import Sequence

from agentrail import Reply
from agentrail.a2a.shapes import (
    ABORTS,
    ANSWER,
    CANCELED,
    COMPLETED,
    ENDS,
    FAILED,
    REJECTED,
    WORKING,
    Shape,
    TaskName,
    agent_message,
    answer_artifact,
    artifact_update,
    status_of,
    status_update,
)
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    Envelope,
    Gap,
    MessageDelta,
    PromptDropped,
    PromptReceived,
    PromptRejected,
    PromptWithdrawn,
    RequestStart,
    ResponseComplete,
    Retry,
    ToolExecutionStart,
)


class TaskFrames:
    """Makes frames of the events of a session, as far as they are of one task; it sees them in their order."""

    def __init__(self, task: TaskName, turn: int, *, continues: bool = False) -> None:
        """*turn* is the number of the open turn, or 0; *continues*: the client has what was streamed before."""
        self._task = task
        self.turn = turn
        """Number of the turn; 0 as long as it is not known."""
        self._has_text = continues
        """Whether the client has a piece of the response that is streamed."""
        self._is_whole = continues
        """Whether the client has all pieces of that response which came before."""
        self.is_over = False
        """Whether the end of the task has come."""

    def of(self, envelope: Envelope) -> Sequence[Shape]:
        """Return the frames of an event. Only the last one gets the number of the event."""
        match envelope.event:
            case PromptReceived(ref=self._task.ref):
                self.turn = envelope.turn
                return ()
            case AgentEnd(ref=self._task.ref) as end:
                return self._end(envelope, end)
            case AgentAbort(ref=self._task.ref, kind=kind, reason=reason):
                return self._ended(envelope, ABORTS.get(kind, FAILED), reason or kind)
            case PromptRejected(ref=self._task.ref, reason=reason):
                return self._ended(envelope, REJECTED, reason)
            case PromptDropped(ref=self._task.ref) | PromptWithdrawn(ref=self._task.ref):
                return self._ended(envelope, CANCELED, "the message was taken out of the queue")
            case Gap():
                self._is_whole = False
                return ()
            case _:
                return self._piece(envelope) if envelope.turn == self.turn else ()

    def _piece(self, envelope: Envelope) -> Sequence[Shape]:
        match envelope.event:
            case RequestStart() | Retry():
                self._has_text, self._is_whole = False, True
            case MessageDelta(delta=delta) if delta and self._is_whole:
                append, self._has_text = self._has_text, True
                artifact = {"artifactId": ANSWER, "name": ANSWER, "parts": [{"text": delta}]}
                return (artifact_update(self._task, artifact, append=append, is_last=False),)
            case ResponseComplete(message=message) if message.text and message.calls:
                return (self._working(envelope, message.text),)
            case ResponseComplete(message=message) if message.text:
                return (artifact_update(self._task, answer_artifact(message.text)),)
            case ToolExecutionStart(name=name):
                return (self._working(envelope, f"runs {name}"),)
            case _:
                pass
        return ()

    def _working(self, envelope: Envelope, text: str) -> Shape:
        message = agent_message(self._task, str(envelope.seq), [{"text": text}])
        return status_update(self._task, status_of(WORKING, message, envelope.at))

    def _end(self, envelope: Envelope, end: AgentEnd) -> Sequence[Shape]:
        self.is_over = True
        reply = Reply(end.ref, end.reason, end.messages, fits=end.fits)
        status = status_update(self._task, status_of(ENDS.get(end.reason, COMPLETED), at_ms=envelope.at))
        if reply.answer is None:
            return (status,)
        return artifact_update(self._task, answer_artifact(reply.text, reply.answer)), status

    def _ended(self, envelope: Envelope, state: str, reason: str) -> Sequence[Shape]:
        self.is_over = True
        message = agent_message(self._task, "end", [{"text": reason}])
        return (status_update(self._task, status_of(state, message, envelope.at)),)
