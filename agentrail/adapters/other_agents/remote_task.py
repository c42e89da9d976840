"""`RemoteTask`: what an agent elsewhere has told of a task, in the shapes of A2A 1.0 or 0.3, as text.

What it tells is a stranger's: nothing of it is more than text, and there is a limit to how much of it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

from agentrail.values.json import EMPTY, JsonObject

MAX_TEXT: Final = 200_000
"""The most characters that are kept of what an agent says."""

MAX_FACTS: Final = 64 * 1024
"""The most characters of the data of a question, which is kept until a person has answered."""

MAX_ARTIFACTS: Final = 100
"""The most artifacts that are kept of one task."""

MAX_ID: Final = 1000
"""The most characters of an id that an agent gives."""

TERMINAL: Final = frozenset({"COMPLETED", "CANCELED", "FAILED", "REJECTED"})
PAUSED: Final = frozenset({"INPUT_REQUIRED", "AUTH_REQUIRED"})

KINDS: Final = {"status-update": "statusUpdate", "artifact-update": "artifactUpdate"}
"""What protocol 1.0 calls the kinds of results of 0.3."""


def object_in(fields: JsonObject, name: str) -> JsonObject:
    """Return the object *name* in *fields*; an empty one if there is none."""
    value = fields.get(name)
    return value if isinstance(value, Mapping) else EMPTY


def objects_in(fields: JsonObject, name: str) -> list[JsonObject]:
    """Return the objects in the list *name* in *fields*."""
    values = fields.get(name)
    is_list = isinstance(values, Sequence) and not isinstance(values, str)
    return [value for value in cast("Sequence[object]", values) if isinstance(value, Mapping)] if is_list else []


def text_in(fields: JsonObject, name: str) -> str:
    """Return the text *name* in *fields*; an empty one if there is none."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


class RemoteTask:
    """A task of an agent elsewhere, as far as it has told of it."""

    def __init__(self, task: str = "", context: str = "") -> None:
        self.id = task
        """Id of the task; empty as long as it is not known."""
        self.context = context
        """Id of its context; empty as long as it is not known."""
        self.state = ""
        """Its state, such as `COMPLETED`; empty as long as it is not known."""
        self.words = ""
        """The text of its last message."""
        self.facts: JsonObject = EMPTY
        """The data of its last message."""
        self._artifacts: dict[str, str] = {}
        """The texts of its artifacts, by their ids."""

    @property
    def text(self) -> str:
        """What it has answered."""
        return "\n\n".join([text for text in self._artifacts.values() if text]) or self.words

    def take(self, result: JsonObject) -> None:
        """Take over what a *result* of the agent tells."""
        kind = text_in(result, "kind")
        if kind:  # of protocol 0.3
            result = {KINDS.get(kind, kind): result}
        elif "status" in result and "task" not in result:  # the answer of `GetTask`
            result = {"task": result}
        for name, value in result.items():
            if isinstance(value, Mapping):
                self._take(name, value)

    def _take(self, kind: str, content: JsonObject) -> None:
        task = text_in(content, "id" if kind == "task" else "taskId")
        context = text_in(content, "contextId")
        self.id, self.context = (task or self.id)[:MAX_ID], (context or self.context)[:MAX_ID]
        match kind:
            case "message":
                self.words, self.facts, self.state = *_content(content), "COMPLETED"
            case "artifactUpdate":
                self._take_artifact(object_in(content, "artifact"), append=content.get("append") is True)
            case "task" | "statusUpdate":
                status = object_in(content, "status")
                state = text_in(status, "state").removeprefix("TASK_STATE_").upper().replace("-", "_")
                self.state = state or self.state
                self.words, self.facts = _content(object_in(status, "message"))
                for artifact in objects_in(content, "artifacts"):
                    self._take_artifact(artifact)
            case _:
                pass

    def _take_artifact(self, artifact: JsonObject, *, append: bool = False) -> None:
        name = text_in(artifact, "artifactId")[:MAX_ID]
        if name not in self._artifacts and len(self._artifacts) >= MAX_ARTIFACTS:
            return
        text = _content(artifact)[0]
        room = MAX_TEXT - sum([len(other) for key, other in self._artifacts.items() if append or key != name])
        self._artifacts[name] = (self._artifacts.get(name, "") if append else "") + text[: max(room, 0)]


def _content(fields: JsonObject) -> tuple[str, JsonObject]:
    """Return the parts in *fields* as text, and the first object among their data."""
    texts: list[str] = []
    facts = EMPTY
    for part in objects_in(fields, "parts"):
        file = object_in(part, "file") or part
        if "text" in part:
            texts.append(text_in(part, "text"))
        elif "data" in part:
            data = json.dumps(part["data"])
            facts = facts or (object_in(part, "data") if len(data) <= MAX_FACTS else EMPTY)
            texts.append(data)
        elif "url" in file or "uri" in file or "raw" in file or "bytes" in file:
            name = text_in(file, "filename") or text_in(file, "name") or text_in(file, "mediaType")
            texts.append(f"[a file: {name[:200]}] {text_in(file, 'url') or text_in(file, 'uri')}")
    return "\n".join(texts)[:MAX_TEXT], facts
