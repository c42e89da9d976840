"""A face of a host in one module: a line names an operation and a session, and has what the operation takes as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agentrail.api.body_parsing import body_of, query_of, strict_json
from agentrail.api.operation_table import CALLS
from agentrail.api.socket_frames import query_pairs
from agentrail.errors import AgentrailError
from agentrail.host import Authenticator
from agentrail.host.authentication.identity import NOBODY
from agentrail.host.error_responses import told_problem
from agentrail.host.operations.call import Answer, OperationCall, Shown, ShownText, Streamed
from agentrail.host.operations.host_operations import HostOperations
from agentrail.models import JsonObject

NO_SESSION = "-"


class LinePieces:
    """Sends the pieces of a stream, which nobody ends from outside."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send

    async def __call__(self, data: bytes) -> None:
        await self._send(data)

    def end(self, last: bytes = b"") -> None:
        raise AssertionError(last)


class LineFace:
    """Answers lines, each a call of the user who has *key*."""

    def __init__(self, operations: HostOperations, authenticator: Authenticator, key: str) -> None:
        self._operations = operations
        self._authenticator = authenticator
        self._headers = (("authorization", f"Bearer {key}"),)

    async def answer(self, line: str, send: Callable[[bytes], Awaitable[None]]) -> int:
        """Send the answer to *line* with *send*; return its status."""
        name, session, text = line.split(" ", 2)
        row, who = CALLS[name], NOBODY
        answer: Answer
        try:
            self._operations.check_open()
            who = await self._authenticator.identify(self._headers)
            self._operations.admit(row, who)
            data = strict_json(text.encode(), self._operations.limits.json_depth)
            assert isinstance(data, dict)
            call = self._call(OperationCall(row, who, session.replace(NO_SESSION, ""), self._operations.limits), data)
            answer = await self._operations.carry_out(call)
        except AgentrailError as error:
            answer = told_problem(error, row.attempt, who.tenant, "line")
        match answer:
            case Streamed(write=write):
                await send(await write(LinePieces(send)) or b"")
                return row.status
            case ShownText(text=said):
                await send(said.encode())
                return row.status
            case Shown():
                await send(answer.content)
            case problem:
                assert isinstance(problem.content, bytes)
                await send(problem.content)
        return answer.status

    @staticmethod
    def _call(call: OperationCall, data: JsonObject) -> OperationCall:
        """Return *call* with the body, or the query, that *data* stands for."""
        row = call.row
        body = None if row.body is None else body_of(row, data)
        query = None if row.query is None else query_of(row, query_pairs(data))
        return OperationCall(row, call.who, call.session, call.limits, body, query)
