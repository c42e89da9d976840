"""What a client is asked about calls that wait for a person, and what its answers decide.

An answer decides by its data alone: an approval is `{"decision": "approve"}` in a form that was accepted, and nothing
else is. So a text that a model has written in the client approves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from mcp_types import ElicitRequestFormParams

from agentrail.values.json import EMPTY, Json, JsonObject, thaw

MOST_SHOWN: Final = 20_000
"""The most characters of a held call that are shown. One that has more is not asked about: what is shown is what runs.
"""

NO_ANSWER: Final = "the person gave no answer"

APPROVAL: Final = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": ["approve", "reject"], "description": "May the call run?"},
        "reason": {"type": "string", "description": "Why not; the model reads it."},
    },
    "required": ["decision"],
}


class HeldForm(NamedTuple):
    """A call that a client is asked about: its id, kind and digest, which also travel in the state of the request."""

    id: str
    kind: str
    digest: str


def form_of(held_call: JsonObject) -> HeldForm:
    """Return what is remembered of a held call that a client is asked about."""
    return HeldForm(str(held_call["id"]), str(held_call["kind"]), str(held_call["digest"]))


def form_text(held_call: JsonObject) -> str | None:
    """Return the call as the person is shown it; `None` if it is too long, or waits for no person."""
    if held_call["kind"] == "result":
        return None
    hint = "".join(
        [char if char.isprintable() or char == "\n" else f"\\u{ord(char):04x}" for char in str(held_call["hint"])]
    )
    if held_call["kind"] == "question":
        text = f"{held_call['tool']} asks:\n{hint}"
    else:
        text = f"May {held_call['tool']} run with {json.dumps(thaw(held_call['args']))}?\n{hint}"
    return text if len(text) <= MOST_SHOWN else None


def form_params(held_call: JsonObject, text: str) -> ElicitRequestFormParams:
    """Return the form that asks about a held call, with its *text*."""
    if held_call["kind"] != "question":
        return ElicitRequestFormParams(message=text, requested_schema=APPROVAL)
    answer: dict[str, object] = {"type": "string", "minLength": 1}
    if held_call["options"]:
        answer["enum"] = list(cast("tuple[str, ...]", held_call["options"]))
    schema: dict[str, object] = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
    return ElicitRequestFormParams(message=text, requested_schema=schema)


def decision(form: HeldForm, action: object, content: object) -> tuple[str, JsonObject] | None:
    """Return the call of the host by which an answer decides, and its body; `None` if it decides nothing."""
    fields = cast("Mapping[str, Json]", content) if action == "accept" and isinstance(content, Mapping) else EMPTY
    is_declined = action == "decline"
    if form.kind == "question":
        answer = NO_ANSWER if is_declined else fields.get("answer")
        return ("respond", {"ref": form.id, "answer": answer}) if isinstance(answer, str) and answer else None
    if fields.get("decision") == "approve":
        return "approve", {"approval": form.id, "digest": form.digest}
    if is_declined or fields.get("decision") == "reject":
        reason = fields.get("reason")
        why: JsonObject = {"reason": reason} if isinstance(reason, str) and reason else {}
        return "reject", {"approval": form.id, "digest": form.digest, "auto_resume": True, **why}
    return None
