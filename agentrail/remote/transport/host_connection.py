"""`Line`: calls and subscriptions over one connection to a host, which is made again whenever it is cut."""

from __future__ import annotations

import logging
import random
import secrets
import ssl
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Final

import msgspec
import trio

from agentrail.api import problems
from agentrail.api.operation_table import CALLS
from agentrail.api.problems import error_of
from agentrail.api.socket_frames import FAULT, TOO_LARGE, Listened, most_told
from agentrail.errors import (
    AgentrailError,
    BodyTooLarge,
    HostFailed,
    HostLost,
    HostNotReached,
    LineLeft,
    TooManyRequests,
    WrongType,
)
from agentrail.errors.agentrail_error import fresh
from agentrail.nurseries import open_shielded_nursery
from agentrail.remote.transport.client_handshake import OtherError, RejectedError, document_in, said_by
from agentrail.remote.transport.client_socket import ClientSocket, CutError, Dial, dial_address, open_websocket
from agentrail.remote.transport.host_address import HostAddress, HostKey, read_address
from agentrail.remote.transport.host_frames import AnswerFrame, EndedFrame, RefusalFrame, read_host_frame
from agentrail.remote.transport.host_subscription import LineSubscription
from agentrail.remote.transport.open_connection import OpenConnection
from agentrail.reprs import in_brackets, listed, some
from agentrail.values.events.envelope import Cursor
from agentrail.values.events.policies import Policy
from agentrail.values.json import Json, JsonObject
from agentrail.values.secrets import Secret


class CallUnderWay:
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
        """It ends with *problem*."""
        self.problem = problem
        self.ended.set()


def without_none(**fields: Json) -> JsonObject:
    """Return those of *fields* that are not `None`: the others are not sent."""
    return {name: value for name, value in fields.items() if value is not None}


def texts_of(argument: str, texts: Iterable[str]) -> list[str]:
    """Return a list of texts; raise `WrongType` if it is one text, which would be taken apart."""
    if isinstance(texts, str):
        raise WrongType.of(argument, texts, "a list of texts")
    return list(texts)


log: Final = logging.getLogger("agentrail.remote")

MOST_CALLS: Final = 64
"""The most calls that are under way over one line, as a host reads no further ones; more wait for their turn."""

MOST_WAITING: Final = 48
"""The most of them that wait for the end of a turn, or of other work, so that an abort always finds room."""

PATIENCE: Final = 60.0
"""For how many seconds a line without a connection keeps its callers waiting."""

MOST_FAULTS: Final = 5
"""Connections in a row that a host closes for a fault of its own; what it was asked on each is asked no more then."""

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 5.0

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


