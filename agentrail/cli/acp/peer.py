"""`Peer`: the editor, as sessions talk to it: it is told something, asked something, or answered."""

from __future__ import annotations

import trio

from agentrail.cli.acp.json_lines import LineWriter
from agentrail.cli.acp.rpc_messages import (
    RpcAnswer,
    RpcError,
    RpcId,
    failure_fields,
    notification_fields,
    request_fields,
    result_fields,
)
from agentrail.values.json import Json, JsonObject


class _Question:
    """A request to the editor that was not answered yet."""

    def __init__(self) -> None:
        self.answer: RpcAnswer | None = None
        self.has_ended = trio.Event()


class Peer:
    """The editor, as sessions see it: sends it notifications, requests, and answers to its own requests."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._questions: dict[RpcId, _Question] = {}
        self._count = 0

    async def tell(self, method: str, params: JsonObject) -> None:
        """Send a notification to the editor."""
        await self._writer.write(notification_fields(method, params))

    async def answer(self, request_id: RpcId, result: Json) -> None:
        """Send the result of a request of the editor."""
        await self._writer.write(result_fields(request_id, result))

    async def refuse(self, request_id: RpcId, error: RpcError) -> None:
        """Send the error that a request of the editor failed with."""
        await self._writer.write(failure_fields(request_id, error))

    async def repeat(self, message: JsonObject) -> None:
        """Send *message*, which is a complete message already, unchanged."""
        await self._writer.write(message)

    def new_id(self) -> int:
        """Return a new id for a request to the editor."""
        self._count += 1
        return self._count

    async def ask(self, request_id: int, method: str, params: JsonObject) -> RpcAnswer | None:
        """Send a request to the editor; return its answer, or `None` if the request was withdrawn before."""
        question = self._questions[request_id] = _Question()
        try:
            await self._writer.write(request_fields(request_id, method, params))
            await question.has_ended.wait()
        finally:
            self._questions.pop(request_id, None)
        return question.answer

    async def withdraw(self, request_id: int) -> None:
        """Withdraw a request to the editor: `ask` returns `None`. No-op if the request was answered before."""
        question = self._questions.pop(request_id, None)
        if question is not None:
            question.has_ended.set()
            await self.tell("$/cancel_request", {"requestId": request_id})

    def take(self, answer: RpcAnswer) -> None:
        """Handle an answer of the editor: `ask` returns it. No-op if its request was withdrawn or is unknown."""
        question = self._questions.pop(answer.id, None)
        if question is not None:
            question.answer = answer
            question.has_ended.set()
