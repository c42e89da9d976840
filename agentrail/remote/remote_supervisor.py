"""`RemoteSupervisor`: starts and finds the sessions of a host; `connect` makes it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Never, cast

from agentrail.api.session_values import ChildView, HeldCall
from agentrail.api.views import (
    AgentsView,
    ApprovalsView,
    ErasedView,
    FiguresView,
    HeldView,
    OpenedView,
    RowChangesView,
    RowsView,
    SessionsView,
    TroublesView,
)
from agentrail.errors import SessionExists, SessionStored, WrongType
from agentrail.hints import missing_attribute
from agentrail.open_context import OpenContext, Way
from agentrail.ports.journal import StoredSession
from agentrail.remote.remote_session import (
    INSIDE,
    RemoteSession,
    RemoteView,
    answer_of,
    approvals_of,
    held_of,
    missing,
    stored_of,
    tree_of,
)
from agentrail.remote.transport.host_address import split_key
from agentrail.remote.transport.host_connection import PATIENCE, open_line, texts_of, without_none
from agentrail.remote.transport.host_subscription import Line
from agentrail.reprs import in_brackets
from agentrail.values.argument_checks import checked, with_spelt_calls
from agentrail.values.json import Json
from agentrail.values.secrets import Secret

CONNECTING: Final = Way("connect to a host", "connect", "supervisor", "url, key")
PROFILES: Final = "the name of a profile of the host: "

OF_HOST: Final = "it is of the process of the host"
OF_SUPERVISORS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "answered": (INSIDE, "send the command again under its id, which gives its answer"),
        "crashes": (OF_HOST, "look into its log"),
        "drain": (OF_HOST, "stop the process by SIGTERM, which drains it"),
        "figures": (OF_HOST, "read them from `GET /metrics`"),
        "resume": ("the host brings sessions back", "use `session`, whose calls bring it back"),
        "start_service": (OF_HOST, "start it there, by a plugin of the host"),
        "start_supervisor": (OF_HOST, "start it there"),
        "state": (INSIDE, "use `session`, and its `messages`"),
        "stop_child": (OF_HOST, "use `session`, and its `stop`"),
    }
)
"""By name of a method of `Supervisor`: why it is not there, and what to do instead."""


@with_spelt_calls
class RemoteSupervisor:
    """Starts sessions of a host's profiles at the host, and finds the host's sessions."""

    __slots__ = ("_line",)

    def __init__(self, line: Line) -> None:
        self._line = line

    @in_brackets
    def __repr__(self) -> str:
        return repr(str(self._line.address))

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report missing methods

        def __getattr__(self, name: str) -> Never:
            """Raise `NotAtHost`, with advice, for a method that only local supervisors have."""
            if name not in OF_SUPERVISORS:
                raise missing_attribute("Supervisor", self, name)
            missing(type(self), name, OF_SUPERVISORS)

    async def spawn(
        self,
        spec: str,
        id: str | None = None,  # noqa: A002 - what users call it
        *,
        title: str = "",
        labels: Iterable[str] = (),
        command: str | None = None,
    ) -> RemoteSession:
        """Start a session of the profile called *spec* and return its handle; raise an error if it cannot start."""
        if not isinstance(cast("object", spec), str):
            agents = answer_of(AgentsView, await self._line.call("agents")).items
            raise WrongType.of(
                "spec", spec, PROFILES + (", ".join([f"`{name}`" for name in agents]) or "it knows them")
            )
        body = without_none(agent=spec, session=id, title=title, labels=texts_of("labels", labels))
        return self._opened(await self._line.call("open_session", session=None, body=body, command=command))

    async def open(
        self,
        id: str,  # noqa: A002 - what users call it
        spec: str,
        *,
        title: str = "",
        labels: Iterable[str] = (),
    ) -> RemoteSession:
        """Return the session of this id: the one that there is, else a new one as by `spawn`."""
        try:
            return await self.spawn(spec, id, title=title, labels=labels)
        except (SessionExists, SessionStored):
            return self.session(id)

    async def fork(
        self,
        origin: str,
        *,
        at: int | str | None = None,
        id: str | None = None,  # noqa: A002 - what users call it
        command: str | None = None,
    ) -> RemoteSession:
        """Start a new session with the history of a stored one, up to record *at* or to its last record.

        *at* may also be the ref of a prompt: the history ends before its turn.
        """
        answer = await self._line.call("fork", session=origin, body=without_none(at=at, session=id), command=command)
        return self._opened(answer)

    def _opened(self, answer: Json) -> RemoteSession:
        return RemoteSession(self._line, answer_of(OpenedView, answer).session)

    async def stored(
        self, *, owner: str | None = None, label: str | None = None, ended: bool | None = None
    ) -> tuple[StoredSession, ...]:
        """Return summaries of the user's sessions, or of those of another *owner* (`*`: of all), sorted by id."""
        filter_ = without_none(owner=owner, label=label, ended=ended)
        stored: list[StoredSession] = []
        after: str | None = None
        while True:
            page = answer_of(
                SessionsView, await self._line.call("list_sessions", query={**filter_, **without_none(after=after)})
            )
            stored += map(stored_of, page.items)
            after = page.next
            if after is None:
                return tuple(stored)

    async def delete(self, id: str) -> None:  # noqa: A002 - what users call it
        """Delete a session for good, with its sub-agents and files; if it runs, it is ended first."""
        await self._line.call("delete_session", session=id)

    async def redact(self, id: str, first: int = 1, last: int | None = None) -> int:  # noqa: A002 - what users call it
        """Replace the texts in records *first* to *last* of a session by a mark; return how many were changed.

        If it runs, it is ended first. Its uploaded files are erased. The records say that this user did it.
        """
        query = without_none(redact=True, first=first, last=last)
        return answer_of(ErasedView, await self._line.call("delete_session", session=id, query=query)).records or 0

    def session(self, id: str) -> RemoteSession:  # noqa: A002 - what users call it
        """Return the handle of a session, by its id or, if it is this user's own, its name.

        Nothing is checked here: calls of a missing session raise an error.
        """
        return RemoteSession(self._line, self._line.whole_id(id))

    async def sessions(self) -> tuple[RemoteSession, ...]:
        """Return the handles of the user's sessions that have not ended; calls bring back those that do not run."""
        return tuple([self.session(stored.session_id) for stored in await self.stored(ended=False)])

    async def tree(self) -> ChildView:
        """Return a view of the sessions of the tenant that run, with their sub-agents."""
        return tree_of(await self._line.call("tree"))

    async def approvals(self) -> Mapping[str, tuple[HeldCall, ...]]:
        """Return the held calls that this user may decide about, by session, including sessions that do not run."""
        views: list[HeldView] = []
        after: str | None = None
        while True:
            page = answer_of(ApprovalsView, await self._line.call("approvals", query=without_none(after=after)))
            views += page.items
            after = page.next
            if after is None:
                return held_of(views)

    async def rows(
        self,
        *,
        search: str | None = None,
        phase: str | None = None,
        held: bool | None = None,
        trouble: bool | None = None,
        limit: int | None = None,
    ) -> RowsView:
        """Return the sessions of the tenant that run as rows, those that fit, up to a limit.

        *search* is a text of id, title, agent, user, model or running tool; *held* and *trouble* say whether calls
        wait for a person, and whether something went wrong of late.
        """
        query = without_none(search=search, phase=phase, held=held, trouble=trouble, limit=limit)
        return answer_of(RowsView, await self._line.call("rows", query=query))

    def watch_rows(
        self,
        *,
        search: str | None = None,
        phase: str | None = None,
        held: bool | None = None,
        trouble: bool | None = None,
        limit: int | None = None,
    ) -> RemoteView[RowChangesView]:
        """Return what `rows` gives, and then what has changed in it, at most ten times a second.

        `async with` it, then `async for`. After a lost connection, all rows come again, with `first` set.
        """
        query = without_none(search=search, phase=phase, held=held, trouble=trouble, limit=limit)
        return RemoteView(self._line.listen("tree", changes=query), partial(answer_of, RowChangesView))

    async def trouble(self, *, since_ms: int | None = None, limit: int | None = None) -> TroublesView:
        """Return what went wrong in the sessions of the tenant within the last hour, or since then, newest first."""
        query = without_none(since_ms=since_ms, limit=limit)
        return answer_of(TroublesView, await self._line.call("trouble", query=query))

    async def figures_over_time(
        self,
        per: Literal["tenant", "session", "model", "tool"] = "tenant",
        *,
        since_ms: int | None = None,
        until_ms: int | None = None,
        limit: int | None = None,
    ) -> FiguresView:
        """Return what the sessions of the tenant did and used over time: the last hour, or another stretch.

        Times are in milliseconds since 1970; *limit* is how many series come, those that have cost most.
        """
        query = without_none(per=per, since_ms=since_ms, until_ms=until_ms, limit=limit)
        return answer_of(FiguresView, await self._line.call("figures", query=query))

    def watch_approvals(self) -> RemoteView[Mapping[str, tuple[HeldCall, ...]]]:
        """Return what `approvals` gives, at first and each time it has changed: the first 1,000 calls that wait."""
        return RemoteView(self._line.listen("approvals"), approvals_of)


@checked
def connect(
    url: str, key: str | Secret | None = None, *, tls: ssl.SSLContext | None = None, patience: float = PATIENCE
) -> AbstractAsyncContextManager[RemoteSupervisor]:
    """Connect to the host at *url*, for the time of the `async with`.

    *url* begins with `https`, `http`, `wss` or `ws`, or is `unix:` and the path of a socket. *key* is the key itself,
    or a `Secret` that names the environment variable with it; `None` if *url* ends with it, `#token=…`, as the address
    does that a host prints at its start. *tls* says which certificates are trusted; `None`: those that the system
    trusts. After a cut the connection is made again; calls wait for it for *patience* seconds.
    """
    if key is None:
        url, key = split_key(url)
    return OpenContext(_connected(url, key, tls, patience), RemoteSupervisor, CONNECTING)


@asynccontextmanager
async def _connected(
    url: str, key: str | Secret, tls: ssl.SSLContext | None, patience: float
) -> AsyncGenerator[RemoteSupervisor, None]:
    async with open_line(url, key, tls=tls, patience=patience) as line:
        yield RemoteSupervisor(line)
