"""The version of the protocol, and how it writes facts about a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from agentrail.tools.builtin.file_changes import FileChange
from agentrail.values.json import Json, JsonObject

Update: TypeAlias = JsonObject
"""The field `update` of a notification `session/update`."""

VERSION: Final = 1
"""The version that is spoken; who asks for a later one gets this, as the protocol has it."""

STOPPED_CALL: Final = "failed"
"""Status of a tool call that was stopped: the protocol has no word of its own for it."""


class ClientAbilities(NamedTuple):
    """The optional abilities that the editor declared in `initialize`."""

    notices: bool = False
    """Show a notice."""
    compactions: bool = False
    """Show that the context is compacted."""
    forms: bool = False
    """Ask the person by a form."""


def chunk(kind: str, message_id: str, text: str) -> Update:
    """Return the update for one piece of a message, or for a whole one; *kind* is `user`, `agent` or `thought`."""
    name = "agent_thought_chunk" if kind == "thought" else f"{kind}_message_chunk"
    return {"sessionUpdate": name, "messageId": message_id, "content": {"type": "text", "text": text}}


def text_content(text: str) -> JsonObject:
    """Return *text* as content of a tool call."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def change_content(change: FileChange) -> JsonObject:
    """Return the content of a tool call that shows the change of a file."""
    return {"type": "diff", "path": change.path, "oldText": change.old_text, "newText": change.new_text}


def call_update(fields: JsonObject, *, is_new: bool) -> Update:
    """Return the update that shows a new call, or changes a call that the editor shows already."""
    return {"sessionUpdate": "tool_call" if is_new else "tool_call_update", **fields}


def permission(tool_call: JsonObject, options: Sequence[Json]) -> JsonObject:
    """Return the fields of a permission request, besides the session; the content of the call says why one is asked."""
    return {"toolCall": tool_call, "options": options}
