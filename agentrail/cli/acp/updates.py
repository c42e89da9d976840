"""`SessionUpdates`: translates what the events of a session change into updates of the protocol, without any I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

from agentrail.api.session_values import Status
from agentrail.api.transcript import (
    Answered,
    Call,
    CallChanged,
    CallEnded,
    Change,
    CutOff,
    OfSubagent,
    Transcript,
    Voided,
)
from agentrail.cli.acp.protocol import (
    ClientAbilities,
    Update,
    call_update,
    change_content,
    chunk,
    text_content,
)
from agentrail.cli.acp.tool_views import change_of, kind_of, paths_of, title_of
from agentrail.cli.acp.turn_outcomes import TurnOutcome, outcome_of
from agentrail.cli.rendering import shown_args
from agentrail.core.context_window import window_of
from agentrail.values import events as e
from agentrail.values.content import Image, Part, Text, text_of
from agentrail.values.json import Json, JsonObject
from agentrail.values.usage import NOTHING_USED

TODO_STATUS: Final = {"done": "completed"}

Translate: TypeAlias = Callable[..., Iterable["Update | None"]]

UNKNOWN: Final = "It is not known whether this call has taken effect: it was interrupted."
SKIPPED: Final = "stopped, because the user has said something new"
NOT_APPROVED: Final = {
    "rejected": "rejected",
    "timeout": "nobody has decided in time",
    "superseded": SKIPPED,
    "aborted": "stopped with its turn",
}
"""Why a held call does not run, by the status of its approval."""


class SessionUpdates:
    """Converts the events of one session, one by one, into the updates that an editor gets."""

    def __init__(self, folder: Path, abilities: ClientAbilities) -> None:
        self.is_cancelled = False
        """Whether the editor has cancelled the open turn."""
        self.outcome: TurnOutcome | None = None
        """How the last turn ended; `None` before the first end."""
        self._folder = folder
        self._abilities = abilities
        self._own_texts: list[str] = []  # sent by the editor; their events have not come yet
        self._usage = NOTHING_USED
        self._last_usage = NOTHING_USED  # usage of the last response: its tokens are the size of the context
        self._model = ""
        self._title = ""
        self._transcript = Transcript()
        self._response_id = ""
        self._attempts = 0  # texts that were streamed of this response and are void, which the editor cannot erase
        self._inner: set[str] = set()  # ids of calls of sub-agents that are shown, and have not ended
        self._plan: list[tuple[str, str]] = []
        self._translations = self._table()

    def _table(self) -> dict[type[Change], Translate]:
        """Return the table of translations: the method that converts each class of changes for the editor."""
        return {
            e.AgentAbort: self._aborted,
            e.AgentEnd: self._ended,
            e.AgentStart: self._started,
            Answered: self._answered,
            CallChanged: self._call_changed,
            CallEnded: self._call_ended,
            e.CompactEnd: self._compacted,
            e.CompactStart: self._compacting,
            CutOff: self._voided,
            e.LabelsChanged: self._labelled,
            e.MessageDelta: self._delta,
            e.ModelSwitched: self._switched,
            OfSubagent: self._of_subagent,
            e.PlanGenerated: self._planned,
            e.PlanStepCompleted: self._step_done,
            e.PromptReceived: self._received,
            e.Retry: self._retried,
            e.SteeringReceived: self._steered,
            e.StreamError: self._failed,
            e.ThinkingDelta: self._thought,
            e.TodoChange: self._todos,
            e.ToolExecutionUpdate: self._tool_reported,
            e.UserResponded: self._responded,
            Voided: self._voided,
        }

    @property
    def turn_open(self) -> bool:
        """Whether a turn is open, as of the last event."""
        return self._transcript.turn_open

    @property
    def turn_ref(self) -> str:
        """Id of the prompt of the open turn; empty if its start was not heard."""
        return self._transcript.turn_ref

    def expect(self, text: str) -> None:
        """Note that the editor has sent *text*: it shows it at once, so its event makes no update."""
        self._own_texts.append(text)

    def expect_no_more(self, text: str) -> None:
        """Note that *text* was refused: no event for it will come."""
        if text in self._own_texts:
            self._own_texts.remove(text)

    def begin(self, status: Status) -> None:
        """Take over the status of a session that was opened while it runs, whose earlier events were not received."""
        self._transcript.turn_open = status.turn_open
        self._usage = status.usage

    def cancel(self) -> bool:
        """Note that the editor has cancelled the open turn; return whether a turn is open."""
        self.is_cancelled = self.turn_open
        return self.turn_open

    def of(self, envelope: e.Envelope) -> list[Update]:
        """Return the updates for the event in *envelope*; empty if an editor is not shown such events."""
        self._response_id = f"{envelope.turn}.{envelope.round}"
        updates: list[Update] = []
        for change in self._transcript.take(envelope):
            translate = self._translations.get(type(change))
            if translate is not None:
                updates += [update for update in translate(change) if update is not None]
        return updates

    # People

    def _received(self, event: e.PromptReceived) -> Iterable[Update | None]:
        return self._from_user(event.ref, event.text)

    def _steered(self, event: e.SteeringReceived) -> Iterable[Update | None]:
        return self._from_user(event.ref, event.text) if event.status == "queued" else ()

    def _responded(self, event: e.UserResponded) -> Iterable[Update | None]:
        return self._from_user(event.ref, event.response)

    def _from_user(self, ref: str, text: str) -> Iterable[Update | None]:
        if text in self._own_texts:
            self._own_texts.remove(text)
            return ()
        return (chunk("user", ref, text),)

    # Turns

    def _started(self, event: e.AgentStart) -> Iterable[Update | None]:
        del event
        self.is_cancelled, self._attempts = False, 0
        return ()

    def _ended(self, event: e.AgentEnd) -> Iterable[Update | None]:
        self._usage = self._usage.plus(event.usage)
        self._close(event)
        return (self._fullness(),)

    def _fullness(self) -> Update | None:
        """Return the update that says how full the context is; `None` if the model's window is not known."""
        size = window_of(self._model)
        if size is None or self._last_usage.is_nothing:
            return None
        fields: dict[str, Json] = {"sessionUpdate": "usage_update", "used": self._last_usage.total_tokens, "size": size}
        if self._usage.cost_usd is not None:
            fields["cost"] = {"amount": self._usage.cost_usd, "currency": "USD"}
        return fields

    def _aborted(self, event: e.AgentAbort) -> Iterable[Update | None]:
        if event.ref is not None:
            self._close(event)
        return ()

    def _close(self, event: e.AgentEnd | e.AgentAbort) -> None:
        self.outcome = outcome_of(event, is_cancelled=self.is_cancelled)
        self.is_cancelled = False

    # Responses

    def _retried(self, event: e.Retry) -> Iterable[Update | None]:
        return (self.notice("warning", "The model is asked again", event.reason),)

    def _voided(self, event: Voided | CutOff) -> Iterable[Update | None]:
        """Begin another message: the editor shows what was streamed still, as nothing can erase it."""
        self._attempts += bool(event.text)
        return ()

    @property
    def _message_id(self) -> str:
        """Id of the response's message; another one for each retry, because the editor still shows what failed."""
        return f"{self._response_id}.{self._attempts}" if self._attempts else self._response_id

    def _delta(self, event: e.MessageDelta) -> Iterable[Update | None]:
        return (chunk("agent", self._message_id, event.delta),)

    def _thought(self, event: e.ThinkingDelta) -> Iterable[Update | None]:
        return (chunk("thought", self._message_id, event.delta),)

    def _answered(self, event: Answered) -> Iterable[Update | None]:
        message, text = event.message, event.rest
        if event.thoughts:
            yield chunk("thought", self._message_id, event.thoughts)
        if event.is_other:
            self._attempts, text = self._attempts + 1, message.text
        if text.strip():
            yield chunk("agent", self._message_id, text)
        self._attempts, self._last_usage, self._model = 0, message.usage, message.model

    # Tools

    def _call_changed(self, event: CallChanged) -> Iterable[Update | None]:
        call = event.call
        if call.state == "running" and not event.is_new:
            # The arguments are sent again, because a person or a plugin may have changed them.
            return (self._patch(call.call_id, status="in_progress", rawInput=call.args),)
        return (self._show(call, call.call_id, is_new=event.is_new),)

    def _show(self, call: Call, call_id: str, *, is_new: bool) -> Update:
        status = "in_progress" if call.state == "running" else "pending"
        return call_update(self.call_fields(call_id, call.name, call.args or {}, status), is_new=is_new)

    def call_fields(self, call_id: str, name: str, args: JsonObject, status: str = "pending") -> JsonObject:
        """Return the protocol's fields of a call that has not ended."""
        change = change_of(name, args, self._folder)
        fields: dict[str, Json] = {
            "toolCallId": call_id,
            "title": title_of(name, args),
            "name": name,
            "kind": kind_of(name),
            "status": status,
            "rawInput": args,
        }
        paths = paths_of(name, args, self._folder)
        if paths:
            fields["locations"] = [{"path": path} for path in paths]
        if change is not None:
            fields["content"] = [change_content(change)]
        return fields

    def _call_ended(self, event: CallEnded) -> Iterable[Update | None]:
        call, cause = event.call, event.cause
        status = "completed" if call.state == "done" else "failed"
        if isinstance(cause, e.ToolExecutionEnd):
            fields: dict[str, Json] = {"content": [_content(part) for part in cause.content]}
            if cause.details is not None:
                fields["rawOutput"] = cause.details
            return (self._patch(call.call_id, status=status, **fields),)
        words = _why(cause)
        if words is None and event.content is not None:
            if call.state not in {"done", "failed"}:  # the editor was told why it has ended
                return ()
            words = text_of(event.content)
        return (self._patch(call.call_id, status=status, **_text_field(words)),)

    def _patch(self, call_id: str, **fields: Json) -> Update:
        return call_update({"toolCallId": call_id, **fields}, is_new=False)

    def _tool_reported(self, event: e.ToolExecutionUpdate) -> Iterable[Update | None]:
        return (self._patch(event.call_id, content=[text_content(event.update)]),)

    # Sub-agents

    def _of_subagent(self, event: OfSubagent) -> Iterable[Update | None]:
        """Show a change of a sub-agent within the call that started it.

        Its own calls are shown only if a person was asked.
        """
        match event.change:
            case CallChanged(call):
                inner_call = f"{event.call_id}.{call.call_id}"
                if call.state == "held":
                    yield self._show(call, inner_call, is_new=inner_call not in self._inner)
                    self._inner.add(inner_call)
                elif call.state == "running":
                    text = f"→ {call.name} {shown_args(call.args or {})}".rstrip()
                    yield self._patch(event.call_id, content=[text_content(text)])
                    if inner_call in self._inner:
                        yield self._patch(inner_call, status="in_progress")
            case CallEnded(call) as end:
                inner_call = f"{event.call_id}.{call.call_id}"
                if inner_call in self._inner:
                    self._inner.discard(inner_call)
                    result = end.cause.text if isinstance(end.cause, e.ToolExecutionEnd) else _why(end.cause)
                    status = "completed" if call.state == "done" else "failed"
                    yield self._patch(inner_call, status=status, **_text_field(result))
            case OfSubagent() as inner:
                yield from self._of_subagent(inner)
            case _:
                pass

    # The rest

    def _todos(self, event: e.TodoChange) -> Iterable[Update | None]:
        return (_plan_update((todo.text, todo.status) for todo in event.todos),)

    def _planned(self, event: e.PlanGenerated) -> Iterable[Update | None]:
        self._plan = [(step, "pending") for step in event.steps]
        return (_plan_update(self._plan),)

    def _step_done(self, event: e.PlanStepCompleted) -> Iterable[Update | None]:
        if event.index >= len(self._plan):
            return ()
        self._plan[event.index] = (event.text, "done")
        return (_plan_update(self._plan),)

    def _labelled(self, event: e.LabelsChanged) -> Iterable[Update | None]:
        if event.title == self._title:
            return ()
        self._title = event.title
        return ({"sessionUpdate": "session_info_update", "title": event.title},)

    def _compacting(self, event: e.CompactStart) -> Iterable[Update | None]:
        del event
        return (self._compaction("in_progress"),)

    def _compacted(self, event: e.CompactEnd) -> Iterable[Update | None]:
        del event
        return (self._compaction("completed"),)

    def _compaction(self, status: str) -> Update | None:
        if not self._abilities.compactions:
            return None
        return {"sessionUpdate": "compaction_update", "compactionId": "compaction", "status": status}

    def _failed(self, event: e.StreamError) -> Iterable[Update | None]:
        return (self.notice("error", "The model could not be asked", event.message),)

    def _switched(self, event: e.ModelSwitched) -> Iterable[Update | None]:
        return () if event.reason is None else (self.notice("warning", f"{event.to} is asked now", event.reason),)

    def notice(self, severity: str, title: str, description: str) -> Update | None:
        """Return the update that shows a notice; `None` if the editor does not support notices."""
        if not self._abilities.notices:
            return None
        return {"sessionUpdate": "notice", "severity": severity, "title": title, "description": description}


