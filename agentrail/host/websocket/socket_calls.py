"""`SocketCalls`: carries out the calls of one WebSocket as if each were a request of its own."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio

from agentrail.api import socket_frames
from agentrail.api.body_parsing import body_of, query_of
from agentrail.api.operation_table import CALLS, JSON
from agentrail.api.problems import INTERNAL, Problem
from agentrail.api.socket_frames import PATH, CallFrame, check_place
from agentrail.errors import AgentrailError, BadChoice, NotAuthenticated
from agentrail.host.authentication.identity import NOBODY
from agentrail.host.error_responses import told_problem
from agentrail.host.operations.answers import Shown
from agentrail.host.operations.call import COMMAND, OperationCall
from agentrail.host.requests.access_log import RequestNote, tell_request
from agentrail.host.requests.http_messages import HttpRequest, PeerGone
from agentrail.host.websocket.socket_user import SocketParts, SocketUser
from agentrail.runtime.shared.untrusted_calls import Contained, tell

METHOD: Final = "WS"
"""Stands in the log in place of the method of a request."""

log = logging.getLogger("agentrail.host")


class SocketCalls:
    """Carries out the calls of one WebSocket."""

    def __init__(self, parts: SocketParts, user: SocketUser, handshake: HttpRequest) -> None:
        self._parts = parts
        self._user = user
        self._peer = handshake.peer
        self._handshake = handshake.note

    async def answer(
        self, frame: CallFrame, gone: Callable[[], Awaitable[None]], refused: Callable[[], None]
    ) -> Callable[[], bytes] | None:
        """Carry out a call; return a function that makes its answer. *refused* is called if the key is no longer valid.

        Return `None` if *gone* returns first: the client has gone, or has ended its wait for the answer.
        """
        began = trio.current_time()
        line = METHOD, f"{PATH}/{frame.call}"
        note = RequestNote(f"{self._handshake.id}.{frame.id}", line=line, route=line)
        failed: list[BaseException] = []
        answer: Shown | Problem = INTERNAL
        with Contained(failed.append):
            answer = await self._carry_out(frame, note, gone, refused)
        is_gone = bool(failed) and isinstance(failed[0], PeerGone)
        seconds = trio.current_time() - began
        self._parts.requests.add(note, 0 if is_gone else answer.status, seconds)
        if is_gone:
            return None
        if failed:
            self._log_failure(frame, note, failed[0])
        return partial(self._make_message, frame, note, answer, seconds)

    def _log_failure(self, frame: CallFrame, note: RequestNote, error: BaseException) -> None:
        tell(log, error, "the call `%s` on a WebSocket failed (request %s)", frame.call, note.id, words=False)

    def _make_message(self, frame: CallFrame, note: RequestNote, answer: Shown | Problem, seconds: float) -> bytes:
        """Make the message with an answer; if that fails, the message reports a fault of the host."""
        failed: list[BaseException] = []
        with Contained(failed.append):
            return _log_answer(frame, answer, self._peer, seconds, note)
        self._log_failure(frame, note, failed[0])
        return _log_answer(frame, INTERNAL, self._peer, seconds, note)

    async def _carry_out(
        self,
        frame: CallFrame,
        note: RequestNote,
        gone: Callable[[], Awaitable[None]],
        refused: Callable[[], None],
    ) -> Shown | Problem:
        row, who, operations = CALLS[frame.call], NOBODY, self._parts.operations
        try:
            operations.check_open()
            who = await self._user.identity()
            note.tenant, note.user = who.tenant, who.user
            operations.admit(row, who)
            check_place(frame)
            headers = (*self._user.headers, ("content-type", JSON))
            headers += () if frame.command is None else ((COMMAND, frame.command),)
            call = OperationCall(
                row,
                who,
                frame.session or "",
                operations.limits,
                None if row.body is None else body_of(row, frame.body),
                None if row.query is None else query_of(row, socket_frames.query_pairs(frame.query)),
                frame.command,
                headers,
                self._peer,
                note,
                gone,
                is_on_socket=True,
            )
            answer = await operations.carry_out(call)
        except AgentrailError as error:
            if isinstance(error, NotAuthenticated):
                refused()
            return told_problem(error, row.attempt, who.tenant, note.id)
        if not isinstance(answer, Shown | Problem):
            raise BadChoice("answer", type(answer).__name__, "a value: one message answers a call on a WebSocket")
        return answer


def _log_answer(frame: CallFrame, answer: Shown | Problem, peer: str, seconds: float, note: RequestNote) -> bytes:
    """Return an answer as a message, and log it as that of a request."""
    content = answer.content
    tell_request(peer, answer.status, len(content), seconds, note)
    if isinstance(answer, Problem) or answer.is_problem:
        return socket_frames.refused(frame.id, answer.status, content)
    return socket_frames.answer(frame.id, answer.status, content)
