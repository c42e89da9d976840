"""Converts results of protocol 1.0 to the shapes of 0.3: `task_03`, `message_03`, `frame_03`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from agentrail.a2a.shapes import PAUSED, TERMINAL, Shape

ROLES: Final = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}


def state_03(state: str) -> str:
    """Return the name of a state: `TASK_STATE_INPUT_REQUIRED` is `input-required`."""
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def part_03(part: Shape) -> Shape:
    """Return a part of a message or an artifact."""
    metadata = {"metadata": part["metadata"]} if "metadata" in part else {}
    if "text" in part:
        return {"kind": "text", "text": part["text"], **metadata}
    if "data" in part:
        data = part["data"]
        value: object = cast("Shape", data) if isinstance(data, Mapping) else {"value": data}
        return {"kind": "data", "data": value, **metadata}
    content = {"bytes": part["raw"]} if "raw" in part else {"uri": part["url"]}
    about = {new: part[old] for old, new in (("mediaType", "mimeType"), ("filename", "name")) if old in part}
    return {"kind": "file", "file": {**content, **about}, **metadata}


def message_03(message: Shape) -> Shape:
    """Return a message."""
    parts = [part_03(part) for part in cast("Sequence[Shape]", message["parts"])]
    return {**message, "kind": "message", "role": ROLES[str(message["role"])], "parts": parts}


def task_03(task: Shape) -> Shape:
    """Return a task."""
    changed: dict[str, object] = {"kind": "task", "status": status_03(cast("Shape", task["status"]))}
    if "artifacts" in task:
        changed["artifacts"] = [artifact_03(artifact) for artifact in cast("Sequence[Shape]", task["artifacts"])]
    if "history" in task:
        changed["history"] = [message_03(message) for message in cast("Sequence[Shape]", task["history"])]
    return {**task, **changed}


def status_03(status: Shape) -> Shape:
    """Return the status of a task."""
    message = {"message": message_03(cast("Shape", status["message"]))} if "message" in status else {}
    return {**status, "state": state_03(str(status["state"])), **message}


def artifact_03(artifact: Shape) -> Shape:
    """Return an artifact."""
    return {**artifact, "parts": [part_03(part) for part in cast("Sequence[Shape]", artifact["parts"])]}


def frame_03(frame: Shape) -> Shape:
    """Return the result in *frame*, which has one field that says what it is."""
    ((kind, value),) = frame.items()
    content = cast("Shape", value)
    match kind:
        case "task":
            return task_03(content)
        case "message":
            return message_03(content)
        case "artifactUpdate":
            artifact = artifact_03(cast("Shape", content["artifact"]))
            return {"kind": "artifact-update", **content, "artifact": artifact}
        case _:
            status = cast("Shape", content["status"])
            is_final = status["state"] in TERMINAL | PAUSED
            return {"kind": "status-update", **content, "status": status_03(status), "final": is_final}
