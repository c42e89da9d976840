"""`HostConnection`: calls and subscriptions over one connection to a host, which is made again whenever it is cut."""

from __future__ import annotations

import logging
import random
import secrets
import ssl
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Final

import msgspec
import trio
from trio_websocket import ConnectionRejected

from agentrail.api import problems
from agentrail.api.command_checks import MAX_ITEMS, bounded_items, kept_text
from agentrail.api.operation_table import CALLS
from agentrail.api.problems import error_of
from agentrail.api.public_ids import whole_id
from agentrail.api.socket_frames import FAULT, TOO_LARGE, Listened, most_told
from agentrail.errors import (
    AgentrailError,
    BodyTooLarge,
    HostFailed,
    HostLost,
    HostNotReached,
    TooManyRequests,
    UsageError,
)
from agentrail.errors.agentrail_error import fresh
from agentrail.nurseries import open_shielded_nursery
from agentrail.remote.transport.client_connection import (
    ClientConnection,
    NotAHostError,
    describe_rejection,
    document_in,
    open_connection,
)
from agentrail.remote.transport.host_address import CutError, Dial, HostAddress, HostKey, dial_address, read_address
from agentrail.remote.transport.host_subscription import (
    AnswerFrame,
    EndedFrame,
    HostSubscription,
    RefusalFrame,
    read_host_frame,
)
from agentrail.reprs import in_brackets, listed, some
from agentrail.values.events.envelope import Cursor
from agentrail.values.events.policies import SubscriptionPolicy
from agentrail.values.json import Json, JsonObject, freeze_object
from agentrail.values.secrets import Secret

log: Final = logging.getLogger("agentrail.remote")

MAX_CALLS: Final = 64
"""The most calls that are under way over one connection, as a host reads no further ones; more wait for their turn."""

MAX_WAITING: Final = 48
"""The most of them that wait for the end of a turn, or of other work, so that an abort always finds room."""

PATIENCE: Final = 60.0
"""For how many seconds callers wait while the host cannot be reached."""

MAX_FAULTS: Final = 5
"""Connections in a row that a host closes for a fault of its own; what it was asked on each is asked no more then."""

FIRST_PAUSE: Final = 0.05
"""Seconds before the first attempt to connect again."""
MAX_PAUSE: Final = 5.0
"""The most seconds between two attempts."""

START_IT: Final = "start it there, or correct the address"
NO_HOST: Final = "correct the address, or use versions of agentrail that fit: no host of this version answers like this"

_NOT_NOW: Final = frozenset({429, 503})
_CLOSING: Final = f"{problems.TYPES}host-closing"
_TOO_FAST: Final = f"{problems.TYPES}too-many-requests"
_PASSING: Final = frozenset({_CLOSING, _TOO_FAST})
"""Problems at the host's door: nothing was carried out, and a later attempt goes well."""
_NEVER: Final = 1e9
"""Seconds: JSON may have numbers that are greater than any of ours."""

_encode: Final = msgspec.json.Encoder().encode