def inner_id(path: tuple[str, ...], call_id: str) -> str:
    """Return the id that the editor has for a call; *path* is that of the sub-agent that makes the call, or empty."""
    return f"{path[-1]}.{call_id}" if path else call_id


def _why(cause: e.Event) -> str | None:
    """Return why a call has ended without a result of its own, as text; `None` if *cause* does not tell."""
    match cause:
        case e.ToolBlocked(plugin=plugin, reason=reason):
            return f"blocked by {plugin}: {reason}"
        case e.ToolKilled(reason=reason):
            return f"stopped: {reason}"
        case e.ToolSkippedForSteering():
            return SKIPPED
        case e.ToolUnknown():
            return UNKNOWN
        case e.ToolCallUnknown(name=name):
            return f"there is no tool {name!r}"
        case e.ApprovalResolved(status=status, reason=reason):
            return f"{NOT_APPROVED[status]}: {reason}" if reason else NOT_APPROVED[status]
        case _:
            return None


def _text_field(text: str | None) -> JsonObject:
    return {} if text is None else {"content": [text_content(text)]}


def _plan_update(steps: Iterable[tuple[str, str]]) -> Update:
    """Return the update for the one plan that an editor shows of a session: of the todos, or of a plan's steps."""
    entries: list[Json] = [
        {"content": text, "priority": "medium", "status": TODO_STATUS.get(status, status)} for text, status in steps
    ]
    return {"sessionUpdate": "plan", "entries": entries}


def _content(part: Part) -> JsonObject:
    if isinstance(part, Image):
        return {"type": "content", "content": {"type": "image", "mimeType": part.media_type, "data": part.data}}
    return text_content(part.text if isinstance(part, Text) else text_of((part,)))
