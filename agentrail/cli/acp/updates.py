"""`SessionUpdates`: translates the events of a session into updates of the protocol, without any I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias, cast

from agentrail.api.session_values import Status
from agentrail.cli.acp.protocol import (
    STOPPED_CALL,
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
from agentrail.values.content import Image, Part, Text, Thinking, text_of
from agentrail.values.json import Json, JsonObject
from agentrail.values.messages import Message, ToolMessage
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
        self.turn_open = False
        """Whether a turn is open, as of the last event."""
        self.turn_ref = ""
        """Id of the prompt of the open turn; empty if its start was not heard."""
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
        self._response_id = ""
        self._hears = False  # whether the deltas of the current response were received from the first one
        self._attempts = 0  # failed attempts at this response whose text the editor cannot erase
        self._streamed = ""
        self._thoughts = ""
        self._announced: set[str] = set()
        self._open: set[str] = set()  # ids of calls that have not ended
        self._inner: set[str] = set()  # those of sub-agents
        self._untold: set[str] = set()  # ids of calls that were shown as ended before their result was known
        self._plan: list[tuple[str, str]] = []
        self._translations = self._table()

    def _table(self) -> dict[type[e.Event], Translate]:
        """Return the table of translations: the method that converts each class of events for the editor."""
        return {
            e.AgentAbort: self._aborted,
            e.AgentEnd: self._ended,
            e.AgentStart: self._started,
            e.ApprovalRequired: self._approval_required,
            e.ApprovalResolved: self._approval_resolved,
            e.CompactEnd: self._compacted,
            e.CompactStart: self._compacting,
            e.LabelsChanged: self._labelled,
            e.MessageDelta: self._delta,
            e.ModelSwitched: self._switched,
            e.PlanGenerated: self._planned,
            e.PlanStepCompleted: self._step_done,
            e.PromptReceived: self._received,
            e.RequestStart: self._requested,
            e.ResponseComplete: self._completed,
            e.Retry: self._retried,
            e.SteeringReceived: self._steered,
            e.StreamError: self._failed,
            e.SubAgentEvent: self._subagent,
            e.SubagentEnd: self._subagent_ended,
            e.ThinkingDelta: self._thought,
            e.TodoChange: self._todos,
            e.ToolBlocked: self._tool_blocked,
            e.ToolCallUnknown: self._no_such_tool,
            e.ToolExecutionEnd: self._tool_ended,
            e.ToolExecutionStart: self._tool_started,
            e.ToolExecutionUpdate: self._tool_reported,
            e.ToolKilled: self._tool_killed,
            e.ToolSkippedForSteering: self._tool_skipped,
            e.ToolUnknown: self._tool_unknown,
            e.UserResponded: self._responded,
        }

    def expect(self, text: str) -> None:
        """Note that the editor has sent *text*: it shows it at once, so its event makes no update."""
        self._own_texts.append(text)

    def expect_no_more(self, text: str) -> None:
        """Note that *text* was refused: no event for it will come."""
        if text in self._own_texts:
            self._own_texts.remove(text)

    def begin(self, status: Status) -> None:
        """Take over the status of a session that was opened while it runs, whose earlier events were not received."""
        self.turn_open = status.turn_open
        self._usage = status.usage

    def cancel(self) -> bool:
        """Note that the editor has cancelled the open turn; return whether a turn is open."""
        self.is_cancelled = self.turn_open
        return self.turn_open

    def of(self, envelope: e.Envelope) -> list[Update]:
        """Return the updates for the event in *envelope*; empty if an editor is not shown such events."""
        translate = self._translations.get(type(envelope.event))
        if translate is None:
            return []
        self._response_id = f"{envelope.turn}.{envelope.round}"
        return [update for update in translate(envelope.event) if update is not None]

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
        self.turn_open, self.turn_ref, self.is_cancelled = True, event.ref, False
        self._attempts = 0
        return ()

    def _ended(self, event: e.AgentEnd) -> Iterable[Update | None]:
        self._usage = self._usage.plus(event.usage)
        return (*self._results(event.messages), self._fullness(), *self._close(event))

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
        return () if event.ref is None else self._close(event)

    def _close(self, event: e.AgentEnd | e.AgentAbort) -> Iterable[Update | None]:
        endings = [self._end_call(call_id, STOPPED_CALL) for call_id in sorted(self._open)]
        self._untold.clear()
        self.outcome = outcome_of(event, is_cancelled=self.is_cancelled)
        self.turn_open, self.turn_ref, self.is_cancelled = False, "", False
        self._drop_streamed()
        return endings

    def _results(self, messages: Iterable[Message]) -> Iterable[Update | None]:
        """Yield the end of each call whose result is in *messages* and that no event of its own has ended."""
        for message in messages:
            if isinstance(message, ToolMessage) and message.call_id in self._open | self._untold:
                status = "failed" if message.is_error else "completed"
                yield self._end_call(message.call_id, status, message.text)

    # Responses

    def _requested(self, event: e.RequestStart) -> Iterable[Update | None]:
        del event
        endings = [self._end_call(call_id, "failed") for call_id in sorted(self._open)]
        self._untold.update(cast("str", ending["toolCallId"]) for ending in endings)
        self._drop_streamed()
        self._hears = True
        return endings

    def _retried(self, event: e.Retry) -> Iterable[Update | None]:
        self._drop_streamed()
        return (self.notice("warning", "The model is asked again", event.reason),)

    def _drop_streamed(self) -> None:
        """Forget the streamed text of a failed response; the editor shows it still, as nothing can erase it."""
        if self._streamed:
            self._attempts += 1
            self._streamed = self._thoughts = ""

    @property
    def _message_id(self) -> str:
        """Id of the response's message; another one for each retry, because the editor still shows what failed."""
        return f"{self._response_id}.{self._attempts}" if self._attempts else self._response_id

    def _delta(self, event: e.MessageDelta) -> Iterable[Update | None]:
        if not self._hears:  # the whole message is sent when the response is complete
            return ()
        self._streamed += event.delta
        return (chunk("agent", self._message_id, event.delta),)

    def _thought(self, event: e.ThinkingDelta) -> Iterable[Update | None]:
        if not self._hears:
            return ()
        self._thoughts += event.delta
        return (chunk("thought", self._message_id, event.delta),)

    def _completed(self, event: e.ResponseComplete) -> Iterable[Update | None]:
        message = event.message
        thoughts = "" if self._thoughts else "".join(p.text for p in message.parts if isinstance(p, Thinking))
        updates = [
            *((chunk("thought", self._message_id, thoughts),) if thoughts else ()),
            *self._rest(message.text),
            *(self._announce(call.call_id, call.name, call.args) for call in message.calls),
        ]
        self._streamed = self._thoughts = ""
        self._attempts, self._hears = 0, False
        self._last_usage, self._model = message.usage, message.model
        return updates

    def _rest(self, text: str) -> Iterable[Update]:
        """Return updates with the part of *text* that was not streamed; with all of it if the streamed part differs."""
        streamed = self._streamed
        if text.strip() == streamed.strip():
            return ()
        if streamed and text.startswith(streamed):
            return (chunk("agent", self._message_id, text.removeprefix(streamed)),)
        self._drop_streamed()
        return (chunk("agent", self._message_id, text),) if text else ()

    # Tools

    def _announce(self, call_id: str, name: str, args: JsonObject, status: str = "pending") -> Update:
        is_new = call_id not in self._announced
        self._announced.add(call_id)
        self._open.add(call_id)
        return call_update(self.call_fields(call_id, name, args, status), is_new=is_new)

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

    def _end_call(self, call_id: str, status: str, text: str | None = None, **fields: Json) -> Update:
        self._open.discard(call_id)
        content = {} if text is None else {"content": [text_content(text)]}
        return self._patch(call_id, status=status, **content, **fields)

    def _patch(self, call_id: str, **fields: Json) -> Update:
        return call_update({"toolCallId": call_id, **fields}, is_new=False)

    def _named_end(self, call_id: str, name: str, status: str, text: str) -> Iterable[Update | None]:
        """Yield the update that ends a call; first, one that shows the call if the editor does not have it yet."""
        if call_id not in self._announced:
            yield self._announce(call_id, name, {})
        yield self._end_call(call_id, status, text)

    def _tool_started(self, event: e.ToolExecutionStart) -> Iterable[Update | None]:
        if event.call_id not in self._announced:
            return (self._announce(event.call_id, event.name, event.args, "in_progress"),)
        self._open.add(event.call_id)
        # The arguments are sent again, because a person or a plugin may have changed them.
        return (self._patch(event.call_id, status="in_progress", rawInput=event.args),)

    def _tool_reported(self, event: e.ToolExecutionUpdate) -> Iterable[Update | None]:
        return (self._patch(event.call_id, content=[text_content(event.update)]),)

    def _tool_ended(self, event: e.ToolExecutionEnd) -> Iterable[Update | None]:
        if event.call_id not in self._announced:
            yield self._announce(event.call_id, event.name, {})
        status = "failed" if event.is_error else "completed"
        self._open.discard(event.call_id)
        fields: dict[str, Json] = {"status": status, "content": [_content(part) for part in event.content]}
        if event.details is not None:
            fields["rawOutput"] = event.details
        yield self._patch(event.call_id, **fields)

    def _tool_blocked(self, event: e.ToolBlocked) -> Iterable[Update | None]:
        return self._named_end(event.call_id, event.name, "failed", f"blocked by {event.plugin}: {event.reason}")

    def _tool_killed(self, event: e.ToolKilled) -> Iterable[Update | None]:
        return self._named_end(event.call_id, event.name, STOPPED_CALL, f"stopped: {event.reason}")

    def _tool_skipped(self, event: e.ToolSkippedForSteering) -> Iterable[Update | None]:
        return self._named_end(event.call_id, event.name, STOPPED_CALL, SKIPPED)

    def _tool_unknown(self, event: e.ToolUnknown) -> Iterable[Update | None]:
        return self._named_end(event.call_id, event.name, "failed", UNKNOWN)

    def _no_such_tool(self, event: e.ToolCallUnknown) -> Iterable[Update | None]:
        return self._named_end(event.call_id, event.name, "failed", f"there is no tool {event.name!r}")

    def _approval_required(self, event: e.ApprovalRequired) -> Iterable[Update | None]:
        call_id = inner_id(event.path, event.call_id)
        update = self._announce(call_id, event.tool, event.args)
        if event.path:
            self._open.discard(call_id)
            self._inner.add(call_id)
        return (update,)

    def _approval_resolved(self, event: e.ApprovalResolved) -> Iterable[Update | None]:
        why = NOT_APPROVED.get(event.status)
        if why is None or event.call_id not in self._open:
            return ()
        return (self._end_call(event.call_id, "failed", f"{why}: {event.reason}" if event.reason else why),)

    # Sub-agents

    def _subagent(self, event: e.SubAgentEvent) -> Iterable[Update | None]:
        """Show an event of a sub-agent within the call that started it.

        Its own calls are shown only if a person was asked.
        """
        match event.event:
            case e.ToolExecutionStart(call_id=call_id, name=name, args=args):
                text = f"→ {name} {shown_args(args)}".rstrip()
                yield self._patch(event.call_id, content=[text_content(text)])
                if f"{event.call_id}.{call_id}" in self._inner:
                    yield self._patch(f"{event.call_id}.{call_id}", status="in_progress")
            case e.ToolExecutionEnd(call_id=call_id, is_error=is_error) as end:
                yield from self._end_inner(
                    f"{event.call_id}.{call_id}", "failed" if is_error else "completed", end.text
                )
            case e.ApprovalResolved(call_id=call_id, status=status) if status in NOT_APPROVED:
                yield from self._end_inner(f"{event.call_id}.{call_id}", "failed", NOT_APPROVED[status])
            case e.SubAgentEvent() as inner:
                yield from self._subagent(inner)
            case _:
                pass

    def _subagent_ended(self, event: e.SubagentEnd) -> Iterable[Update | None]:
        for call_id in sorted(self._inner):
            if call_id.startswith(f"{event.call_id}."):
                yield from self._end_inner(call_id, STOPPED_CALL)

    def _end_inner(self, call_id: str, status: str, text: str | None = None) -> Iterable[Update | None]:
        if call_id in self._inner:
            self._inner.discard(call_id)
            yield self._end_call(call_id, status, text)

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
