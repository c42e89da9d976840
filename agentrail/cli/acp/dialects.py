"""The two versions of the protocol: the same facts about a session, as each of them writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from agentrail.cli.acp.tool_views import FileChange
from agentrail.values.json import Json, JsonObject

Update: TypeAlias = JsonObject
"""The field `update` of a notification `session/update`."""

FIRST: Final = 1
SECOND: Final = 2
VERSIONS: Final = (FIRST, SECOND)


class ClientAbilities(NamedTuple):
    """The optional abilities that the editor declared in `initialize`."""

    notices: bool = False
    """Show a notice."""
    compactions: bool = False
    """Show that the context is compacted."""
    forms: bool = False
    """Ask the person by a form."""


class ProtocolVersion(Protocol):
    """Interface: how one version of the protocol writes a fact.

    A method returns `None` if its version cannot express it.
    """

    version: int
    cancelled: str
    """Status of a tool call that was stopped."""

    def whole_message(self, kind: str, message_id: str, text: str) -> Update:
        """Return the update that shows a whole message; *kind* is `user`, `agent` or `thought`."""
        ...

    def empty_message(self, message_id: str) -> Update | None:
        """Return the update that erases the streamed part of an agent's message; `None` if the version has none."""
        ...

    def tool_call(self, fields: JsonObject, *, is_new: bool) -> Update:
        """Return the update for a tool call."""
        ...

    def change(self, change: FileChange) -> JsonObject:
        """Return the content of a tool call that shows the change of a file."""
        ...

    def plan(self, plan_id: str, entries: Sequence[Json]) -> Update:
        """Return the update for a plan."""
        ...

    def state(self, state: str, stop_reason: str | None = None, problem: JsonObject | None = None) -> Update | None:
        """Return the update for the session's state: `running`, `requires_action` or `idle`."""
        ...

    def permission(self, reason: str, tool_call: JsonObject, options: Sequence[Json]) -> JsonObject:
        """Return the fields of a permission request, besides the session: the call and the reason."""
        ...


def chunk(kind: str, message_id: str, text: str) -> Update:
    """Return the update for one piece of a streamed message; both versions write it alike."""
    name = "agent_thought_chunk" if kind == "thought" else f"{kind}_message_chunk"
    return {"sessionUpdate": name, "messageId": message_id, "content": text_block(text)}


def text_block(text: str) -> JsonObject:
    """Return a block of text."""
    return {"type": "text", "text": text}


def text_content(text: str) -> JsonObject:
    """Return *text* as content of a tool call."""
    return {"type": "content", "content": text_block(text)}


class FirstDialect:
    """Version 1."""

    version = FIRST
    cancelled = "failed"

    def whole_message(self, kind: str, message_id: str, text: str) -> Update:
        """Return the message as a single piece: version 1 has no update for a whole message."""
        return chunk(kind, message_id, text)

    def empty_message(self, message_id: str) -> Update | None:
        """Return `None`: version 1 cannot erase streamed text, so it stays in the editor."""
        del message_id
        return None

    def tool_call(self, fields: JsonObject, *, is_new: bool) -> Update:
        """Return the update that shows a new call, or changes a call that the editor shows already."""
        return {"sessionUpdate": "tool_call" if is_new else "tool_call_update", **fields}

    def change(self, change: FileChange) -> JsonObject:
        """Return the change as two texts: the old and the new one."""
        return {"type": "diff", "path": change.path, "oldText": change.old_text, "newText": change.new_text}

    def plan(self, plan_id: str, entries: Sequence[Json]) -> Update:
        """Return the plan without an id: in version 1, a session has only one."""
        del plan_id
        return {"sessionUpdate": "plan", "entries": entries}

    def state(self, state: str, stop_reason: str | None = None, problem: JsonObject | None = None) -> Update | None:
        """Return `None`: in version 1, the answer to the prompt request reports the end of the turn."""
        del state, stop_reason, problem
        return None

    def permission(self, reason: str, tool_call: JsonObject, options: Sequence[Json]) -> JsonObject:
        """Return the call; its content says why the person is asked."""
        del reason
        return {"toolCall": tool_call, "options": options}


class SecondDialect:
    """Version 2."""

    version = SECOND
    cancelled = "cancelled"

    def whole_message(self, kind: str, message_id: str, text: str) -> Update:
        """Return the whole message, which replaces the pieces that were streamed."""
        name = "agent_thought" if kind == "thought" else f"{kind}_message"
        return {"sessionUpdate": name, "messageId": message_id, "content": [text_block(text)]}

    def empty_message(self, message_id: str) -> Update | None:
        """Return the message without content, which erases the streamed pieces."""
        return {"sessionUpdate": "agent_message", "messageId": message_id, "content": []}

    def tool_call(self, fields: JsonObject, *, is_new: bool) -> Update:
        """Return the update of a call; in version 2, the first update with a new id creates the call."""
        del is_new
        return {"sessionUpdate": "tool_call_update", **fields}

    def change(self, change: FileChange) -> JsonObject:
        """Return the path of the changed file, without a patch: a patch needs the lines around the change."""
        operation = "modify" if change.old_text is not None else "add"
        return {"type": "diff", "changes": [{"operation": operation, "path": change.path}]}

    def plan(self, plan_id: str, entries: Sequence[Json]) -> Update:
        """Return the plan with its id."""
        return {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": plan_id, "entries": entries}}

    def state(self, state: str, stop_reason: str | None = None, problem: JsonObject | None = None) -> Update | None:
        """Return the state, and for `idle` the reason why the turn ended."""
        fields: dict[str, Json] = {"sessionUpdate": "state_update", "state": state}
        if stop_reason is not None:
            fields["stopReason"] = stop_reason
        if problem is not None:
            fields["error"] = problem
        return fields

    def permission(self, reason: str, tool_call: JsonObject, options: Sequence[Json]) -> JsonObject:
        """Return the call, and the reason for the question as text."""
        subject: JsonObject = {"type": "tool_call", "toolCall": tool_call}
        title = str(tool_call["title"])
        return {"title": title, "description": reason or None, "subject": subject, "options": options}


DIALECTS: Final[dict[int, ProtocolVersion]] = {FIRST: FirstDialect(), SECOND: SecondDialect()}
