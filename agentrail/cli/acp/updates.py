"""`SessionUpdates`: translates what the events of a session change into updates of the protocol, without any I/O."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from agentrail.api.session_values import Status
from agentrail.api.transcript import (
    CallChanged,
    CallEnded,
    Change,
    CutOff,
    OfSubagent,
    ResponseEnded,
    ShownCall,
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
from agentrail.cli.acp.tool_views import change_of, changes_made, kind_of, paths_of, title_of
from agentrail.cli.acp.turn_outcomes import TurnOutcome, outcome_of
from agentrail.cli.talk.file_changes import FileChanges
from agentrail.cli.talk.rendering import shown_args
from agentrail.core.context_window import window_of
from agentrail.values import events as e
from agentrail.values.content import Image, Part, Text, text_of
from agentrail.values.json import Json, JsonObject
from agentrail.values.usage import NOTHING_USED

TODO_STATUS: Final = {"done": "completed"}

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
        self.changes = FileChanges(folder)
        """What calls would change in files of the folder."""
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
        changes = self._transcript.take(envelope)
        return [update for change in changes for update in self._updates(change) if update is not None]

    def _updates(self, change: Change) -> Iterable[Update | None]:
        match change:
            case (
                e.PromptReceived(ref=ref, text=text)
                | e.SteeringReceived(ref=ref, text=text, status="queued")
                | e.UserResponded(ref=ref, response=text)
            ):
                return self._from_user(ref, text)
            case e.AgentStart():
                self.is_cancelled, self._attempts = False, 0
            case e.AgentEnd() | e.AgentAbort(ref=str()):
                return self._close(change)
            case e.MessageDelta(delta=delta):
                return (chunk("agent", self._message_id, delta),)
            case e.ThinkingDelta(delta=delta):
                return (chunk("thought", self._message_id, delta),)
            case Voided(text) | CutOff(text):
                self._attempts += bool(text)  # nothing can erase it for the editor, so another message begins
            case ResponseEnded():
                return self._answered(change)
            case CallChanged():
                return self._call_changed(change)
            case CallEnded():
                return self._call_ended(change)
            case OfSubagent():
                return self._of_subagent(change)
            case _:
                return self._of_session(change)
        return ()

    # The conversation

    def _from_user(self, ref: str, text: str) -> Iterable[Update | None]:
        if text in self._own_texts:
            self._own_texts.remove(text)
            return ()
        return (chunk("user", ref, text),)

    def _close(self, event: e.AgentEnd | e.AgentAbort) -> Iterable[Update | None]:
        self.outcome = outcome_of(event, is_cancelled=self.is_cancelled)
        self.is_cancelled = False
        if isinstance(event, e.AgentAbort):
            return ()
        self._usage = self._usage.plus(event.usage)
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

    @property
    def _message_id(self) -> str:
        """Id of the response's message; another one for each retry, because the editor still shows what failed."""
        return f"{self._response_id}.{self._attempts}" if self._attempts else self._response_id

    def _answered(self, event: ResponseEnded) -> Iterable[Update | None]:
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

    def _show(self, call: ShownCall, call_id: str, *, is_new: bool) -> Update:
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
            changes = () if cause.is_error else changes_made(call.name, call.args or {}, cause.details, self._folder)
            contents = [*map(change_content, changes), *(_content(part) for part in cause.content)]
            fields: dict[str, Json] = {"content": contents}
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

    def _of_session(self, change: Change) -> Iterable[Update | None]:
        match change:
            case e.ToolExecutionUpdate(call_id=call_id, update=text):
                return (self._patch(call_id, content=[text_content(text)]),)
            case e.TodoChange(todos=todos):
                return (_plan_update((todo.text, todo.status) for todo in todos),)
            case e.PlanGenerated(steps=steps):
                self._plan = [(step, "pending") for step in steps]
                return (_plan_update(self._plan),)
            case e.PlanStepCompleted(index=index, text=text) if index < len(self._plan):
                self._plan[index] = (text, "done")
                return (_plan_update(self._plan),)
            case e.LabelsChanged(title=title) if title != self._title:
                self._title = title
                return ({"sessionUpdate": "session_info_update", "title": title},)
            case e.CompactStart() | e.CompactEnd() if self._abilities.compactions:
                status = "in_progress" if isinstance(change, e.CompactStart) else "completed"
                return ({"sessionUpdate": "compaction_update", "compactionId": "compaction", "status": status},)
            case e.Retry(reason=reason):
                return (self.notice("warning", "The model is asked again", reason),)
            case e.StreamError(message=message):
                return (self.notice("error", "The model could not be asked", message),)
            case e.ModelSwitched(to=model, reason=str(reason)):
                return (self.notice("warning", f"{model} is asked now", reason),)
            case _:
                return ()

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
