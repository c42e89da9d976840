"""Reads the input of a run: the new message of the user, and the answers to interrupts. Nothing else of it is used."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from agentrail.api.ag_ui_bodies import ResumeEntry, RunBody, RunMessage
from agentrail.api.public_ids import visible
from agentrail.api.session_values import HeldCall
from agentrail.errors import UnknownApproval, UsageError
from agentrail.host.ag_ui.run_frames import interrupt_id
from agentrail.values.content import File, Image, Part, Text
from agentrail.values.json import EMPTY, Json, JsonObject

OURS: Final = re.compile(r"[hm][0-9]+(?:\.[0-9r]+)*|r\..*", re.ASCII)
"""Ids of messages that this host has made, so that such a message is not new."""

KINDS: Final[Mapping[str, type[Image | File]]] = {"image": Image, "document": File}

NO_TOOLS: Final = "is the result of a tool: a host runs its tools itself; send a user's message, or answers in `resume`"
OWN_ID: Final = "is an id that a host gives its own messages; give a new one another id, such as a UUID"
NO_TEXT: Final = "has no content; send a text, or parts"
NO_PART: Final = "is no part that agents take; send `text`, `image` and `document`, with a `source` of `data` or `url`"
NOT_DECIDED: Final = (
    'does not say whether the call may run; send `{"approved": true}` or `{"approved": false}`, with a `reason` or '
    "`editedArgs` if need be"
)
NOT_ANSWERED: Final = 'has no answer; send a text, or `{"answer": …}`'

NO_DECISION: Final = "the person has not decided"
"""Why a call is rejected if its interrupt was cancelled."""

NO_ANSWER: Final = "the person gave no answer"
"""What a tool gets that has asked a question, if its interrupt was cancelled."""


class InterruptAnswer(NamedTuple):
    """The call of the host by which an interrupt is answered."""

    call: str
    """Name of the call: `approve`, `reject` or `respond`."""
    body: JsonObject
    """Its body."""
    interrupt: str
    """Id of the interrupt."""


def new_message(call: str, body: RunBody) -> RunMessage | None:
    """Return the user's message that the run is for; `None` if there is none, so that the run only follows the session.

    It is the last one. A history that a client sends is its own affair: what it holds was said here, or never.
    """
    if not body.messages:
        return None
    last = body.messages[-1]
    if last.role == "tool" and not body.resume and not OURS.fullmatch(last.id):
        raise UsageError("bad-body", call, f"$.messages[{len(body.messages) - 1}]", NO_TOOLS)
    return last if last.role == "user" and not OURS.fullmatch(last.id) else None


def refuse_own_id(call: str, body: RunBody) -> None:
    """Raise `UsageError` if the last message is a user's, and has an id as the host's own have it."""
    place = len(body.messages) - 1
    if body.messages and body.messages[place].role == "user" and OURS.fullmatch(body.messages[place].id):
        raise UsageError("bad-body", call, f"$.messages[{place}].id", OWN_ID)


def parts_of(call: str, message: RunMessage, place: int) -> tuple[Part, ...]:
    """Return the content of a message, the one at *place*; raise `UsageError` for what agents do not take."""
    at, content = f"$.messages[{place}].content", message.content
    if isinstance(content, str) and content:
        return (Text(content),)
    if not isinstance(content, tuple | list) or not content:
        raise UsageError("bad-body", call, at, NO_TEXT)
    return tuple([_part(call, f"{at}[{number}]", part) for number, part in enumerate(cast("Sequence[Json]", content))])


def _part(call: str, at: str, part: Json) -> Part:
    if isinstance(part, Mapping):
        kind, text, source = part.get("type"), part.get("text"), part.get("source")
        if kind == "text" and isinstance(text, str) and text:
            return Text(text)
        if isinstance(kind, str) and kind in KINDS and isinstance(source, Mapping):
            media, value = source.get("mimeType", ""), source.get("value")
            if isinstance(media, str) and isinstance(value, str):
                if source.get("type") == "data":
                    return KINDS[kind](media, value)
                if source.get("type") == "url":
                    return File(media or ("image/png" if kind == "image" else "application/pdf"), reference=value)
    raise UsageError("bad-body", call, at, NO_PART)


# Answers to interrupts


def interrupt_answers(
    call: str, entries: Sequence[ResumeEntry], held_calls: Sequence[HeldCall]
) -> list[InterruptAnswer]:
    """Return what is to be sent for the answers *entries*; raise an error if one is about no call that waits."""
    waiting = {interrupt_id(held_call): held_call for held_call in held_calls}
    answers: list[InterruptAnswer] = []
    for number, entry in enumerate(entries):
        held_call = waiting.get(entry.interrupt_id)
        if held_call is None:
            raise UnknownApproval.among(entry.interrupt_id, waiting)
        at = f"$.resume[{number}].payload"
        answer = _answer(call, at, entry) if held_call.kind == "question" else _decision(call, at, entry)
        name, body, field = answer
        answers.append(InterruptAnswer(name, {field: visible(held_call.id), **body}, entry.interrupt_id))
    return answers


def _decision(call: str, at: str, entry: ResumeEntry) -> tuple[str, JsonObject, str]:
    payload = entry.payload if isinstance(entry.payload, Mapping) else EMPTY
    if entry.status == "cancelled":
        return "reject", {"reason": NO_DECISION, "auto_resume": True}, "approval"
    approved, reason = payload.get("approved"), payload.get("reason")
    if not isinstance(approved, bool):
        raise UsageError("bad-body", call, at, NOT_DECIDED)
    if not approved:
        more: JsonObject = {"reason": reason} if isinstance(reason, str) and reason else {}
        return "reject", {"auto_resume": True, **more}, "approval"
    body: dict[str, Json] = {}
    if "editedArgs" in payload:
        body["args"] = payload["editedArgs"]
    if "always" in payload:
        body["always"] = payload["always"]
    return "approve", body, "approval"


def _answer(call: str, at: str, entry: ResumeEntry) -> tuple[str, JsonObject, str]:
    if entry.status == "cancelled":
        return "respond", {"answer": NO_ANSWER}, "ref"
    payload = entry.payload
    answer = payload.get("answer") if isinstance(payload, Mapping) else payload
    if not isinstance(answer, str) or not answer:
        raise UsageError("bad-body", call, at, NOT_ANSWERED)
    return "respond", {"answer": answer}, "ref"
