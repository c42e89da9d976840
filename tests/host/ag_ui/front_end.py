"""A front end: sends the input of runs, and checks each frame and each stream by what the makers of AG-UI publish."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import httpx
from ag_ui.core import Event, RunAgentInput
from ag_ui_validate import create_validator
from attrs import define, field
from pydantic import TypeAdapter

EVENTS: Final = TypeAdapter[Any](Event)
Frame = dict[str, Any]
ENDS: Final = ("RUN_FINISHED", "RUN_ERROR")


def parsed(stream: str) -> list[tuple[str, Frame]]:
    """Return the frames of a stream, each with its id; each is an event as the Python models have it."""
    pairs = list[tuple[str, Frame]]()
    for block in stream.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in fields:
            frame = json.loads(fields["data"])
            model = EVENTS.validate_json(fields["data"], by_alias=True, by_name=False)
            assert not model.model_extra, (frame, model.model_extra)
            pairs.append((fields.get("id", ""), frame))
    return pairs


def check_run(frames: Sequence[Frame]) -> None:
    """Demand that *frames* are one whole run, by the validator."""
    validator = create_validator()
    for frame in frames:
        validator.feed(frame)
    validator.finalize()
    report = validator.report()
    assert not report.internal_errors
    problems = [
        (diagnostic.message, diagnostic.event_index)
        for diagnostic in report.diagnostics
        if diagnostic.severity != "info"
    ]
    assert problems == [], (problems, frames)


@define
class FrontEnd:
    """A thread of a front end, which keeps its messages as the official client does, from the frames alone."""

    client: httpx.AsyncClient
    thread: str
    messages: list[Frame] = field(factory=list)
    interrupts: list[Frame] = field(factory=list)
    runs: int = 0

    async def say(self, text: str, **more: object) -> list[Frame]:
        """Send a message, and return the frames of its run."""
        self.messages.append({"id": str(uuid4()), "role": "user", "content": text})
        return await self.run(**more)

    def input(self, **more: object) -> Frame:
        self.runs += 1
        sent = {
            "threadId": self.thread,
            "runId": f"{self.thread}-run-{self.runs}",
            "state": {},
            "tools": [],
            "context": [],
            "forwardedProps": {},
            "messages": self.messages,
            **more,
        }
        RunAgentInput.model_validate(sent)
        return sent

    async def run(self, **more: object) -> list[Frame]:
        response = await self.client.post("/v1/ag-ui", json=self.input(**more))
        assert response.status_code == 200, response.text
        return self.take(response.text)

    async def answer(self, payload: Mapping[str, object]) -> list[Frame]:
        """Answer all interrupts alike."""
        resume = [
            {"interruptId": interrupt["id"], "status": "resolved", "payload": payload} for interrupt in self.interrupts
        ]
        return await self.run(resume=resume)

    async def join(self, since: str = "") -> list[Frame]:
        headers = {"last-event-id": since} if since else {}
        response = await self.client.get(f"/v1/sessions/{self.thread}/ag-ui", headers=headers)
        assert response.status_code == 200, response.text
        return self.take(response.text)

    def take(self, stream: str) -> list[Frame]:
        frames = [frame for _, frame in parsed(stream)]
        check_run(frames)
        for frame in frames:
            apply(frame, self.messages)
        last = frames[-1]
        self.interrupts = last.get("outcome", {}).get("interrupts", [])
        return frames

    def texts(self) -> list[tuple[str, str]]:
        """Return what the front end shows."""
        return [(message["role"], message.get("content", "")) for message in self.messages]


def apply(frame: Frame, messages: list[Frame]) -> None:
    """Apply *frame* to the messages of a client, as the official one does: what it has keeps its place."""
    whose = {"subagentRunId": frame["subagentRunId"]} if "subagentRunId" in frame else {}
    match frame["type"]:
        case "MESSAGES_SNAPSHOT":
            messages_by_id = {message["id"]: dict(message) for message in frame["messages"]}
            messages[:] = [messages_by_id.pop(message["id"]) for message in messages if message["id"] in messages_by_id]
            messages += messages_by_id.values()
        case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
            if not any(message["id"] == frame["messageId"] for message in messages):
                messages.append({"id": frame["messageId"], "role": frame["role"], "content": "", **whose})
        case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
            (message,) = [message for message in messages if message["id"] == frame["messageId"]]
            message["content"] += frame["delta"]
        case "TOOL_CALL_START":
            parent = frame.get("parentMessageId", frame["toolCallId"])
            owner = next((message for message in messages if message["id"] == parent), None)
            if owner is None:
                owner = {"id": parent, "role": "assistant", "content": "", **whose}
                messages.append(owner)
            function = {"name": frame["toolCallName"], "arguments": ""}
            owner.setdefault("toolCalls", []).append(
                {"id": frame["toolCallId"], "type": "function", "function": function}
            )
        case "TOOL_CALL_ARGS":
            calls = [candidate for message in messages for candidate in message.get("toolCalls", ())]
            (call,) = [candidate for candidate in calls if candidate["id"] == frame["toolCallId"]]
            call["function"]["arguments"] += frame["delta"]
        case "TOOL_CALL_RESULT":
            assert not any(message["id"] == frame["messageId"] for message in messages), frame
            result = {"id": frame["messageId"], "role": "tool", "toolCallId": frame["toolCallId"]}
            owners = [index for index, message in enumerate(messages) if has_call(message, frame["toolCallId"])]
            index = owners[0] + 1 if owners else len(messages)
            while index < len(messages) and messages[index]["role"] == "tool":
                index += 1
            messages.insert(index, {**result, "content": frame["content"], **whose})
        case _:
            pass


def has_call(message: Frame, call_id: str) -> bool:
    return any(call["id"] == call_id for call in message.get("toolCalls", ()))


def kinds(frames: Sequence[Frame]) -> list[str]:
    """Return the types of *frames*, equal ones in a row once."""
    types = [frame["type"] for frame in frames]
    return [kind for index, kind in enumerate(types) if index == 0 or types[index - 1] != kind]
