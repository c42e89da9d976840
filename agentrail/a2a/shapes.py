"""Shapes of A2A 1.0 as plain JSON: parts, messages, statuses, artifacts and tasks, made of answers of the host."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias, cast

from agentrail import errors
from agentrail.models import JsonObject

Shape: TypeAlias = Mapping[str, object]
"""An object of the protocol."""

WORKING: Final = "TASK_STATE_WORKING"
SUBMITTED: Final = "TASK_STATE_SUBMITTED"
INPUT_REQUIRED: Final = "TASK_STATE_INPUT_REQUIRED"
COMPLETED: Final = "TASK_STATE_COMPLETED"
CANCELED: Final = "TASK_STATE_CANCELED"
FAILED: Final = "TASK_STATE_FAILED"
REJECTED: Final = "TASK_STATE_REJECTED"

TERMINAL: Final = frozenset({COMPLETED, CANCELED, FAILED, REJECTED})
PAUSED: Final = frozenset({INPUT_REQUIRED})

ANSWER: Final = "answer"
"""Id of the artifact with what the agent has answered."""

ENDS: Final[Mapping[str, str]] = {"refused": REJECTED, "left": CANCELED, "superseded": CANCELED}
"""The state of a task by the reason why its turn ended; `COMPLETED` for others."""

ABORTS: Final[Mapping[str, str]] = {"user": CANCELED, "stopped": CANCELED}
"""The state of a task by the kind of its abort; `FAILED` for others."""

FAILURES: Final[Mapping[str, str]] = {
    "prompt-was-dropped": CANCELED,
    "prompt-was-rejected": REJECTED,
    "model-error": FAILED,
    "answer-unfit": FAILED,
}
"""The state of a task by the code of the error with which its turn ended; that of an abort is in `ABORTS`."""


def state_10(state: str) -> str:
    """Return the name of a state in protocol 1.0, which may be that of 0.3, such as `input-required`."""
    is_older = state != "" and not state.startswith("TASK_STATE_")
    return f"TASK_STATE_{state.upper().replace('-', '_')}" if is_older else state


class TaskName(NamedTuple):
    """A task: the turn of a prompt in a session."""

    session: str
    """The session, as its client calls it; the id of the context."""
    ref: str
    """Id of the prompt."""

    @property
    def id(self) -> str:
        """The id of the task."""
        return f"{self.session}:{self.ref}"

    @property
    def ids(self) -> dict[str, str]:
        """The ids of task and context, as messages and updates have them."""
        return {"taskId": self.id, "contextId": self.session}


def task_named(text: str) -> TaskName | None:
    """Return the task with the id *text*; `None` if no task has such an id."""
    session, colon, ref = text.rpartition(":")
    is_name = bool(colon and session and ref) and len(text) <= MAX_ID and text.isascii() and text.isprintable()
    return TaskName(session, ref) if is_name else None


MAX_ID: Final = 256
"""The most characters of the id of a task."""


def timestamp(at_ms: int) -> str:
    """Return a time as the protocol writes it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def status_of(state: str, message: Shape | None = None, at_ms: int | None = None) -> Shape:
    """Return the status of a task: its state, with a message and a time if they are known."""
    status: dict[str, object] = {"state": state}
    if message is not None:
        status["message"] = message
    if at_ms is not None:
        status["timestamp"] = timestamp(at_ms)
    return status


def agent_message(task: TaskName, name: str, parts: Sequence[Shape]) -> Shape:
    """Return a message of the agent about a task; *name* is unique in the task."""
    return {"messageId": f"{task.id}.{name}", "role": "ROLE_AGENT", "parts": list(parts), **task.ids}


def status_update(task: TaskName, status: Shape) -> Shape:
    """Return the frame that tells a new status of a task."""
    return {"statusUpdate": {**task.ids, "status": status}}


def is_completed(frame: Shape) -> bool:
    """Whether a frame tells that its task has come to its end as it should."""
    update = cast("Mapping[str, Shape]", frame.get("statusUpdate", {}))
    return "status" in update and update["status"]["state"] == COMPLETED


