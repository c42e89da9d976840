"""`FaceCalls`: the calls of a host that a face makes in the name of one client, with what guards each of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeVarTuple, Unpack, cast

import trio
from attrs import evolve

from agentrail.api.body_parsing import body_of, query_of
from agentrail.api.command_checks import kinds_of
from agentrail.api.operation_table import CALLS
from agentrail.api.problems import Problem, error_of
from agentrail.api.public_ids import WHOLE_JOURNAL, escaped
from agentrail.api.socket_frames import query_pairs
from agentrail.api.views import to_plain
from agentrail.errors import AgentrailError, BadChoice
from agentrail.host.authentication.identity import Identity
from agentrail.host.faces.session_events import SessionEvents
from agentrail.host.operations.call import Answer, OperationCall, Shown, Streamed
from agentrail.host.operations.host_operations import HostOperations
from agentrail.host.requests.access_log import RequestNote
from agentrail.host.requests.http_messages import Headers
from agentrail.runtime.shared.untrusted_calls import Contained, tell
from agentrail.values.argument_checks import checked
from agentrail.values.events.envelope import Cursor, Event
from agentrail.values.json import EMPTY, Json, JsonObject, freeze_object

log = logging.getLogger("agentrail.host")

Ts = TypeVarTuple("Ts")

EVENTS: Final = "events"
OF_THE_FACE: Final = frozenset({"idempotency-key", "last-event-id"})
"""Headers that mean something to the face, and are not passed on with its calls."""


class FaceCalls:
    """Makes calls of the host for one client, with the scopes of its key, the rules of the host, and its plugins.

    They are the calls of [the HTTP interface](../reference/http.md), by their names and with the same bodies, queries
    and answers; a cluster passes them on to the host that has the session. A call raises the errors of agentrail that
    the document of the interface names, such as `UnknownSession` also for a session of another tenant.
    """

    def __init__(
        self,
        operations: HostOperations,
        nursery: trio.Nursery,
        identity: Identity,
        wait_withdrawn: Callable[[], Awaitable[object]],
        headers: Headers,
        note: RequestNote,
    ) -> None:
        self._operations = operations
        self._nursery = nursery
        self._identity = identity
        self._wait_withdrawn = wait_withdrawn
        """Returns when the key of the client does not count any more."""
        self._headers = tuple([header for header in headers if header[0] not in OF_THE_FACE])
        self._note = note

    @checked
    async def call(
        self,
        name: str,
        *,
        session: str = "",
        body: Mapping[str, Json] = EMPTY,
        query: Mapping[str, Json] = EMPTY,
        command: str | None = None,
    ) -> JsonObject:
        """Make the call *name*, such as `prompt`, and return its answer; raise `AgentrailError` if it is refused.

        *session* is the id in its path. With the same *command*, 1 to 128 visible characters, a call that has a body
        is carried out once.
        """
        answer = await self._answer(self._call(name, session, command), body, query)
        if not isinstance(answer, Shown):
            raise BadChoice("name", name, "calls whose answer is JSON; `events` has a method of its own")
        return cast("JsonObject", answer.plain) if answer.content else EMPTY

    @checked
    def events(
        self, session: str, since: Cursor | str | None = None, types: Sequence[type[Event]] | None = None
    ) -> AbstractAsyncContextManager[SessionEvents]:
        """Return the events of a session: `async with` it, then `async for`; after *since*, or live ones alone.

        `envelope.cursor` is the position from which to go on after a lost connection, also at another host. *types* are
        the classes of the events that are wanted; all if not given.
        """
        return self._events(session, since, types)

    @asynccontextmanager
    async def _events(
        self, session: str, since: Cursor | str | None, types: Sequence[type[Event]] | None
    ) -> AsyncGenerator[SessionEvents]:
        query: dict[str, Json] = {"position": True}
        if since is not None:
            query["since"] = str(since)
        if types is not None:
            query["types"] = ",".join([kind.__name__ for kind in kinds_of(types)])
        answer = await self._answer(self._call(EVENTS, session, None), EMPTY, query)
        if not isinstance(answer, Streamed):
            raise BadChoice("session", session, "one whose events are streamed")
        events = SessionEvents(session)
        self._nursery.start_soon(events.run, answer.write)
        try:
            await events.begin()
            yield events
        finally:
            await events.leave()  # noqa: ASYNC102 - it is shielded, and waits for what ends at once

    @checked
    async def position(self, session: str) -> Cursor:
        """Return the position of the last event of a session."""
        async with self.events(session) as events:
            return events.position

    def start_task(self, function: Callable[[Unpack[Ts]], Awaitable[object]], *args: *Ts) -> None:
        """Run the async *function* beside the host, until it returns, the host ends or the client's key is withdrawn.

        An error of it is logged.
        """
        self._nursery.start_soon(self._run_task, function, args)

    async def _run_task(self, function: Callable[..., Awaitable[object]], args: tuple[object, ...]) -> None:
        """Body of a task of the face: run *function* as long as the key of its client counts."""
        async with trio.open_nursery() as nursery:  # noqa: TID251 - the watch on the key ends with the function
            nursery.start_soon(self._watch_key, nursery.cancel_scope)
            with Contained(_log_failure):
                await function(*args)
            nursery.cancel_scope.cancel()

    async def _watch_key(self, scope: trio.CancelScope) -> None:
        """Cancel *scope* when the key does not count any more, or nobody can say whether it does."""
        with Contained(_log_failure):
            await self._wait_withdrawn()
        scope.cancel()

    @checked
    def own_name(self, session: str) -> str:
        """Return what the client may call a session: of an own one the name, of one of others the whole id."""
        owner, dot, name = session.partition(".")
        is_whole = self._identity.tenant == WHOLE_JOURNAL
        return name if dot and not is_whole and owner == escaped(self._identity.user) else session

    def _call(self, name: str, session: str, command: str | None) -> OperationCall:
        row = CALLS.get(name)
        if row is None:
            raise BadChoice.among("name", name, CALLS)
        limits = self._operations.limits
        return OperationCall(row, self._identity, session, limits, key=command, headers=self._headers, note=self._note)

    async def _answer(self, call: OperationCall, body: JsonObject, query: JsonObject) -> Answer:
        """Return the answer to *call*; raise the error that it tells of, in the words for clients of the host."""
        row = call.row
        try:
            self._operations.check_open()
            self._operations.admit(row, self._identity, is_counted=True)
            content = None if row.body is None else body_of(row, freeze_object(body))
            sent_query = query_of(row, query_pairs(query))
            answer = await self._operations.carry_out(evolve(call, body=content, query=sent_query))
        except AgentrailError as error:  # its own words may name the tenant, or be for the operator
            answer = call.problem(error)
        if isinstance(answer, Problem):
            raise _told_error(cast("JsonObject", to_plain(answer.document)), call.session)
        if isinstance(answer, Shown) and answer.is_problem:  # of another host, to which the call was passed on
            raise _told_error(cast("JsonObject", answer.plain), call.session)
        return answer


def _told_error(document: JsonObject, session: str) -> AgentrailError:
    """Return the error of a problem document, with its text, which is for clients of the host."""
    error = error_of(document, session)
    error.told = str(document.get("detail") or error)
    return error


def _log_failure(error: BaseException) -> None:
    tell(log, error, "a task of a face failed", words=False)
