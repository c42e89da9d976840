"""`TaskCalls`: sends messages, and reads, lists and cancels tasks, by calls of the host in the name of one client."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypeAlias, cast
from urllib.parse import quote

from agentrail.a2a.a2a_errors import INVALID_PARAMS, NO_CONTENT_TYPE, NO_TASK, NOT_CANCELABLE, UNSUPPORTED, A2aError
from agentrail.a2a.sent_message import SentMessage, decides, decisions_of
from agentrail.a2a.shapes import COMPLETED, Shape, TaskName, task_named, task_of_error, task_of_reply
from agentrail.errors import AgentrailError, CommandConflict, SessionExists, UnknownSession
from agentrail.host import FaceCalls
from agentrail.models import JsonObject

MOST_FILES: Final = 50
"""The most files of an agent that are named in a task."""

Outcome: TypeAlias = JsonObject | AgentrailError
"""The answer of the call `reply`, or the error with which the turn has ended."""


def is_over(outcome: Outcome) -> bool:
    """Whether the task with this *outcome* is over."""
    return isinstance(outcome, AgentrailError) or outcome["stop_reason"] not in {"running", "held"}


class TaskCalls:
    """The tasks of one client with one agent."""

    def __init__(self, calls: FaceCalls, agent: str, url: str) -> None:
        self.calls = calls
        self._agent = agent
        """Name of the profile; empty if the host decides."""
        self._url = url
        """Address of the host."""

    def is_of_agent(self, session: JsonObject) -> bool:
        """Whether a session, as lists show it, is one of this agent."""
        return not self._agent or session["agent"] == self._agent

    # Messages

    def task(self, text: str) -> TaskName:
        """Return the task with the id *text*; raise `A2aError` if no task can have it."""
        name = task_named(text)
        if name is None:
            raise A2aError(NO_TASK, "there is no such task")
        return name._replace(session=self.calls.own_name(name.session))

    async def session_of(self, message: SentMessage) -> str:
        """Return the session that *message* is for, which is opened if there is none yet."""
        if message.task:
            task = self.task(message.task)
            if message.context and self.calls.own_name(message.context) != task.session:
                raise A2aError(INVALID_PARAMS, "`message.contextId` is not that of the task")
            return task.session
        agent: JsonObject = {"agent": self._agent} if self._agent else {}
        if not message.context:
            opened = await self.calls.call("open_session", body=agent, command=message.opening)
            return self.calls.own_name(str(opened["session"]))
        try:
            detail = await self.calls.call("show_session", session=message.context)
        except UnknownSession:
            if "." in message.context:
                raise A2aError(INVALID_PARAMS, "there is no such context") from None
            return await self._opened(message.context, agent)
        if not self.is_of_agent(detail):
            raise A2aError(INVALID_PARAMS, f"the context is of the agent `{detail['agent']}`: send it to that one")
        return self.calls.own_name(str(detail["session"]))

    async def _opened(self, context: str, agent: JsonObject) -> str:
        with suppress(SessionExists):  # opened by another message just now
            await self.calls.call("open_session", body={"session": context, **agent})
        return context

    async def send(self, session: str, message: SentMessage) -> TaskName | Shape:
        """Send *message* to its session; return its task, or the message with which a plugin has answered it."""
        if message.task:
            return await self._send_to_task(self.task(message.task), message)
        body: JsonObject = {"message": message.content}
        answer = await self.calls.call("prompt", session=session, body=body, command=message.command)
        if "ref" not in answer:
            text = answer.get("text", "")
            parts = [{"text": text} if isinstance(text, str) and text else {"data": answer}]
            return {"messageId": message.command, "contextId": session, "role": "ROLE_AGENT", "parts": parts}
        return TaskName(session, str(answer["ref"]))

    async def _send_to_task(self, task: TaskName, message: SentMessage) -> TaskName:
        """Answer what a task waits for, or steer it."""
        outcome = await self.outcome(task)
        held_calls = () if isinstance(outcome, AgentrailError) else cast("Sequence[JsonObject]", outcome["held"])
        if held_calls or decides(message):
            command = message.command
            for decision in decisions_of(message, held_calls):
                await self.calls.call(decision.name, session=task.session, body=decision.body, command=command)
                command = f"{message.command}-{decision.body.get('approval', '')}"[-128:]
            return task
        if isinstance(outcome, AgentrailError) or outcome["stop_reason"] != "running":
            raise A2aError(UNSUPPORTED, "the task is over: send a message without `taskId` to begin another")
        if not message.text or message.has_files or message.values:
            raise A2aError(NO_CONTENT_TYPE, "the task is at work, and takes texts alone until its end")
        try:
            steered = await self.calls.call(
                "steer", session=task.session, body={"text": message.text}, command=message.command
            )
        except CommandConflict:  # the message was sent before, when the task waited
            return task
        return TaskName(task.session, str(steered["ref"])) if steered["status"] == "started" else task

    # Tasks

    async def outcome(self, task: TaskName, *, wait: bool = False) -> Outcome:
        """Return how a task stands; with *wait*, as soon as it is over, or waits for somebody."""
        try:
            return await self.calls.call("reply", session=task.session, query={"ref": task.ref, "wait": wait})
        except AgentrailError as error:
            task_of_error(task, error)  # which raises all that is no end of a task
            return error

    async def shape(self, task: TaskName, outcome: Outcome, history_length: int | None = None) -> Shape:
        """Return a task as its client gets it, with the files that the agent has written."""
        if isinstance(outcome, AgentrailError):
            return task_of_error(task, outcome)
        shape = task_of_reply(task, outcome, history_length)
        if cast("Shape", shape["status"])["state"] != COMPLETED:
            return shape
        artifacts = [*cast("Sequence[Shape]", shape.get("artifacts", ())), *await self.files(task)]
        return {**shape, "artifacts": artifacts} if artifacts else shape

    async def files(self, task: TaskName) -> list[Shape]:
        """Return the files that the agent has written in the context of a task, as artifacts that name them."""
        try:
            page = await self.calls.call("files", session=task.session, query={"limit": MOST_FILES})
        except AgentrailError:  # such as that its folder is gone: the answer is there all the same
            return []
        files = cast("Sequence[JsonObject]", page["items"])
        address = f"{self._url}/v1/sessions/{quote(task.session)}/file?path="
        return [
            {
                "artifactId": f"file-{file['path']}",
                "name": file["path"],
                "parts": [
                    {
                        "url": address + quote(str(file["path"]), safe=""),
                        "filename": file["path"],
                        "mediaType": file["media_type"],
                    }
                ],
            }
            for file in files
        ]

    async def cancel(self, task: TaskName) -> Shape:
        """Abort the turn of a task, or take its message out of the queue; raise `A2aError` if the task is over."""
        outcome = await self.outcome(task)
        if not isinstance(outcome, AgentrailError):
            if outcome["turn"]:
                reason: JsonObject = {"turn": task.ref, "reason": "canceled by the A2A client"}
                await self.calls.call("abort", session=task.session, body=reason)
            elif outcome["stop_reason"] == "running":
                await self.calls.call("withdraw", session=task.session, body={"ref": task.ref})
            else:
                raise A2aError(NOT_CANCELABLE, "the task is over")
            ended = await self.shape(task, await self.outcome(task, wait=True))
            if cast("Shape", ended["status"])["state"] != COMPLETED:
                return ended
        raise A2aError(NOT_CANCELABLE, "the task is over")