class Backoff:
    """Pauses before attempts to connect: each twice as long as the last one, from `FIRST_PAUSE` to *longest*.

    The pauses start again from the shortest after a connection over which the host has sent anything, unless the host
    has closed that one because of its own fault: it may fail again at once.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._attempts = 0
        self._lost_at = trio.current_time()

    @property
    def lost_for(self) -> float:
        """Seconds since the host was heard last."""
        return trio.current_time() - self._lost_at

    def mark_served(self, *, has_failed: bool) -> None:
        """Note the end of a connection over which the host has sent something; *has_failed*: by a fault of the host."""
        self._lost_at = trio.current_time()
        if not has_failed:
            self._attempts = 0

    def next_pause(self) -> float:
        """Return the seconds to wait before the next attempt; chance may halve them, so that clients spread out."""
        longest = min(FIRST_PAUSE * 2.0 ** min(self._attempts, 10), self._longest)
        self._attempts += 1
        return longest * random.uniform(0.5, 1)  # noqa: S311 - no secret


class PendingCall:
    """One call that waits for its answer."""

    __slots__ = ("body", "ended", "faults", "id", "problem", "session", "text")

    def __init__(self, name: str, text: str, session: str) -> None:
        self.id = name
        self.text = text
        self.session = session
        self.ended = trio.Event()
        self.body: Json = None
        self.problem: AgentrailError | JsonObject | None = None
        self.faults = 0
        """Connections in a row that the host has closed for a fault of its own while the call waited."""

    def fail(self, problem: AgentrailError | JsonObject) -> None:
        """End the call with *problem*."""
        self.problem = problem
        self.ended.set()


def without_none(**fields: Json) -> JsonObject:
    """Return the *fields* that are not `None`; the others are not sent."""
    return {name: value for name, value in fields.items() if value is not None}


TEXTS_WANTED: Final = "a list of texts"


def texts_of(argument: str, texts: Iterable[str]) -> list[str]:
    """Return *texts* as a list; raise `UsageError` if they are no texts, or a single one, which would be split."""
    return [kept_text(text, f"one of `{argument}`") for text in bounded_items(argument, texts, MAX_ITEMS, TEXTS_WANTED)]


class HostConnection:
    """A connection to a host over which several tasks call and subscribe at once. `open_line` makes it.

    When it is cut, it is made again, with growing pauses. Subscriptions go on after their last event. A call in flight
    is sent again: a command under its command id, so that the host carries it out once. Callers notice nothing, unless
    there is no connection for `patience` seconds; then calls and subscriptions end with `HostLost`, and it goes on
    trying for later ones. A call that makes the host fail again and again ends with `HostFailed`. If the host answers
    that there are too many requests, the call is repeated later, for up to `patience` seconds, too.
    """

    def __init__(
        self, address: HostAddress, key: HostKey, dial: Dial, patience: float, longest_pause: float = MAX_PAUSE
    ) -> None:
        self.address = address
        """Where the host listens."""
        self._key = key
        self._user = ""  # the user of the key, as ids of sessions have it
        self._dial = dial
        self._patience = patience
        self._longest_pause = longest_pause
        self._ids = count(1)
        self._commands = f"line-{secrets.token_hex(12)}"
        self._calls: dict[str, PendingCall] = {}
        self._subscriptions: dict[str, HostSubscription] = {}
        self._call_slots = trio.CapacityLimiter(MAX_CALLS)
        self._waiting_slots = trio.CapacityLimiter(MAX_WAITING)
        self._current: ClientConnection | None = None
        self._closed_error: AgentrailError | None = None
        self._reconnected = trio.Event()

    @in_brackets
    def __repr__(self) -> str:
        state = "over" if self._closed_error else "connected" if self._current else "cut"
        calls, subscriptions = len(self._calls), len(self._subscriptions)
        return listed(f"{str(self.address)!r} {state}", some(calls, "call"), some(subscriptions, "subscription"))

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._current is not None

    # For callers

    async def call(
        self,
        name: str,
        *,
        session: str | None = None,
        body: JsonObject | None = None,
        query: JsonObject | None = None,
        command: str | None = None,
    ) -> Json:
        """Have the host carry out the call *name* of the table `CALLS`, and return what it gives; `None` if nothing.

        *command* is the command id; without one, a command gets one of this connection's own. Raises `NotJson` for what
        cannot be sent, the error that the host answers with, and `HostLost`. A caller that is cancelled gives up
        waiting; what was sent may be carried out.
        """
        row = CALLS[name]
        if row.command and command is None:
            command = f"{self._commands}-{next(self._ids)}"
        message = freeze_object(without_none(call=name, session=session, body=body, query=query, command=command))
        if row.held or row.waits:
            async with self._waiting_slots, self._call_slots:
                return await self._call(message, session or "")
        async with self._call_slots:
            return await self._call(message, session or "")

    def whole_id(self, session: str) -> str:
        """Return the id that the host shows of the session that this user calls *session*: the id, or its name."""
        return whole_id(self._user, kept_text(session, "the id of the session"))

    def listen(
        self,
        what: Listened,
        session: str | None = None,
        *,
        since: Cursor | None = None,
        types: Sequence[str] | None = None,
        policy: SubscriptionPolicy = "coalesce",
        changes: JsonObject | None = None,
    ) -> HostSubscription:
        """Return a subscription, for `async with` and then `async for`.

        *what* is `events`, of a *session*, after the cursor *since* (`None`: live ones alone) and of some *types*
        (`None`: all); or a view: `tree` or `approvals`. *policy* is for a subscription that is read too slowly.
        *changes* is the query for the rows of the tree, which are sent one by one; `None` for all else.
        """
        query = None if changes is None else freeze_object(changes)
        return HostSubscription(self, what, session, since=since, types=types, policy=policy, changes=query)

    async def _call(self, message: JsonObject, session: str) -> Json:
        """Send a call, and repeat it while the host is closing or has too many requests; return the result."""
        deadline = trio.current_time() + self._patience
        while True:
            if self._closed_error is not None:
                raise fresh(self._closed_error)
            name = str(next(self._ids))
            call = PendingCall(name, _encode({"id": name, **message}).decode(), session)
            await self._wait_answer(call)
            problem = call.problem
            if problem is None:
                return call.body
            if isinstance(problem, AgentrailError):
                raise fresh(problem)
            seconds = _seconds(problem)
            if problem.get("type") not in _PASSING or trio.current_time() + seconds > deadline:
                raise error_of(problem, session)
            with trio.move_on_after(seconds):
                await self._retry_early(problem).wait()

    async def _wait_answer(self, call: PendingCall) -> None:
        self._calls[call.id] = call
        self._post(call.text)
        try:
            await call.ended.wait()
        finally:
            if self._calls.pop(call.id, None) is not None and not call.ended.is_set():
                self._post(_end(call.id))

    # For subscriptions

    def begin(self, subscription: HostSubscription) -> None:
        """Ask the host to begin *subscription* at its cursor, under a new id."""
        if self._closed_error is not None:
            subscription.fail(fresh(self._closed_error))
            return
        subscription.id = str(next(self._ids))
        self._subscriptions[subscription.id] = subscription
        self._post(_encode(subscription.subscribe_message).decode())

    def stop(self, subscription: HostSubscription) -> None:
        """Ask the host to end *subscription*, and clear its id."""
        if self._subscriptions.pop(subscription.id, None) is not None:
            self._post(_end(subscription.id))
        subscription.id = ""

    # The connection

    async def run(self, task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC128 - it hands that on
        """Serve calls and subscriptions over a connection, and over the next one whenever it is cut.

        Raise an error if the first one fails. Return if the host refuses the key of a later one.
        """
        backoff = Backoff(self._longest_pause)
        cut: CutError | None = await self._serve_first(backoff, task_status.started)
        while cut is not None:
            log.info("the connection to %s is over: %s", self.address, cut.problem)
            self._fail_causes(cut)
            cut = await self._serve_again(cut.problem, backoff)

    async def _serve_first(self, backoff: Backoff, has_begun: Callable[[], None]) -> CutError:
        """Serve over the first connection until it is cut; return how. Raise an error if it cannot be made."""
        deadline = trio.current_time() + self._patience
        while True:
            try:
                return await self._serve(backoff, has_begun)
            except CutError as cut:
                raise HostNotReached(str(self.address), cut.problem, START_IT) from None
            except NotAHostError as other:
                raise HostNotReached(str(self.address), other.problem, NO_HOST) from None
            except ConnectionRejected as rejected:
                document = document_in(rejected)
                if document is None:
                    raise HostNotReached(str(self.address), describe_rejection(rejected), NO_HOST) from None
                error = error_of(document)
            if not isinstance(error, TooManyRequests) or trio.current_time() + error.retry_after > deadline:
                raise error
            await trio.sleep(error.retry_after)

    async def _serve(self, backoff: Backoff, has_begun: Callable[[], None] | None = None) -> CutError:
        """Connect, and serve calls and subscriptions until the connection is cut; return how it was cut.

        *has_begun* is called when the first connection is made. Raises the errors of `open_connection`.
        """
        async with open_connection(self.address, self._key, self._dial, self._dispatch) as connection:
            if has_begun is not None:
                self._user = connection.user
                has_begun()
            self._current = connection
            opened, self._reconnected = self._reconnected, trio.Event()
            opened.set()
            self._resume(connection)
            try:
                await connection.run()
            finally:
                self._current = None
        if connection.has_heard:
            backoff.mark_served(has_failed=connection.cut.code == FAULT)
        return connection.cut

    def _fail_causes(self, cut: CutError) -> None:
        """Fail the calls and subscriptions that made the host close the connection; the others go on."""
        if cut.code == TOO_LARGE:
            self._refuse_too_large(most_told(cut.reason))
        if cut.code == FAULT:
            self._fail_repeated_faults(cut.problem)
        else:
            for call in self._calls.values():
                call.faults = 0

    def _resume(self, connection: ClientConnection) -> None:
        """Send all open subscriptions and unanswered calls over the new *connection*."""
        for subscription in self._subscriptions.values():
            connection.post(_encode(subscription.subscribe_message).decode())
        for call in self._calls.values():
            connection.post(call.text)

    async def _serve_again(self, problem: str, backoff: Backoff) -> CutError | None:
        """Try until there is a connection again, and serve over it; `None` if the host refuses the key."""
        wanted_pause = 0.0
        while True:
            if backoff.lost_for >= self._patience:
                self._fail_all(HostLost(str(self.address), round(backoff.lost_for, 1), problem))
            await trio.sleep(max(wanted_pause, backoff.next_pause()))
            wanted_pause = 0.0
            try:
                return await self._serve(backoff)
            except (CutError, NotAHostError) as failed:
                problem = failed.problem
            except ConnectionRejected as rejected:
                document = document_in(rejected)
                if document is not None and rejected.status_code in {401, 403}:
                    self.end(error_of(document))
                    return None
                problem = describe_rejection(rejected)
                wanted_pause = min(_seconds(document or {}), self._longest_pause)

    def _fail_repeated_faults(self, problem: str) -> None:
        """Fail calls and subscriptions that were open at each of the last `MAX_FAULTS` faults: they may be causes."""
        waiters: list[PendingCall | HostSubscription] = [*self._calls.values(), *self._subscriptions.values()]
        for waiter in waiters:
            waiter.faults += 1
            if waiter.faults >= MAX_FAULTS:
                waiter.fail(HostFailed(f"{problem}, each of {MAX_FAULTS} times that it was asked"))
        self._calls = {name: call for name, call in self._calls.items() if call.faults < MAX_FAULTS}
        for name in [name for name, subscription in self._subscriptions.items() if subscription.faults >= MAX_FAULTS]:
            self._subscriptions.pop(name).id = ""

    def _fail_all(self, error: AgentrailError) -> None:
        for call in self._calls.values():
            call.fail(error)
        subscriptions, self._subscriptions = self._subscriptions, {}
        for subscription in subscriptions.values():
            subscription.id = ""
            subscription.fail(fresh(error))

    def end(self, error: AgentrailError) -> None:
        """End the connection for good: all open and all later calls and subscriptions fail with *error*."""
        self._closed_error = error
        self._fail_all(error)

    def _refuse_too_large(self, most: int | None) -> None:
        """Fail the calls and subscriptions whose message has more than *most* bytes; if `None`, the largest."""
        sizes = {name: len(call.text.encode()) for name, call in self._calls.items()}
        sizes |= {name: len(_encode(other.subscribe_message)) for name, other in self._subscriptions.items()}
        if most is None:
            most = max(sizes.values(), default=0) - 1
        for name in [name for name, size in sizes.items() if size > most]:
            call, subscription = self._calls.pop(name, None), self._subscriptions.pop(name, None)
            if call is not None:
                call.fail(BodyTooLarge(most))
            if subscription is not None:
                subscription.id = ""
                subscription.fail(BodyTooLarge(most))

    def _post(self, text: str) -> None:
        """Send *text*. No-op without a connection: `_resume` sends all that is still open over the next one."""
        if self._current is not None:
            self._current.post(text)

    def _retry_early(self, problem: JsonObject) -> trio.Event:
        """Return the event that ends the wait after *problem* early: if the host is closing, the next connection."""
        return self._reconnected if problem.get("type") == _CLOSING else trio.Event()

    def _dispatch(self, text: str) -> None:
        """Give a message of the host to the call or subscription that it is for; raise `BadText` if it is none."""
        frame = read_host_frame(text)
        if frame is None:
            return
        call = self._calls.get(frame.id)
        if call is not None:
            if isinstance(frame, AnswerFrame):
                call.body = frame.body
                call.ended.set()
            elif isinstance(frame, RefusalFrame):
                call.fail(frame.problem)
            return
        subscription = self._subscriptions.get(frame.id)
        if subscription is None:  # the subscription was ended here in the meantime
            return
        if isinstance(frame, RefusalFrame | EndedFrame):
            del self._subscriptions[frame.id]
            subscription.id = ""
            subscription.end() if isinstance(frame, EndedFrame) else self._on_refusal(subscription, frame.problem)
        elif not isinstance(frame, AnswerFrame):
            subscription.offer(frame, len(text))

    def _on_refusal(self, subscription: HostSubscription, problem: JsonObject) -> None:
        """Postpone or fail a subscription that the host refuses to begin, or ends, because of *problem*."""
        is_passing = problem.get("type") in _PASSING or (subscription.has_begun and problem.get("status") in _NOT_NOW)
        seconds = _seconds(problem)
        if is_passing and subscription.refused_for + seconds <= self._patience:
            subscription.postpone(seconds, self._retry_early(problem))
        else:
            subscription.fail(error_of(problem, subscription.session or ""))


@asynccontextmanager
async def open_line(
    url: str,
    key: str | Secret | HostKey,
    *,
    tls: ssl.SSLContext | None = None,
    patience: float = PATIENCE,
    dial: Dial | None = None,
    longest_pause: float = MAX_PAUSE,
) -> AsyncGenerator[HostConnection, None]:
    """Connect to the host at *url*, for the time of the `async with`.

    *url* begins with `https`, `http`, `wss` or `ws`, or is `unix:` and the path of a socket. *key* is the key itself,
    a `Secret` that names the environment variable with it, or a `HostKey`, which *dial* may change. *tls* says which
    certificates are trusted; `None`: those that the system trusts. *dial* makes the connections; `None`: the address is
    called. *longest_pause* is the most seconds between two attempts to connect. Raises `BadConnection`,
    `HostNotReached`, and `NotAuthenticated` or another refusal of the host.
    """
    address = read_address(url)
    key = key if isinstance(key, HostKey) else HostKey(key)
    connection = HostConnection(address, key, dial or partial(dial_address, address, tls), patience, longest_pause)
    async with open_shielded_nursery() as nursery:
        await nursery.start(connection.run)
        try:
            yield connection
        finally:
            connection.end(UsageError("line-left", str(connection.address)))


def _seconds(problem: JsonObject) -> float:
    """Return the seconds to wait before another attempt, as *problem* says."""
    seconds = problem.get("retry_after")
    return float(min(seconds, _NEVER)) if isinstance(seconds, int | float) and seconds > 0 else 1.0


def _end(name: str) -> str:
    return _encode({"id": name, "end": True}).decode()