def artifact_update(task: TaskName, artifact: Shape, *, append: bool = False, is_last: bool = True) -> Shape:
    """Return the frame that tells an artifact of a task, or a piece of one; a whole one replaces the one before."""
    return {"artifactUpdate": {**task.ids, "artifact": artifact, "append": append, "lastChunk": is_last}}


def answer_artifact(text: str, answer: object = None) -> Shape:
    """Return the artifact with an answer: its text, and the same as data if a form was asked for."""
    parts: list[Shape] = [{"text": text, "mediaType": "text/plain"}]
    if answer is not None:
        parts.append({"data": answer, "mediaType": "application/json"})
    return {"artifactId": ANSWER, "name": ANSWER, "parts": parts}


# What waits for somebody


def held_parts(held_call: JsonObject) -> list[Shape]:
    """Return what is told of a call that waits: a text for people, and its facts for programs."""
    kind, tool = held_call["kind"], held_call["tool"]
    call = f"{tool}({json.dumps(held_call['args'])})"
    if kind == "question":
        text = f"{tool} asks: {held_call['hint']}"
    elif kind == "result":
        text = f"The result of {call} is wanted."
    else:
        text = f"May this run? {call}\n{held_call['hint']}".rstrip()
    facts = {
        HELD_IDS[str(kind)]: held_call["id"],
        **{name: held_call[name] for name in ("kind", "tool", "args", "hint", "options", "digest")},
    }
    return [{"text": text}, {"data": facts}]


HELD_IDS: Final[Mapping[str, str]] = {"approval": "approval", "question": "question", "result": "call"}
"""The field of data with the id of a call that waits, by its kind."""


def waiting_status(task: TaskName, held_calls: Sequence[JsonObject]) -> Shape:
    """Return the status of a task that waits for somebody."""
    parts = [part for held_call in held_calls for part in held_parts(held_call)]
    name = "-".join([str(held_call["call_id"]) for held_call in held_calls])
    return status_of(INPUT_REQUIRED, agent_message(task, f"wait-{name}", parts))


# Tasks


def task_of_reply(task: TaskName, reply: JsonObject, history_length: int | None = None) -> Shape:
    """Return a task as the answer of the call `reply` has it."""
    stop_reason, messages = str(reply["stop_reason"]), cast("Sequence[JsonObject]", reply["messages"])
    shape: dict[str, object] = {"id": task.id, "contextId": task.session}
    if reply["held"]:
        shape["status"] = waiting_status(task, cast("Sequence[JsonObject]", reply["held"]))
    elif stop_reason == "running":
        shape["status"] = status_of(WORKING if reply["turn"] else SUBMITTED)
    else:
        shape["status"] = status_of(ENDS.get(stop_reason, COMPLETED))
        shape["metadata"] = {"stopReason": stop_reason}
        if reply["text"]:
            shape["artifacts"] = [answer_artifact(str(reply["text"]), reply["answer"])]
    if history_length != 0 and messages:
        history = history_of(task, messages)
        shape["history"] = history if history_length is None else history[-history_length:]
    return shape


def task_of_error(task: TaskName, error: errors.AgentrailError) -> Shape:
    """Return a task whose turn has ended with *error*; raise it if it does not tell of the end of a turn."""
    state = ABORTS.get(error.kind, FAILED) if isinstance(error, errors.TurnAborted) else FAILURES.get(error.code)
    if isinstance(error, errors.ModelError):
        state = FAILED
    if state is None:
        raise error
    status = status_of(state, agent_message(task, "end", [{"text": str(error)}]))
    return {"id": task.id, "contextId": task.session, "status": status}


def history_of(task: TaskName, messages: Sequence[JsonObject]) -> list[Shape]:
    """Return the messages of a turn that people and the agent have said."""
    history: list[Shape] = []
    for number, message in enumerate(messages):
        role = {"UserMessage": "ROLE_USER", "AssistantMessage": "ROLE_AGENT"}.get(str(message["$"]))
        parts = [
            {"text": part["text"]} for part in cast("Sequence[JsonObject]", message["parts"]) if part["$"] == "Text"
        ]
        if role is not None and parts:
            history.append({"messageId": f"{task.id}.{number}", "role": role, "parts": parts, **task.ids})
    return history
