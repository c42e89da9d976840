"""`SocketCalls`: carries out the calls of one WebSocket as if each were a request of its own.

`SocketUser`: who uses a WebSocket, by its key; with `SocketParts`, what all WebSockets of a host share.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio
from attrs import frozen

from agentrail.api import socket_frames
from agentrail.api.body_parsing import body_of, query_of
from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import CALLS, JSON
from agentrail.api.problems import INTERNAL, Problem
from agentrail.api.socket_frames import PATH, CallFrame, check_session_and_body
from agentrail.errors import AgentrailError, BadChoice, NotAuthenticated
from agentrail.host.authentication.identity import AUTHORIZATION, NOBODY, Authenticator, ForwardedIdentity, Identity
from agentrail.host.authentication.key_watch import CHANGED, KeyWatch
from agentrail.host.cluster.forwarding import Forwarding
from agentrail.host.cluster.other_hosts import OtherHosts
from agentrail.host.error_responses import told_problem
from agentrail.host.health.health_parts import HeldChanges
from agentrail.host.health.prometheus import RequestFigures
from agentrail.host.health.tree_feed import TreeFeed
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.call import COMMAND, OperationCall, Shown
from agentrail.host.operations.event_frames import ClientStreams, EventFrames
from agentrail.host.operations.host_operations import HostOperations
from agentrail.host.operations.view_calls import ViewCalls
from agentrail.host.requests.access_log import RequestNote, tell_request
from agentrail.host.requests.http_messages import Headers, HttpRequest, PeerGone
from agentrail.runtime.shared.untrusted_calls import Contained, tell

OF_HANDSHAKE: Final = frozenset({"connection", "content-type", "idempotency-key", "last-event-id", "upgrade"})
"""Headers of a handshake that are not those of the calls on its WebSocket; nor are those that begin with `sec-`."""


class SocketUser:
    """The user of a WebSocket. Each call identifies the user again: a key may be withdrawn."""

    def __init__(
        self, authenticator: Authenticator, watch: KeyWatch, headers: Headers, signed_for: ForwardedIdentity | None
    ) -> None:
        self._authenticator = authenticator
        self._watch = watch
        self.headers = tuple(
            [header for header in headers if header[0] not in OF_HANDSHAKE and not header[0].startswith("sec-")]
        )
        """The headers of each call, but for those that it has itself."""
        # a host of the cluster has signed the handshake for a user: the signature is for that alone
        self._began: Identity | None = signed_for

    @property
    def has_key(self) -> bool:
        """Whether the handshake, or a message, had a key."""
        return any(name == AUTHORIZATION for name, _ in self.headers)

    def take_key(self, key: str) -> None:
        """Use the *key* of the client's first message."""
        self.headers = (*self.headers, (AUTHORIZATION, f"Bearer {key}"))

    async def identity(self) -> Identity:
        """Identify the user again; raise `NotAuthenticated` if the key is withdrawn, or is now another user's."""
        began = self._began
        if isinstance(began, ForwardedIdentity):
            return began
        now = await self._authenticator.identify(self.headers)
        if began is None:
            self._began = now
        elif (began.tenant, began.user) != (now.tenant, now.user):
            raise NotAuthenticated(CHANGED)
        return now

    async def refusal(self, began: Identity) -> AgentrailError:
        """Wait until the key no longer allows the WebSocket that *began* has opened; return the error that says why."""
        return await self._watch.refusal(began, self.headers)


@frozen
class SocketParts:
    """What all WebSockets of a host share."""

    operations: HostOperations
    """Admits and carries out the calls."""
    authenticator: Authenticator
    keys: KeyWatch
    """Looks at the keys of WebSockets as long as they are open."""
    limits: HostLimits
    looking: ViewCalls
    """Opens subscriptions to events."""
    frames: EventFrames
    streams: ClientStreams
    requests: RequestFigures
    """Counts the calls."""
    tree: TreeFeed
    """Tells which rows of the tree have changed."""
    held_changes: HeldChanges
    """Tells when other calls wait for people."""
    sessions: HostedSessions
    """Knows which sessions have ended."""
    forwarding: Forwarding | None
    """Passes subscriptions on to other hosts; `None` if this host is the only one."""
    others: OtherHosts | None
    """Asks other hosts for the rows of the tree; `None` if this host is the only one."""


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
        self, frame: CallFrame, wait_gone: Callable[[], Awaitable[None]], refused: Callable[[], None]
    ) -> Callable[[], bytes] | None:
        """Carry out a call; return a function that makes its answer. *refused* is called if the key is no longer valid.

        Return `None` if *wait_gone* returns first: the client has gone, or has ended its wait for the answer.
        """
        began = trio.current_time()
        line = METHOD, f"{PATH}/{frame.call}"
        note = RequestNote(f"{self._handshake.id}.{frame.id}", line=line, route=line)
        failed: list[BaseException] = []
        answer: Shown | Problem = INTERNAL
        with Contained(failed.append):
            answer = await self._carry_out(frame, note, wait_gone, refused)
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
        wait_gone: Callable[[], Awaitable[None]],
        refused: Callable[[], None],
    ) -> Shown | Problem:
        """Admit the call of *frame*, and carry it out as the same call over HTTP; a refusal is a problem document."""
        row, who, operations = CALLS[frame.call], NOBODY, self._parts.operations
        try:
            operations.check_open()
            who = await self._user.identity()
            note.tenant, note.user = who.tenant, who.user
            operations.admit(row, who)
            check_session_and_body(frame)
            headers = (*self._user.headers, ("content-type", JSON))
            headers += () if frame.command is None else ((COMMAND, frame.command),)
            call = OperationCall(
                row,
                who,
                frame.session or "",
                limits=operations.limits,
                body=None if row.body is None else body_of(row, frame.body),
                query=None if row.query is None else query_of(row, socket_frames.query_pairs(frame.query)),
                key=frame.command,
                headers=headers,
                peer=self._peer,
                note=note,
                wait_gone=wait_gone,
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
