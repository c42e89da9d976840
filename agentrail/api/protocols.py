"""`AnySession` and `AnySupervisor`: the methods that handles have, for a session of this process and for one at a host.

A local handle returns a status at once, and a remote one returns an awaitable; `awaited` takes both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias, TypeVar, cast, overload

from typing_extensions import TypeForm

from agentrail.api.session_calls import SessionCalls
from agentrail.api.session_values import ChildView, HeldCall, Reply, SessionDown, Status
from agentrail.api.turn_events import TurnReader
from agentrail.core.vocabulary.commands import Accepted
from agentrail.core.vocabulary.state import Prompt
from agentrail.ports.journal import StoredSession
from agentrail.ports.tool import Task
from agentrail.values.argument_checks import checked
from agentrail.values.content import Part
from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.json import Json, JsonObject
from agentrail.values.messages import Message
from agentrail.values.rewinds import RewindPreview, Rewound
from agentrail.values.tools import Err, Ok

T = TypeVar("T")
Code_contra = TypeVar("Code_contra", contravariant=True)

Look: TypeAlias = T | Awaitable[T]
"""What a look at a session gives: at once, or when the host has answered."""


@checked
async def awaited(look: Look[T]) -> T:
    """Return the result of a call such as `status()`, which a remote handle returns as an awaitable."""
    return await cast("Awaitable[T]", look) if isinstance(look, Awaitable) else look


class AnyMonitor(Protocol):
    """Interface: waits for the end of a session."""

    async def wait(self) -> SessionDown:
        """Return when the session is gone for good."""
        ...


class AnySession(SessionCalls, Protocol):
    """Interface: the handle of a session, here or at a host."""

    @property
    def id(self) -> str:
        """The session's id."""
        ...

    async def prompt(
        self,
        text: str | Iterable[Part],
        *,
        returns: TypeForm[object] | Mapping[str, Json] | None = None,
        command: str | None = None,
    ) -> Accepted:
        """Send a prompt: it starts a turn, or is queued."""
        ...

    @overload
    async def ask(
        self,
        text: str | Iterable[Part],
        *,
        returns: None = None,
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> Reply: ...

    @overload
    async def ask(
        self,
        text: str | Iterable[Part],
        *,
        returns: TypeForm[T],
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> T: ...

    @overload
    async def ask(
        self,
        text: str | Iterable[Part],
        *,
        returns: Mapping[str, Json],
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> JsonObject: ...

    async def ask(
        self,
        text: str | Iterable[Part],
        *,
        returns: object = None,
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> object:
        """Send a prompt and return how its turn ended; with *returns*, a type or a JSON Schema, such an object."""
        ...

    @overload
    def stream(
        self,
        text: str | Iterable[Part],
        *,
        returns: None = None,
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> AbstractAsyncContextManager[TurnReader[Reply]]: ...

    @overload
    def stream(
        self,
        text: str | Iterable[Part],
        *,
        returns: TypeForm[T],
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> AbstractAsyncContextManager[TurnReader[T]]: ...

    @overload
    def stream(
        self,
        text: str | Iterable[Part],
        *,
        returns: Mapping[str, Json],
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> AbstractAsyncContextManager[TurnReader[JsonObject]]: ...

    def stream(
        self,
        text: str | Iterable[Part],
        *,
        returns: object = None,
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> AbstractAsyncContextManager[TurnReader[object]]:
        """Return the turn of a prompt: `async with` it, `async for` over its events, then read `reply`, as of `ask`."""
        ...

    async def reply(self, ref: str | None = None, *, until: Literal["rest", "end"] = "rest") -> Reply:
        """Wait for the end of the open turn, or of that of the prompt *ref*, and return what `ask` does."""
        ...

    async def steer(self, text: str, *, when: Literal["gap", "now"] = "gap", command: str | None = None) -> Accepted:
        """Send a text for the open turn's next request."""
        ...

    def status(self) -> Look[Status]:
        """Return what the session is doing."""
        ...

    def messages(self) -> Look[tuple[Message, ...]]:
        """Return the conversation."""
        ...

    def queued(self) -> Look[tuple[Prompt, ...]]:
        """Return the queued prompts."""
        ...

    def tasks(self) -> Look[tuple[Task, ...]]:
        """Return the running sub-agents, and the last ended ones in the background, as the journal has them."""
        ...

    async def task_result(self, child: str) -> Ok | Err:
        """Wait for the answer of a sub-agent and return it."""
        ...

    async def wait_tasks(self, *children: str, every: bool = True, seconds: float = 300.0) -> Mapping[str, Ok | Err]:
        """Wait until all of these sub-agents have ended, or any one; return the answers of those that have, by id."""
        ...

    def subscribe(
        self,
        since: Cursor | tuple[int, int] | int | None = None,
        types: Iterable[type[Event]] | None = None,
        policy: Literal["coalesce", "drop", "disconnect"] = "coalesce",
    ) -> AbstractAsyncContextManager[AsyncIterator[Envelope]]:
        """Return the session's events as an async iterator: those after *since* that are kept, then live ones."""
        ...

    def monitor(self) -> AbstractAsyncContextManager[AnyMonitor]:
        """Return a monitor: `async with` it, then `wait()` for the end of the session."""
        ...

    async def fork(self, at: int | str | None = None, id: str | None = None) -> AnySession:  # noqa: A002 - what users call it
        """Start a session with the past of this one, up to record *at*, or before the turn of the prompt *at*."""
        ...

    async def preview_rewind(self, since: int | str) -> RewindPreview:
        """Return which files `rewind` to *since* would bring back now, and which somebody else has changed since."""
        ...

    async def rewind(
        self,
        since: int | str,
        files: Iterable[str] | None = None,
        *,
        over_edits: bool = False,
        command: str | None = None,
    ) -> Rewound:
        """Bring back files that the session's calls changed since a record, or since before the turn of a prompt."""
        ...


class AnySupervisor(Protocol[Code_contra]):
    """Interface: a supervisor here, which starts sessions of a `SessionSpec`, or a host's, of the name of a profile."""

    async def spawn(
        self,
        spec: Code_contra,
        id: str | None = None,  # noqa: A002 - what users call it
        *,
        title: str = "",
        labels: Iterable[str] = (),
        command: str | None = None,
    ) -> AnySession:
        """Start a session and return its handle."""
        ...

    async def open(
        self,
        id: str,  # noqa: A002 - what users call it
        spec: Code_contra,
        *,
        title: str = "",
        labels: Iterable[str] = (),
    ) -> AnySession:
        """Return the session of this id: the one that there is, else a new one as by `spawn`."""
        ...

    async def delete(self, id: str) -> None:  # noqa: A002 - what users call it
        """Delete a session for good, with its sub-agents; its id can be used again."""
        ...

    async def stored(self) -> tuple[StoredSession, ...]:
        """Return summaries of stored sessions."""
        ...

    def session(self, id: str) -> AnySession:  # noqa: A002 - what users call it
        """Return the handle of the session *id*."""
        ...

    def sessions(self) -> Look[tuple[AnySession, ...]]:
        """Return the handles of all sessions that run."""
        ...

    def tree(self) -> Look[ChildView]:
        """Return a view of the supervisor and all its descendants."""
        ...

    def approvals(self) -> Look[Mapping[str, tuple[HeldCall, ...]]]:
        """Return the calls and questions that wait for a person's decision or answer, by session."""
        ...