class Line:
    """A connection to a host over which several tasks call and listen at once. `open_line` makes it.

    When it is cut, it is made again, with growing pauses. Subscriptions go on after their last event. A call in flight
    is sent again: a command under its command id, so that the host carries it out once. Callers notice nothing, unless
    there is no connection for `patience` seconds; then calls and subscriptions end with `HostLost`, and the line goes
    on trying for later ones. What a host answers by a fault of its own again and again ends with `HostFailed`. A host
    that counts too many requests is asked again later, also for so long.
    """

    def __init__(self, address: HostAddress, key: HostKey, dial: Dial, patience: float) -> None:
        self.address = address
        """Where the host listens."""
        self._key = key
        self._dial = dial
        self._patience = patience
        self._ids = count(1)
        self._commands = f"line-{secrets.token_hex(12)}"
        self._calls: dict[str, CallUnderWay] = {}
        self._listenings: dict[str, LineSubscription] = {}
        self._room = trio.CapacityLimiter(MOST_CALLS)
        self._waiting_room = trio.CapacityLimiter(MOST_WAITING)
        self._connection: OpenConnection | None = None
        self._over: AgentrailError | None = None
        self._lost_at = 0.0
        self._made_again = trio.Event()

    @in_brackets
    def __repr__(self) -> str:
        state = "over" if self._over else "connected" if self._connection else "cut"
        calls, listenings = len(self._calls), len(self._listenings)
        return listed(f"{str(self.address)!r} {state}", some(calls, "call"), some(listenings, "subscription"))

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

        *command* is the command id; without one, a command gets one of this line's own. Raises the error that the host
        answers with, and `HostLost`. A caller that is cancelled gives up waiting; what was sent may be carried out.
        """
        row = CALLS[name]
        if row.command and command is None:
            command = f"{self._commands}-{next(self._ids)}"
        message = without_none(call=name, session=session, body=body, query=query, command=command)
        if row.held or row.waits:
            async with self._waiting_room, self._room:
                return await self._answered(message, session or "")
        async with self._room:
            return await self._answered(message, session or "")

    def listen(
        self,
        what: Listened,
        session: str | None = None,
        *,
        since: Cursor | None = None,
        types: Sequence[str] | None = None,
        policy: Policy = "coalesce",
    ) -> LineSubscription:
        """Return a subscription, for `async with` and then `async for`.

        *what* is `events`, of a *session*, after the cursor *since* (`None`: live ones alone) and of some *types*
        (`None`: all); or a view: `tree` or `approvals`. *policy* is for a subscription that is read too slowly.
        """
        return LineSubscription(self, what, session, since=since, types=types, policy=policy)

    async def _answered(self, message: JsonObject, session: str) -> Json:
        """Send a call, also again while the host is closing or counts too many requests; return what comes back."""
        patience = trio.current_time() + self._patience
        while True:
            if self._over is not None:
                raise fresh(self._over)
            name = str(next(self._ids))
            call = CallUnderWay(name, _encode({"id": name, **message}).decode(), session)
            await self._exchange(call)
            problem = call.problem
            if problem is None:
                return call.body
            if isinstance(problem, AgentrailError):
                raise fresh(problem)
            seconds = _seconds(problem)
            if problem.get("type") not in _PASSING or trio.current_time() + seconds > patience:
                raise error_of(problem, session)
            with trio.move_on_after(seconds):
                await self._sooner(problem).wait()

    async def _exchange(self, call: CallUnderWay) -> None:
        self._calls[call.id] = call
        self._post(call.text)
        try:
            await call.ended.wait()
        finally:
            if self._calls.pop(call.id, None) is not None and not call.ended.is_set():
                self._post(_end(call.id))

    # For subscriptions

    def begin(self, listening: LineSubscription) -> None:
        """Have the host send what *listening* wants, from its cursor on; give it a new id."""
        if self._over is not None:
            listening.fail(fresh(self._over))
            return
        listening.id = str(next(self._ids))
        self._listenings[listening.id] = listening
        self._post(_encode(listening.wish).decode())

    def stop(self, listening: LineSubscription) -> None:
        """Have the host send nothing more to *listening*, and take its id from it."""
        if self._listenings.pop(listening.id, None) is not None:
            self._post(_end(listening.id))
        listening.id = ""

    # The connection

    async def open(self) -> ClientSocket:
        """Make the first connection; raise what stands in the way."""
        patience = trio.current_time() + self._patience
        while True:
            try:
                return await self._opened()
            except TooManyRequests as refused:
                seconds = refused.retry_after
                if trio.current_time() + seconds > patience:
                    raise
            await trio.sleep(seconds)

    async def _opened(self) -> ClientSocket:
        try:
            return await open_websocket(self.address, self._key, self._dial)
        except CutError as cut:
            raise HostNotReached(str(self.address), cut.problem, START_IT) from None
        except OtherError as other:
            raise HostNotReached(str(self.address), other.problem, NO_HOST) from None
        except RejectedError as rejected:
            document = document_in(rejected.rejection)
            if document is None:
                raise HostNotReached(str(self.address), said_by(rejected.rejection), NO_HOST) from None
            raise error_of(document) from None

    async def run(self, socket: ClientSocket) -> None:
        """Serve the line over *socket*, and over those that follow when it is cut; return if the key is refused."""
        attempts = 0
        self._lost_at = trio.current_time()
        while True:
            connection = self._connection = OpenConnection(socket, self._take)
            opened, self._made_again = self._made_again, trio.Event()
            opened.set()
            self._resume(connection)
            try:
                cut = await connection.run()
            finally:
                self._connection = None
            log.info("the connection to %s is over: %s", self.address, cut.problem)
            if cut.code == TOO_LARGE:
                self._refuse_too_large(most_told(cut.reason))
            if connection.has_heard:
                attempts, self._lost_at = attempts if cut.code == FAULT else 0, trio.current_time()
            if cut.code == FAULT:
                self._give_up_asking(cut.problem)
            else:
                for call in self._calls.values():
                    call.faults = 0
            again = await self._opened_again(cut.problem, attempts)
            if again is None:
                return
            socket, attempts = again

    def _resume(self, connection: OpenConnection) -> None:
        """Send again what waits for an answer."""
        for listening in self._listenings.values():
            connection.post(_encode(listening.wish).decode())
        for call in self._calls.values():
            connection.post(call.text)

    async def _opened_again(self, problem: str, attempts: int) -> tuple[ClientSocket, int] | None:
        """Try until there is a connection, and return it with the number of attempts; `None` if the key is refused."""
        wanted_pause = 0.0
        while True:
            if trio.current_time() - self._lost_at >= self._patience:
                self._give_up_waiting(problem)
            longest = min(FIRST_PAUSE * 2 ** min(attempts, 10), LONGEST_PAUSE)
            await trio.sleep(max(wanted_pause, longest * random.uniform(0.5, 1)))  # noqa: S311 - it spreads attempts
            attempts, wanted_pause = attempts + 1, 0.0
            try:
                return await open_websocket(self.address, self._key, self._dial), attempts
            except (CutError, OtherError) as failed:
                problem = failed.problem
            except RejectedError as rejected:
                document = document_in(rejected.rejection)
                if document is not None and rejected.rejection.status in {401, 403}:
                    self.end(error_of(document))
                    return None
                problem = said_by(rejected.rejection)
                wanted_pause = min(_seconds(document or {}), LONGEST_PAUSE)

    def _give_up_waiting(self, problem: str) -> None:
        lost_for = round(trio.current_time() - self._lost_at, 1)
        self._fail_all(HostLost(str(self.address), lost_for, problem))

    def _give_up_asking(self, problem: str) -> None:
        """Fail what each of the last `MOST_FAULTS` connections was asked: the next one would be closed as well."""
        every: list[CallUnderWay | LineSubscription] = [*self._calls.values(), *self._listenings.values()]
        for waiting in every:
            waiting.faults += 1
            if waiting.faults >= MOST_FAULTS:
                waiting.fail(HostFailed(f"{problem}, each of {MOST_FAULTS} times that it was asked"))
        self._calls = {name: call for name, call in self._calls.items() if call.faults < MOST_FAULTS}
        for name in [name for name, listening in self._listenings.items() if listening.faults >= MOST_FAULTS]:
            self._listenings.pop(name).id = ""

    def _fail_all(self, error: AgentrailError) -> None:
        for call in self._calls.values():
            call.fail(error)
        listenings, self._listenings = self._listenings, {}
        for listening in listenings.values():
            listening.id = ""
            listening.fail(fresh(error))

    def end(self, error: AgentrailError) -> None:
        """End the line for good: all that wait, and all that come later, get *error*."""
        self._over = error
        self._fail_all(error)

    def _refuse_too_large(self, most: int | None) -> None:
        """The host takes no message of more than *most* bytes; `None` if it has not said so: let it be the largest."""
        sizes = {name: len(call.text.encode()) for name, call in self._calls.items()}
        sizes |= {name: len(_encode(listening.wish)) for name, listening in self._listenings.items()}
        if most is None:
            most = max(sizes.values(), default=0) - 1
        for name in [name for name, size in sizes.items() if size > most]:
            call, listening = self._calls.pop(name, None), self._listenings.pop(name, None)
            if call is not None:
                call.fail(BodyTooLarge(most))
            if listening is not None:
                listening.id = ""
                listening.fail(BodyTooLarge(most))

    def _post(self, text: str) -> None:
        """Send *text*; without a connection nothing is sent, and `_resume` sends later what is wanted then."""
        if self._connection is not None:
            self._connection.post(text)

    def _sooner(self, problem: JsonObject) -> trio.Event:
        """Return what ends the wait after *problem* early: if the host closes, the connection to its next process."""
        return self._made_again if problem.get("type") == _CLOSING else trio.Event()

    def _take(self, text: str) -> None:
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
        listening = self._listenings.get(frame.id)
        if listening is None:  # it was ended in the meantime
            return
        if isinstance(frame, RefusalFrame | EndedFrame):
            del self._listenings[frame.id]
            listening.id = ""
            listening.end() if isinstance(frame, EndedFrame) else self._refused(listening, frame.problem)
        elif not isinstance(frame, AnswerFrame):
            listening.offer(frame, len(text))

    def _refused(self, listening: LineSubscription, problem: JsonObject) -> None:
        """The host does not begin a subscription, or ends it."""
        is_passing = problem.get("type") in _PASSING or (listening.has_begun and problem.get("status") in _NOT_NOW)
        seconds = _seconds(problem)
        if is_passing and listening.refused_for + seconds <= self._patience:
            listening.wait(seconds, self._sooner(problem))
        else:
            listening.fail(error_of(problem, listening.session or ""))


@asynccontextmanager
async def open_line(
    url: str,
    key: str | Secret,
    *,
    tls: ssl.SSLContext | None = None,
    patience: float = PATIENCE,
    dial: Dial | None = None,
) -> AsyncGenerator[Line, None]:
    """Connect to the host at *url*, for the time of the `async with`.

    *url* begins with `https`, `http`, `wss` or `ws`, or is `unix:` and the path of a socket. *key* is the key itself,
    or a `Secret` that names the environment variable with it. *tls* says which certificates are trusted; `None`: those
    that the system trusts. *dial* makes the connections; `None`: the address is called. Raises `BadConnection`,
    `HostNotReached`, and `NotAuthenticated` or another refusal of the host.
    """
    address = read_address(url)
    line = Line(address, HostKey(key), dial or partial(dial_address, address, tls), patience)
    async with open_shielded_nursery() as nursery:
        nursery.start_soon(line.run, await line.open())
        try:
            yield line
        finally:
            line.end(LineLeft(str(line.address)))


def _seconds(problem: JsonObject) -> float:
    """Return after how many seconds another attempt may go well."""
    seconds = problem.get("retry_after")
    return float(min(seconds, _NEVER)) if isinstance(seconds, int | float) and seconds > 0 else 1.0


def _end(name: str) -> str:
    return _encode({"id": name, "end": True}).decode()
