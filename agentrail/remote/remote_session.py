"""`RemoteSession`: the handle of a session that runs at a host, with the methods of a local one.

The answers of a host are converted to the values of local handles: one by one, or as async iterators over what comes.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Final, Generic, Literal, Never, Self, TypeVar, cast, overload

import msgspec
from msgspec.structs import asdict
from typing_extensions import TypeForm

from agentrail.api.bodies import OfferKind
from agentrail.api.command_checks import (
    AnyCommand,
    check_flag,
    choice_of,
    command_id_of,
    command_of,
    cursor_of,
    kept_parts,
    kept_text,
    kinds_of,
    paths_of,
    rewind_point_of,
    text_of,
)
from agentrail.api.insight_views import AccountView, RecordsView, RecordView, SeenView, StateAtView, TimelineView
from agentrail.api.operation_table import COMMANDS
from agentrail.api.session_calls import SessionCalls
from agentrail.api.session_values import UNTILS, ChildView, HeldCall, Reply, SessionDown, Status, Until
from agentrail.api.views import (
    AcceptedView,
    ApprovalsView,
    ChildShown,
    DetailView,
    FilePieceView,
    HeldView,
    MessagesView,
    OfferedView,
    OpenedView,
    QueueView,
    RewindPreviewView,
    RewoundView,
    SessionView,
    TaskResultsView,
    TaskResultView,
    TasksView,
    TurnReplyView,
    WholeReplyView,
    WrittenFilesView,
    to_json,
)
from agentrail.codec.values import decode_of_host
from agentrail.core.vocabulary.commands import WHENS, Accepted
from agentrail.core.vocabulary.state import Prompt
from agentrail.errors import (
    AnswerUnfit,
    BadData,
    HostFailed,
    NoAnswer,
    NotAtHost,
    SessionNotAlive,
    SessionParked,
    WrongType,
)
from agentrail.hints import AsyncOnly, missing_attribute
from agentrail.hooks.hook_runner import AnswerForm
from agentrail.hooks.live_runner import why_refused
from agentrail.ports.journal import About, StoredSession
from agentrail.ports.tool import Task
from agentrail.remote.remote_file import RemoteFile
from agentrail.remote.remote_turn import RemoteTurnStream
from agentrail.remote.transport.host_connection import without_none
from agentrail.remote.transport.host_subscription import (
    ChangesFrame,
    EventFrame,
    GapFrame,
    HostSubscription,
    Line,
    SubscriptionFrame,
    ViewFrame,
)
from agentrail.reprs import in_brackets
from agentrail.tools.answer_forms import form_of
from agentrail.values.argument_checks import with_spelt_calls
from agentrail.values.content import PromptContent
from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.events.life import SessionEnded
from agentrail.values.events.plugins import Gap
from agentrail.values.events.policies import POLICIES, SubscriptionPolicy
from agentrail.values.json import Json, JsonObject
from agentrail.values.messages import Message
from agentrail.values.rewinds import RewindPreview, Rewound
from agentrail.values.tools import Err, Ok
from agentrail.values.untrusted_values import as_seconds, brief, number
from agentrail.values.value import Value, learned

T = TypeVar("T")

PARKED: Final = "session `{0}` is stored at its host, and does not run now; prompt it, which brings it back"
NAMES: Final = "names that its host has registered: "

INSIDE: Final = "what a session is inside is not sent"
OF_SESSIONS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "by": ("the key says who calls", "connect with the key of that user"),
        "inspect": (INSIDE, "use `status`, `messages` and `queued`"),
        "shadow": (INSIDE, "subscribe to `ShadowDiffers`"),
        "trace": (INSIDE, "use `subscribe`"),
    }
)
"""By name of a method of `SessionHandle`: why it is not there, and what to do instead."""


@with_spelt_calls
class RemoteSession(SessionCalls):
    """Handle of a session of a host. A command returns when it is accepted and journaled there, or raises why not.

    What a local handle answers at once (`status`, `messages`, `queued`, `tasks`) is awaited here. Tools, plugins and
    models are given by the names under which the host knows them.
    """

    __slots__ = ("_line", "id")

    def __init__(self, line: Line, id: str) -> None:  # noqa: A002 - what users call it
        self._line = line
        self.id: Final = id
        """The session's id, as its host shows it to this user."""

    @in_brackets
    def __repr__(self) -> str:
        return f"{self.id!r} at {str(self._line.address)!r}"

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report missing methods

        def __getattr__(self, name: str) -> Never:
            """Raise `NotAtHost`, with advice, for a method that only local handles have."""
            if name not in OF_SESSIONS:
                raise missing_attribute("SessionHandle", self, name)
            missing(type(self), name, OF_SESSIONS)

    async def _do(self, call: str, command: str | None, **body: Json) -> Json:
        """Have the host carry out a call with a *body*; fields that are `None` are not sent."""
        return await self._line.call(call, session=self.id, body=without_none(**body), command=command_id_of(command))

    async def _see(self, call: str, kind: type[T], **query: Json) -> T:
        return answer_of(kind, await self._line.call(call, session=self.id, query=query or None))

    # Talking

    async def prompt(
        self,
        text: PromptContent,
        *,
        returns: TypeForm[object] | Mapping[str, Json] | None = None,
        command: str | None = None,
    ) -> Accepted:
        """Send a prompt: it starts a turn, or is queued; `ask` with the same text and `command` gives the reply."""
        return await self._prompt(_message_json(text), None if returns is None else form_of(returns).schema, command)

    async def _prompt(self, message: Json, schema: Json, command: str | None) -> Accepted:
        accepted = await self._do("prompt", command, message=message, returns=schema)
        return value_of(Accepted, answer_of(AcceptedView, accepted))

    @overload
    async def ask(
        self,
        text: PromptContent,
        *,
        returns: None = None,
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> Reply: ...

    @overload
    async def ask(
        self,
        text: PromptContent,
        *,
        returns: TypeForm[T],
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> T: ...

    @overload
    async def ask(
        self,
        text: PromptContent,
        *,
        returns: Mapping[str, Json],
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> JsonObject: ...

    async def ask(
        self,
        text: PromptContent,
        *,
        returns: object = None,
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> object:
        """Send a prompt and return how its turn ended; with *returns*, a type or a JSON Schema, such an object.

        A class travels as its schema, and its object is made here: if the class refuses the answer, `AnswerUnfit` is
        raised, and the model is not asked again. It also returns when the turn waits for a person, with the calls in
        `reply.held`, unless *until* is `end`.
        """
        until = choice_of("until", until, UNTILS)
        return await self._ask(_message_json(text), None if returns is None else form_of(returns), until, command)

    async def _ask(self, message: Json, form: AnswerForm | None, until: Until, command: str | None) -> object:
        schema = None if form is None else form.schema
        answer = await self._do("ask", command, message=message, returns=schema, until=until)
        return _object_of(form, value_of(Reply, answer_of(WholeReplyView, answer)))

    @overload
    def stream(
        self,
        text: PromptContent,
        *,
        returns: None = None,
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> RemoteTurnStream[Reply]: ...

    @overload
    def stream(
        self,
        text: PromptContent,
        *,
        returns: TypeForm[T],
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> RemoteTurnStream[T]: ...

    @overload
    def stream(
        self,
        text: PromptContent,
        *,
        returns: Mapping[str, Json],
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> RemoteTurnStream[JsonObject]: ...

    def stream(
        self,
        text: PromptContent,
        *,
        returns: object = None,
        until: Literal["rest", "end"] = "rest",
        command: str | None = None,
    ) -> RemoteTurnStream[object]:
        """Return the turn of a prompt: `async with` it, `async for` over its events, then read `reply`, as of `ask`.

        The events end with the turn, or when it waits for a person, unless *until* is `end`; others are left out.
        Leaving the block early stops listening: the turn goes on.
        """
        until = choice_of("until", until, UNTILS)
        form = None if returns is None else form_of(returns)
        message, command_id = _message_json(text), command_id_of(command) or f"turn-{secrets.token_hex(12)}"
        prompt = partial(self._prompt, message, None if form is None else form.schema, command_id)
        ask = partial(self._ask, message, form, until, command_id)
        return RemoteTurnStream(self.subscribe, prompt, ask, partial(_object_of, form))

    async def reply(self, ref: str | None = None, *, until: Literal["rest", "end"] = "rest") -> Reply:
        """Wait until the open turn ends, or waits for a person, and return what `ask` does; for *until* see there.

        If none is open, wait for the next queued prompt's turn, or else return the last one's reply.
        With *ref*, as `reply.ref` has it, the turn of that prompt is meant.
        If the call is cancelled, the turn goes on.
        """
        query = without_none(ref=None if ref is None else text_of("ref", ref), until=choice_of("until", until, UNTILS))
        return value_of(Reply, await self._see("reply", TurnReplyView, **query))

    async def steer(self, text: str, *, when: Literal["gap", "now"] = "gap", command: str | None = None) -> Accepted:
        """Send a text for the open turn's next request; stops tools unless immune, and with `when="now"` a response."""
        text, when = kept_text(text, "the text"), choice_of("when", when, WHENS)
        return value_of(Accepted, answer_of(AcceptedView, await self._do("steer", command, text=text, when=when)))

    # Commands

    async def _send(self, input_: AnyCommand, command: str | None = None) -> None:
        """Have the host carry out the command *input_*: its row of the table says with which call and body."""
        sent_command, command = command_of(input_), command_id_of(command)
        call, spelled = COMMANDS[type(sent_command)]
        for name, how in spelled.fields:
            if how.offer is not None:
                await self._check_names(how.offer, name, _several(getattr(sent_command, name)))
        fields = None if spelled.body is None else spelled.encode(sent_command)
        body, query = (fields, None) if call.query is None else (None, fields)
        await self._line.call(call.name, session=self.id, body=body, query=query, command=command)

    async def _check_names(self, offer: OfferKind, argument: str, names: Sequence[object]) -> None:
        """Raise `WrongType`, which tells what the host offers, if one of *names* is an object instead."""
        for wanted_name in names:
            if not isinstance(wanted_name, str):
                offered_names: tuple[str, ...] = getattr(await self._see("offered", OfferedView), offer)
                raise WrongType.of(
                    argument, wanted_name, NAMES + (", ".join([f"`{name}`" for name in offered_names]) or "none")
                )

    # Looking

    async def status(self) -> Status:
        """Return what the session does; raise `SessionParked` if it does not run now: a prompt brings it back."""
        view = await self.detail()
        if view.status is None:
            parked = SessionParked(self.id)
            parked.told = PARKED.format(self.id)
            raise parked
        return value_of(Status, {**asdict(view.status), "session_id": view.session})

    async def detail(self) -> DetailView:
        """Return the session as its host shows it: what is stored about it, what it does, its tools and plugins."""
        return await self._see("show_session", DetailView)

    async def messages(self) -> tuple[Message, ...]:
        """Return the conversation, as of the last journaled step."""
        messages: list[Message] = []
        after: int | None = 0
        while after is not None:
            page = await self._see("messages", MessagesView, after=after)
            messages += page.items
            after = page.next
        return tuple(messages)

    async def queued(self) -> tuple[Prompt, ...]:
        """Return the queued prompts."""
        return tuple([value_of(Prompt, view) for view in (await self._see("queued", QueueView)).items])

    async def tasks(self) -> tuple[Task, ...]:
        """Return the running sub-agents, and the last ended ones in the background, as the journal has them."""
        return tuple([value_of(Task, view) for view in (await self._see("tasks", TasksView)).items])

    async def task_result(self, child: str) -> Ok | Err:
        """Wait for the answer of a sub-agent and return it."""
        return (await self._see("task_result", TaskResultView, child=child)).result

    async def wait_tasks(self, *children: str, every: bool = True, seconds: float = 300.0) -> Mapping[str, Ok | Err]:
        """Wait until all of these sub-agents have ended, or any one; return the answers of those that have, by id."""
        plain_seconds = as_seconds(seconds)
        if plain_seconds is None:
            raise WrongType("seconds", brief(seconds), "a number of seconds, of at least 0")
        wait = math.ceil(plain_seconds * 1000)
        ids = ",".join([kept_text(child, "the id of a sub-agent") for child in children])
        view = await self._see("wait_tasks", TaskResultsView, children=ids, every=every, milliseconds=wait)
        return {task.child: task.result for task in view.items}

    async def files(self) -> tuple[RemoteFile, ...]:
        """Return the files that the agent wrote and that are still there, by path; `read` gets the content of one."""
        page = await self._see("files", WrittenFilesView)
        views = [*page.items]
        while page.next is not None:
            page = await self._see("files", WrittenFilesView, after=page.next)
            views += page.items
        return tuple([RemoteFile(view, self._file_piece) for view in views])

    async def _file_piece(self, path: str, offset: int) -> FilePieceView:
        return await self._see("file_piece", FilePieceView, path=path, offset=offset)

    async def records(self, since: int = 0, limit: int | None = None) -> RecordsView:
        """Return a page of the session's records, those after number *since*, with long texts cut."""
        return await self._see("records", RecordsView, **without_none(since=since, limit=limit))

    async def record(self, number: int) -> RecordView:
        """Return one record of the session, whole."""
        (record,) = (await self._see("records", RecordsView, record=number)).records
        return record

    async def why(self, about: str | int = "end") -> AccountView:
        """Tell why a call, a turn or an end came about: *about* is the id of a call, the number of a turn, or `end`."""
        return await self._see("why", AccountView, about=about if number(about) is None else str(about))

    async def state_at(self, record: int, *, whole: bool = False) -> StateAtView:
        """Return the state of the session after a record, and what the record changed; long texts are cut."""
        return await self._see("state_at", StateAtView, record=record, whole=whole)

    async def timeline(self, since: int = 0, limit: int | None = None) -> TimelineView:
        """Return what ran when, and a row for each record after number *since*."""
        return await self._see("timeline", TimelineView, **without_none(since=since, limit=limit))

    async def seen(self, round: int | None = None, *, request: str | None = None, whole: bool = False) -> SeenView:  # noqa: A002 - what users call it
        """Return what the model saw: in a round, counted over all turns, or with a request of this id; or at last.

        Long texts are cut; with *whole*, none are, and the request is there as its provider gets it.
        """
        return await self._see("seen", SeenView, **without_none(round=round, request=request, whole=whole))

    def subscribe(
        self,
        since: Cursor | tuple[int, int] | int | None = None,
        types: Iterable[type[Event]] | None = None,
        policy: SubscriptionPolicy = "coalesce",
    ) -> RemoteSubscription:
        """Return the session's events as an async iterator: those after *since* that are kept, then live ones.

        It goes on by itself after a cut of the connection, without losing or repeating an event.
        """
        return events_of(self._line, self.id, since, types, policy)

    def monitor(self) -> RemoteMonitor:
        """Return a monitor: `async with` it, then `wait()` for the end of the session."""
        return RemoteMonitor(self._line, self.id)

    async def fork(self, at: int | str | None = None, id: str | None = None) -> RemoteSession:  # noqa: A002 - what users call it
        """Start a session with the past of this one, up to record *at* (default: all); running work is not copied.

        *at* may also be the ref of a prompt: the past ends before its turn.
        """
        return RemoteSession(self._line, answer_of(OpenedView, await self._do("fork", None, at=at, session=id)).session)

    async def preview_rewind(self, since: int | str) -> RewindPreview:
        """Return which files `rewind` to *since* would bring back now, and which somebody else has changed since."""
        preview = await self._see("preview_rewind", RewindPreviewView, since=str(rewind_point_of(since)))
        return value_of(RewindPreview, preview)

    async def rewind(
        self,
        since: int | str,
        files: Iterable[str] | None = None,
        *,
        over_edits: bool = False,
        command: str | None = None,
    ) -> Rewound:
        """Bring back all files that the session's calls changed since record *since*, or only *files* of them.

        *since* may also be the ref of a prompt: since before its turn. What others changed stays: if somebody has
        changed one of these files after a call did, raise `FilesEdited` and change nothing, unless *over_edits*. The
        conversation stays as it is: see `fork`. Raise `Busy` while a call runs.
        """
        check_flag("over_edits", over_edits)
        point, paths = rewind_point_of(since), paths_of(files)
        rewound = await self._do("rewind", command, since=point, files=paths, over_edits=over_edits)
        return value_of(Rewound, answer_of(RewoundView, rewound))


def _message_json(text: PromptContent) -> Json:
    """Return a message as JSON: a text, or its parts; raise `UsageError` if it is neither."""
    parts = kept_parts(text)
    return text if isinstance(text, str) else cast("Json", json.loads(to_json(list(parts))))


def _object_of(form: AnswerForm | None, reply: Reply) -> object:
    """Return *reply*, or the caller's object of its answer if there is a form; raise `NoAnswer` or `AnswerUnfit`."""
    if form is None:
        return reply
    if reply.answer is None:
        raise NoAnswer(reply.ref, reply.stop_reason)
    try:
        return form.read(reply.answer)
    except Exception as why:
        raise AnswerUnfit(reply.ref, why_refused(why)) from why


def _several(value: object) -> Sequence[object]:
    """Return *value* if it is several things, else in a tuple."""
    single = value
    return cast("Sequence[object]", value) if isinstance(value, Sequence) and not isinstance(value, str) else (single,)


def missing(kind: type[object], name: str, methods: Mapping[str, tuple[str, str]]) -> Never:
    """Raise `NotAtHost` if *name* is a method of local handles (*methods*), and else the `AttributeError` of *kind*."""
    if name in methods:
        raise NotAtHost(name, *methods[name])
    problem = f"{kind.__name__!r} object has no attribute {name!r}"
    raise AttributeError(problem)


V = TypeVar("V", bound=Value)


def answer_of(kind: type[T], answer: Json) -> T:
    """Convert *answer*, the JSON of a call's answer, to *kind*; raise `HostFailed` if it does not fit."""
    try:
        return decode_of_host(kind, answer)
    except BadData as bad:
        _, source, problem = bad.args
        problem_text = f"its answer cannot be read: {source} {problem}"
        raise HostFailed(problem_text) from None


def value_of(kind: type[V], view: object) -> V:
    """Convert a view, or the fields of one, back to the value that it shows, of the class *kind*."""
    return cast("V", msgspec.convert(view, learned(kind), from_attributes=True))


def stored_of(view: SessionView) -> StoredSession:
    """Return *view* as a summary of a session; its tenant is empty, because hosts do not tell it."""
    about = About("", view.owner, view.agent, view.title, view.labels, view.created)
    return StoredSession(
        view.session,
        view.records,
        due=view.due,
        at_work=view.at_work,
        ended=view.ended,
        problem=view.problem,
        about=about,
        active=view.active,
    )


class ToldValues(AsyncOnly, Generic[T]):
    """Values made from the frames of a `HostSubscription`: `async with` it, then `async for` over it."""

    __slots__ = ("_convert", "_frames")

    def __init__(self, frames: HostSubscription, convert: Callable[[SubscriptionFrame], T | None]) -> None:
        """*convert* returns the value of a frame; `None` to skip the frame."""
        self._frames = frames
        self._convert = convert

    @in_brackets
    def __repr__(self) -> str:
        return self._frames.about

    async def __aenter__(self) -> Self:
        """Begin the subscription; raise the host's error if it refuses."""
        await self._frames.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the subscription."""
        await self._frames.__aexit__(kind, error, trace)  # noqa: ASYNC102 - it waits for nothing

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while True:
            value = self._convert(await anext(self._frames))
            if value is not None:
                return value


BEFORE_ALL: Final = Cursor(0)
ITS_HOST: Final = "its host has ended it"


class RemoteSubscription(ToldValues[Envelope]):
    """The events of a host's session: `async with` it, then `async for` over it. It goes on after a lost connection."""

    __slots__ = ()

    def __init__(self, frames: HostSubscription, session: str) -> None:
        super().__init__(frames, partial(envelope_of, session))

    def end(self) -> None:
        """End the subscription, after the events that wait."""
        self._frames.end()

    @property
    def cursor(self) -> Cursor:
        """Place after the last event that has come, read or not; before the first, where the subscription began."""
        return self._frames.cursor or BEFORE_ALL


class RemoteMonitor:
    """Waits for the end of a session of a host: `wait` returns when it is gone for good."""

    __slots__ = ("_line", "_session")

    def __init__(self, line: Line, session: str) -> None:
        self._line = line
        self._session = session

    @in_brackets
    def __repr__(self) -> str:
        return f"end of {self._session!r}"

    async def __aenter__(self) -> Self:
        """Begin to wait for the end of the session; raise the host's error if it refuses."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop waiting for the end of the session."""

    async def wait(self) -> SessionDown:
        """Return when the session is gone for good."""
        reason = ITS_HOST
        try:
            async with events_of(self._line, self._session, BEFORE_ALL, [SessionEnded], "coalesce") as events:
                async for envelope in events:
                    if isinstance(envelope.event, SessionEnded):
                        reason = envelope.event.reason
        except SessionNotAlive as ended:
            reason = str(ended.args[1])
        return SessionDown(self._session, reason)


def envelope_of(session: str, frame: SubscriptionFrame) -> Envelope | None:
    """Return the event of *session* in *frame*, or the mark that events are missing; `None` for a view."""
    if isinstance(frame, EventFrame):
        return answer_of(Envelope, frame.data)
    if isinstance(frame, GapFrame):
        start, end = frame.start, frame.end
        return Envelope(session, *start, 0, 0, 0, Gap(*start, *end))
    return None


def events_of(
    line: Line, session: str, since: object, types: Iterable[type[Event]] | None, policy: SubscriptionPolicy
) -> RemoteSubscription:
    """Return a subscription to the events of *session*."""
    policy = choice_of("policy", policy, POLICIES)
    names = None if types is None else [kind.__name__ for kind in kinds_of(types)]
    frames = line.listen("events", session, since=cursor_of(since), types=names, policy=policy)
    return RemoteSubscription(frames, session)


class RemoteView(ToldValues[T]):
    """A view of a host: `async with` it, then `async for` over it.

    It goes on after a lost connection. Of a view that is sent whole, it skips states that are no longer the newest.
    """

    __slots__ = ()

    def __init__(self, frames: HostSubscription, convert: Callable[[Json], T]) -> None:
        """*convert* returns the value of the JSON that the host shows."""
        super().__init__(
            frames, lambda frame: convert(frame.data) if isinstance(frame, ViewFrame | ChangesFrame) else None
        )


def tree_of(answer: Json) -> ChildView:
    """Return the tree of sessions in *answer*."""
    return value_of(ChildView, answer_of(ChildShown, answer))


def approvals_of(answer: Json) -> Mapping[str, tuple[HeldCall, ...]]:
    """Return the held calls, by session, in *answer*, a page of a host's list."""
    return held_of(answer_of(ApprovalsView, answer).items)


def held_of(views: Iterable[HeldView]) -> Mapping[str, tuple[HeldCall, ...]]:
    """Return held calls by session, the ones first that have waited longest."""
    held_by_session: dict[str, tuple[HeldCall, ...]] = {}
    for view in views:
        held_by_session[view.session] = (*held_by_session.get(view.session, ()), value_of(HeldCall, view))
    return MappingProxyType(held_by_session)
