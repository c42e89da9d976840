"""The two versions of the protocol: the same facts about a session, as each of them writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from agentrail.api.session_values import HeldCall
from agentrail.cli.acp.tool_views import FileChange
from agentrail.values.json import Json, JsonObject

Update: TypeAlias = JsonObject
"""The field `update` of a notification `session/update`."""

FIRST: Final = 1
SECOND: Final = 2
VERSIONS: Final = (FIRST, SECOND)


class ClientAbilities(NamedTuple):
    """What the editor has said that it can do."""

    notices: bool = False
    """Show a notice."""
    compactions: bool = False
    """Show that the context is compacted."""
    forms: bool = False
    """Ask the person by a form."""


class ProtocolVersion(Protocol):
    """Interface: one version of the protocol. What a version cannot say is `None`."""

    version: int
    cancelled: str
    """Status of a tool call that was stopped."""

    def whole_message(self, kind: str, message_id: str, text: str) -> Update:
        """Return the update for a whole message; *kind* is `user`, `agent` or `thought`."""
        ...

    def empty_message(self, message_id: str) -> Update | None:
        """Return the update that takes back what was streamed of a message of the agent."""
        ...

    def tool_call(self, fields: JsonObject, *, is_new: bool) -> Update:
        """Return the update for a tool call."""
        ...

    def change(self, change: FileChange) -> JsonObject:
        """Return the content of a tool call that changes a file."""
        ...

    def plan(self, plan_id: str, entries: Sequence[Json]) -> Update:
        """Return the update for a plan."""
        ...

    def state(self, state: str, stop_reason: str | None = None, problem: JsonObject | None = None) -> Update | None:
        """Return the update for what the session does: `running`, `requires_action` or `idle`."""
        ...

    def permission(self, call: HeldCall, tool_call: JsonObject, options: Sequence[Json]) -> JsonObject:
        """Return what a request for a permission has beside the session."""
        ...


def chunk(kind: str, message_id: str, text: str) -> Update:
    """Return the update for a piece of a message, which both versions write alike."""
    name = "agent_thought_chunk" if kind == "thought" else f"{kind}_message_chunk"
    return {"sessionUpdate": name, "messageId": message_id, "content": text_block(text)}


def text_block(text: str) -> JsonObject:
    """Return a block of text."""
    return {"type": "text", "text": text}


def text_content(text: str) -> JsonObject:
    """Return the content of a tool call that is a text."""
    return {"type": "content", "content": text_block(text)}


class FirstDialect:
    """Version 1."""

    version = FIRST
    cancelled = "failed"

    def whole_message(self, kind: str, message_id: str, text: str) -> Update:
        """Return one piece that is the whole message: there are no others."""
        return chunk(kind, message_id, text)

    def empty_message(self, message_id: str) -> Update | None:
        """Return `None`: what was said stays."""
        del message_id
        return None

    def tool_call(self, fields: JsonObject, *, is_new: bool) -> Update:
        """Return the update that tells of a call, or changes it."""
        return {"sessionUpdate": "tool_call" if is_new else "tool_call_update", **fields}

    def change(self, change: FileChange) -> JsonObject:
        """Return the two texts."""
        return {"type": "diff", "path": change.path, "oldText": change.old_text, "newText": change.new_text}

    def plan(self, plan_id: str, entries: Sequence[Json]) -> Update:
        """Return the one plan that a session has."""
        del plan_id
        return {"sessionUpdate": "plan", "entries": entries}

    def state(self, state: str, stop_reason: str | None = None, problem: JsonObject | None = None) -> Update | None:
        """Return `None`: the answer to the prompt tells of the end."""
        del state, stop_reason, problem
        return None

    def permission(self, call: HeldCall, tool_call: JsonObject, options: Sequence[Json]) -> JsonObject:
        """Return the call, whose content says why it is asked about."""
        del call
        return {"toolCall": tool_call, "options": options}


class SecondDialect:
    """Version 2."""

    version = SECOND
    cancelled = "cancelled"

    def whole_message(self, kind: str, message_id: str, text: str) -> Update:
        """Return the whole message, which takes the place of its pieces."""
        name = "agent_thought" if kind == "thought" else f"{kind}_message"
        return {"sessionUpdate": name, "messageId": message_id, "content": [text_block(text)]}

    def empty_message(self, message_id: str) -> Update | None:
        """Return the message without content."""
        return {"sessionUpdate": "agent_message", "messageId": message_id, "content": []}

    def tool_call(self, fields: JsonObject, *, is_new: bool) -> Update:
        """Return the update: the first one of an id makes the call."""
        del is_new
        return {"sessionUpdate": "tool_call_update", **fields}

    def change(self, change: FileChange) -> JsonObject:
        """Return which file changes; a patch would need the file around the change."""
        operation = "modify" if change.old_text is not None else "add"
        return {"type": "diff", "changes": [{"operation": operation, "path": change.path}]}

    def plan(self, plan_id: str, entries: Sequence[Json]) -> Update:
        """Return the plan of this id."""
        return {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": plan_id, "entries": entries}}

    def state(self, state: str, stop_reason: str | None = None, problem: JsonObject | None = None) -> Update | None:
        """Return the state, with why the work has ended."""
        fields: dict[str, Json] = {"sessionUpdate": "state_update", "state": state}
        if stop_reason is not None:
            fields["stopReason"] = stop_reason
        if problem is not None:
            fields["error"] = problem
        return fields

    def permission(self, call: HeldCall, tool_call: JsonObject, options: Sequence[Json]) -> JsonObject:
        """Return the call, and in words why it is asked about."""
        subject: JsonObject = {"type": "tool_call", "toolCall": tool_call}
        title = str(tool_call["title"])
        return {"title": title, "description": call.hint or None, "subject": subject, "options": options}


DIALECTS: Final[dict[int, ProtocolVersion]] = {FIRST: FirstDialect(), SECOND: SecondDialect()}
