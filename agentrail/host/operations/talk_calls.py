"""Carries out the calls that send something to an agent: how such a request runs, with the hooks of host plugins.

The order is fixed: `on_request_start`, `intercept`, attachments, the session, `on_turn_persisted`, `on_request_end`.
The request runs in a task of the host, so it goes on, and its turn, when its client goes away.

`FileCalls`: the call about uploaded files, and the files that a prompt names.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

import trio
from attrs import define, frozen

from agentrail.api.bodies import AskBody, ChatBody, FileQuery, PromptBody, ReplyQuery, SteerBody
from agentrail.api.limits import PROMPT_FILES
from agentrail.api.problems import INTERNAL
from agentrail.api.public_ids import SessionName, new_name
from agentrail.api.session_values import RUNNING, Reply, Until
from agentrail.api.sse_frames import HEARTBEAT, REPLY, frame
from agentrail.api.turn_events import TurnEvents
from agentrail.api.views import AcceptedView, FileView, ReplyView, TurnReplyView, WholeReplyView, to_json, view
from agentrail.core.vocabulary.commands import When
from agentrail.errors import (
    AgentrailError,
    FilesNotTaken,
    RefusedError,
    SessionExists,
    SessionStored,
    TurnAborted,
    UnknownSession,
    UsageError,
)
from agentrail.errors.agentrail_error import cut, kind_of
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.hosted_turns import SessionTurns, Turns
from agentrail.host.operations.call import Answer, OperationCall, Streamed, Upload, handled_answer
from agentrail.host.operations.event_frames import ClientStreams, EventFrames, problem_frame, ready
from agentrail.host.plugins.plugin_runner import HostPluginRow, RequestHooks
from agentrail.host.plugins.plugin_values import HandledResponse, Request, RequestContext, RequestKind
from agentrail.host.requests.http_messages import Send, while_here
from agentrail.host.uploads.prompt_files import NO_FILES, PromptFiles, checked_words
from agentrail.host.uploads.session_files import SessionFiles, claimed_media
from agentrail.runtime.access.sending import AskedPrompt
from agentrail.runtime.events.subscription import Subscription
from agentrail.runtime.handle import SessionHandle, ask_at_once, open_turn, reply_now
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.shared.untrusted_calls import Contained, tell
from agentrail.values.content import Part, Text, text_of
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import JsonObject

log = logging.getLogger("agentrail.host")

MOMENT: Final = 0.01
"""Seconds for which the last events of a turn wait for the last frame, to go out in one write with it."""

SCHEMAS_AT_ONCE: Final = 2
"""The most schemas of clients that are made ready at the same time, each in a thread."""

HELD: Final = 202
"""Status of the answer to a request whose turn waits for a person."""


@define
class TalkRequest:
    """A request that sends something to an agent, on its way to a session."""

    call: OperationCall
    body: ChatBody
    words: tuple[Part, ...]
    """The content of the prompt: the parts of its files that the model gets, then the message."""
    name: SessionName
    context: RequestContext
    hooks: RequestHooks
    """Calls the hooks of host plugins at the begin and the end of the request, with the facts that are set here."""
    reply: Callable[[Answer], None]
    """Sends the answer; it may be called once."""
    command: str | None
    """The command id of the prompt, if it has one."""
    handled: Callable[[HandledResponse], Answer]
    """Makes the answer if a plugin handles the request."""
    is_new: bool
    """Whether there was no session of this name when the request came."""

    def speaking(self, session: SessionHandle) -> SessionHandle:
        """Return a handle of *session* whose commands are recorded as this user's, with the id of this request."""
        return session.by(self.call.who.user, self.context.request_id)


@frozen
class PromptAsked:
    """A prompt that is in the journal of its session, and its reply once it comes."""

    session: SessionHandle
    turns: SessionTurns
    sent: AskedPrompt


class PendingAnswer:
    """The answer to a request that a task of the host carries out; another task waits for it."""

    __slots__ = ("_is_left", "_slot")

    def __init__(self) -> None:
        self._slot = Slot[Answer]()
        self._is_left = False
        """Whether the task that waited was cancelled."""

    @property
    def settled(self) -> bool:
        """Whether the answer is there."""
        return self._slot.settled

    def settle(self, answer: Answer) -> None:
        """Give the answer. No-op if there is one."""
        if self._is_left and not self._slot.settled and isinstance(answer, Streamed):
            answer.abandon()
        self._slot.settle(answer)

    async def wait(self) -> Answer:
        """Wait for the answer and return it."""
        self._is_left = False
        try:
            return await self._slot.wait()
        except trio.Cancelled:  # nobody will write an answer that comes now, so `settle` gives it up
            self._is_left = True
            raise


TalkStep: TypeAlias = Callable[[TalkRequest], Awaitable[None]]


class TalkCalls:
    """Carries out the calls `chat`, `stream` and `prompt`."""

    def __init__(
        self,
        sessions: HostedSessions,
        files: FileCalls,
        rows: HostPluginRow,
        turns: Turns,
        frames: EventFrames,
        streams: ClientStreams,
        nursery: trio.Nursery,
    ) -> None:
        self._sessions = sessions
        self._files = files
        self._rows = rows
        self._turns = turns
        self._frames = frames
        self._streams = streams
        self._nursery = nursery
        self._schemas = trio.CapacityLimiter(SCHEMAS_AT_ONCE)

    async def chat(self, call: OperationCall) -> Answer:
        """Prompt a session, and answer with the end of its turn."""
        return await self._prompt_and_reply(call, call.body(ChatBody), ReplyView)

    async def ask(self, call: OperationCall) -> Answer:
        """Prompt a session that is there, and answer with the end of its turn and all that was said in it."""
        body = call.body(AskBody)
        return await self._prompt_and_reply(call, _as_chat(call, body), WholeReplyView, body.until)

    async def _prompt_and_reply(
        self, call: OperationCall, body: ChatBody, view_class: type[ReplyView], until: Until = "rest"
    ) -> Answer:
        answer = self.begin_request(call, "chat", body, partial(self._chat, view_class, until))
        # only the wait is cancelled when the client goes away: the turn and the request go on
        return await while_here(call.wait_gone, answer.wait)

    async def stream(self, call: OperationCall) -> Answer:
        """Prompt a session, and answer with its events up to the end of its turn."""
        body = call.body(ChatBody)
        self._streams.check(call.who)
        return await self.begin_request(call, "stream", body, self._stream).wait()

    async def prompt(self, call: OperationCall) -> Answer:
        """Prompt a session, and answer when the prompt is in its journal."""
        body = call.body(PromptBody)
        return await self.begin_request(call, "chat", _as_chat(call, body), self._prompt).wait()

    async def steer(self, call: OperationCall) -> Answer:
        """Add a text to the open turn; as it begins a turn if none is open, it is a request to talk as others are."""
        body = call.body(SteerBody)
        chat = ChatBody(body.text, session=call.session)
        return await self.begin_request(call, "chat", chat, partial(self._steer, body.when)).wait()

    async def reply(self, call: OperationCall) -> Answer:
        """Wait for the end of a turn that another request has begun, as `ask` does for its own."""
        query = call.query(ReplyQuery)
        name = self._sessions.name(call.row, call.who, call.session)
        reply = None if query.wait else await self._sessions.reply_at_rest(name, query.ref)
        if reply is not None:
            return call.view_answer(view(TurnReplyView, reply, name.internal))
        session = await self._sessions.running(name, call.watch)
        return await while_here(call.wait_gone, partial(self._reply, call, session, query))

    async def _reply(self, call: OperationCall, session: SessionHandle, query: ReplyQuery) -> Answer:
        reply = await (session.reply(query.ref, until=query.until) if query.wait else reply_now(session, query.ref))
        goes_on = bool(reply.held) or reply.stop_reason == RUNNING
        if not goes_on:
            await self._turns.of(session).wait_ended(reply.ref)
        answer = view(TurnReplyView, reply, session.id).but(turn=open_turn(session, reply.ref))
        return call.view_answer(answer, HELD if goes_on else None)

    # How a request runs

    def begin_request(
        self,
        call: OperationCall,
        kind: RequestKind,
        body: ChatBody,
        step: TalkStep,
        command: str | None = None,
        handled: Callable[[HandledResponse], Answer] | None = None,
    ) -> PendingAnswer:
        """Begin a request, in a task of the host; return its answer, for which one task waits.

        The command id of the prompt is *command*, or else that of the request. *handled* makes the answer if a plugin
        handles the request.
        """
        name = self._name(call, body)
        context = call.context(kind, name.visible, body.agent)
        answer = PendingAnswer()
        make_request = partial(TalkRequest, command=command or call.command, handled=handled or handled_answer)
        self._nursery.start_soon(self._run_request, call, body, name, context, step, answer, make_request)
        return answer

    def _name(self, call: OperationCall, body: ChatBody) -> SessionName:
        """Return the session that the request is for. One that has no name gets one, the same for the same command."""
        # a session with this name is opened if there is none
        if body.session and "." not in body.session and not call.session:
            return new_name(call.who.tenant, call.who.user, body.session)
        if body.session:
            return self._sessions.name(call.row, call.who, body.session)
        return new_name(call.who.tenant, call.who.user, call.made_name)

    async def _run_request(
        self,
        call: OperationCall,
        body: ChatBody,
        name: SessionName,
        context: RequestContext,
        step: TalkStep,
        answer: PendingAnswer,
        make_request: partial[TalkRequest],
    ) -> None:
        """Body of the task: run a request between its hooks, and send its answer."""
        failed: list[BaseException] = []
        with Contained(failed.append):
            is_named = body.session or call.command  # else it has an id that was made just now
            agent = await self._sessions.agent(name) if is_named else None
            context = context.but(agent_id=agent or context.agent_id or self._sessions.first_agent)
            async with self._rows.request(context) as request_hooks:
                request = make_request(
                    call, body, _words(body), name, context, request_hooks, answer.settle, is_new=agent is None
                )
                try:
                    await self._carry_out(request, step)
                except AgentrailError as error:
                    request_hooks.outcome, request_hooks.error = _outcome_of(error), kind_of(error)
                    answer.settle(call.problem(error))
        for error_ in failed:
            self._tell_failure(name, call, error_)
        if not answer.settled:
            answer.settle(INTERNAL.but(attempted=call.row.attempt))

    async def _carry_out(self, request: TalkRequest, step: TalkStep) -> None:
        """Ask the host plugins for an answer; if none has one, take the files of the prompt and do *step*."""
        request.words = checked_words(request.call.row.name, request.words, request.call.limits)
        files = await self._files.named(request.call, request.name, request.body.files)
        plugin_request = Request(
            text_of(request.words),
            files.attachments,
            request.call.headers,
            request.context.kind,
            request.call.who,
            request.context,
        )
        answer = await self._rows.intercept(plugin_request)
        if answer is not None:
            request.hooks.outcome = "intercepted"
            request.reply(request.handled(answer))
            return
        request.words = await files.message(request.words, self._rows)
        await step(request)

    # One step per call

    async def _chat(self, view_class: type[ReplyView], until: Until, request: TalkRequest) -> None:
        """Prompt the session, and answer when its turn rests or ends."""
        prompt = await self.send_prompt(await self.session_of(request), request, until)
        reply_ = await self._replied(prompt, request)
        status = HELD if reply_.held else None
        request.reply(request.call.view_answer(view(view_class, reply_, prompt.session.id), status))

    async def _prompt(self, request: TalkRequest) -> None:
        """Prompt the session, and answer as soon as the prompt is in its journal."""
        session = await self.session_of(request)
        turns, form = self._turns.of(session), await self._form_of(request)
        with turns.sending(request.context):
            speaking = request.speaking(session)
            prompt = await ask_at_once(speaking, request.words, returns=form, until="end", command=request.command)
            prompt.leave()
            accepted = prompt.accepted
            if prompt.may_begin:
                turns.began(accepted.ref, request.context)
        request.hooks.outcome = accepted.status
        request.reply(request.call.view_answer(view(AcceptedView, accepted, session.id)))

    async def _steer(self, when: When, request: TalkRequest) -> None:
        """Steer the session, and answer when the text is in its journal."""
        session = await self.session_of(request)
        turns = self._turns.of(session)
        with turns.sending(request.context):
            words = text_of(request.words)
            accepted = await request.speaking(session).steer(words, when=when, command=request.command)
            if accepted.status == "started":
                turns.began(accepted.ref, request.context)
        request.hooks.outcome = accepted.status
        request.reply(request.call.view_answer(view(AcceptedView, accepted, session.id)))

    async def _stream(self, request: TalkRequest) -> None:
        """Prompt the session, and answer with a stream, which the task of the connection writes."""
        session = await self.session_of(request)
        events = await session.subscribe().__aenter__()
        try:
            prompt = await self.send_prompt(session, request)
        except BaseException:
            await events.__aexit__(None, None, None)  # noqa: ASYNC102, ASYNC120 - it waits for nothing
            raise
        stream = StreamedTurn(self, self._frames, events, prompt, request)
        request.hooks.goes_on = True
        request.reply(self._streams.turn(request.call, stream.write, abandon=stream.abandon))

    def end_request(self, request_hooks: RequestHooks) -> None:
        """Tell plugins that a streamed request is over, beside its last frame."""
        if request_hooks.is_watched:
            self._nursery.start_soon(request_hooks.end)

    def outlive(self, events: Subscription, prompt: PromptAsked, request: TalkRequest) -> None:
        """Go on with a streamed request whose client has gone, in a task of the host."""
        self._nursery.start_soon(self._outlive, events, prompt, request)

    async def _outlive(self, events: Subscription, prompt: PromptAsked, request: TalkRequest) -> None:
        await events.__aexit__(None, None, None)
        error: BaseException | None = None
        with Contained(partial(self._tell_failure, request.name, request.call)):
            try:
                await self.turn_end(prompt, request)
            except BaseException as raised:
                error = raised
                raise
            finally:
                await request.hooks.end(error)  # noqa: ASYNC102 - it is shielded

    @staticmethod
    def _tell_failure(name: SessionName, call: OperationCall, error: BaseException) -> None:
        tell(log, error, "a request to `%s` failed (request %s)", name.internal, call.note.id)

    async def last_frame(self, prompt: PromptAsked, request: TalkRequest) -> bytes:
        """Return the last frame of a stream, which tells how the turn has ended."""
        reply = await self.turn_end(prompt, request)
        if isinstance(reply, AgentrailError):
            return problem_frame(request.call.problem(reply))
        return frame(REPLY, to_json(view(ReplyView, reply, prompt.session.id)))

    async def turn_end(self, prompt: PromptAsked, request: TalkRequest) -> Reply | AgentrailError:
        """Return how the turn has ended, and tell it to the hooks of the request."""
        try:
            return await self._replied(prompt, request)
        except AgentrailError as error:
            request.hooks.outcome, request.hooks.error = _outcome_of(error), kind_of(error)
            return error

    async def session_of(self, request: TalkRequest) -> SessionHandle:
        """Return the session of the request, which may be a new one."""
        session = await self._find_session(request)
        request.hooks.agent = self._turns.of(session).agent
        return session

    async def _find_session(self, request: TalkRequest) -> SessionHandle:
        """Return the session that runs or is stored, or open it if the caller may; two requests open it once."""
        may_open = request.name.user == request.call.who.user and not request.call.session
        # a plugin may have opened it meanwhile
        if not (request.is_new and may_open) or self._sessions.here(request.name) is not None:
            try:
                return await self._sessions.running(request.name, request.call.watch)
            except UnknownSession:
                if not may_open:
                    raise
        name = new_name(*request.name)  # checked here, as `named` accepts the names of sub-agents too
        try:
            session = await self._sessions.opened(request.call.who, request.context, name)
        except (SessionExists, SessionStored):  # another request has opened the session meanwhile
            return await self._sessions.running(name, request.call.watch)
        request.call.watch.follow(session)
        return session

    async def send_prompt(self, session: SessionHandle, request: TalkRequest, until: Until = "rest") -> PromptAsked:
        """Prompt the session, so that its reply can be waited for, *until* the turn rests or ends."""
        turns, form = self._turns.of(session), await self._form_of(request)
        with turns.sending(request.context):
            speaking, command = request.speaking(session), request.command
            asked_prompt = await ask_at_once(speaking, request.words, returns=form, until=until, command=command)
            if asked_prompt.may_begin:
                turns.began(asked_prompt.accepted.ref, request.context)
        return PromptAsked(session, turns, asked_prompt)

    async def _form_of(self, request: TalkRequest) -> JsonObject | None:
        """Return the schema that the answer must fit, `None` if there is none; raise `BadReturns` for a bad one.

        It is made ready in a thread, where it may take as long as a client likes, and found ready by the prompt.
        """
        schema = request.body.returns
        if not schema:
            return None
        from agentrail.tools.answer_forms import form_of  # noqa: PLC0415 - only needed if answers have a form

        form = await trio.to_thread.run_sync(form_of, schema, limiter=self._schemas)
        return form.schema

    async def _replied(self, prompt: PromptAsked, request: TalkRequest) -> Reply:
        """Return the reply of the turn once plugins have heard of its end, or the calls that wait for a person."""
        try:
            reply = await prompt.sent.reply()
        except AgentrailError:
            await prompt.turns.wait_ended(prompt.sent.accepted.ref)  # noqa: ASYNC120 - who cancels it wants no error
            raise
        request.hooks.usage = reply.usage
        if reply.held:
            request.hooks.outcome = "held"
        else:
            await prompt.turns.wait_ended(prompt.sent.accepted.ref)
        return reply


class StreamedTurn:
    """The stream of one turn: the task of its connection reads the events, sends them, and ends the request.

    When the client goes away, or never gets the answer, a task of the host does the rest.
    """

    def __init__(
        self, calls: TalkCalls, frames: EventFrames, events: Subscription, prompt: PromptAsked, request: TalkRequest
    ) -> None:
        self._calls = calls
        self._frames = frames
        self._events = events
        """A subscription that has been entered."""
        self._prompt = prompt
        self._request = request
        self._turn = TurnEvents(prompt.sent.accepted.ref)
        """Tells which events are of the turn."""
        self._seen = 0
        """Number of the last event that was read, also of other turns."""
        self._until: int | None = None
        """Number of the last event when the turn ended, or came to rest; `None` until then."""
        self._is_taken = False
        """Whether `write` has begun, or never will."""

    async def write(self, send: Send) -> bytes:
        """Send events until the turn is over, and return the last frames."""
        self._is_taken = True
        try:
            pending = await self._send_events(send)
            turns, ref = self._prompt.turns, self._prompt.sent.accepted.ref
            # wait a moment for the last frame, to send both in one write
            if self._turn.has_ended and pending and not turns.has_ended(ref):
                with trio.move_on_after(MOMENT) as scope:
                    await turns.wait_ended(ref)
                if scope.cancelled_caught:
                    await send(pending)
                    pending = b""
            pending += await self._calls.last_frame(self._prompt, self._request)
        except BaseException:
            self._calls.outlive(self._events, self._prompt, self._request)
            raise
        await self._events.__aexit__(None, None, None)
        self._calls.end_request(self._request.hooks)
        return pending

    def abandon(self) -> None:
        """Have the host end the request if nobody has called `write`, or will."""
        if not self._is_taken:
            self._is_taken = True
            self._calls.outlive(self._events, self._prompt, self._request)

    async def _send_events(self, send: Send) -> bytes:
        """Send the frames of the turn; return those that come with its end."""
        pending = b""

        async def give(frames: bytes) -> bool:
            nonlocal pending
            if not self._goes_on:
                pending = frames
            elif frames:
                await send(frames)
            return self._goes_on

        await self._prompt.sent.when_replied(self._end)
        if await give(ready(self._events, HEARTBEAT, self._frame)):  # the head of the answer is sent with these
            await self._frames.give_each(self._events, give, self._frame)
        return pending

    def _end(self) -> None:
        """Note that the turn is over, or waits for a person."""
        try:
            self._until = self._prompt.session.inspect().last_seq
        except AgentrailError:  # the session was deleted, or sleeps: it has no more events
            self._until = 0
        self._events.end()  # a repeated command has no new events, so the stream would not end by itself

    @property
    def _goes_on(self) -> bool:
        """Whether there may be events to send."""
        return self._until is None or self._seen < self._until

    def _frame(self, envelope: Envelope) -> bytes:
        """Return the frame of an event; no bytes if the event is of another turn, or came after the end of the turn."""
        is_before_end = self._until is None or self._seen < self._until  # as `_goes_on`, at each event
        self._seen = envelope.seq
        return self._frames.frame(envelope) if is_before_end and self._turn.has(envelope) else b""


def _as_chat(call: OperationCall, body: PromptBody) -> ChatBody:
    return ChatBody(body.message, session=call.session, files=body.files, returns=body.returns)


def _words(body: ChatBody) -> tuple[Part, ...]:
    """Return the message of *body* as parts."""
    return (Text(body.message),) if isinstance(body.message, str) else body.message


def _outcome_of(error: AgentrailError) -> str:
    if isinstance(error, TurnAborted):
        return "aborted"
    return "refused" if isinstance(error, RefusedError | UsageError) else "failed"


class FileCalls:
    """Carries out the call `upload`, and finds files for others."""

    def __init__(self, sessions: HostedSessions, files: SessionFiles) -> None:
        self._sessions = sessions
        self._files = files

    async def upload(self, call: OperationCall) -> Answer:
        """Store the body as a file of the session; if the connection breaks, nothing of it is kept."""
        query = call.query(FileQuery)
        name = self._sessions.name(call.row, call.who, call.session)
        upload = call.body(Upload)
        media = claimed_media(upload.media_type)
        with self._files.taking(name) as intake:
            sandbox = await self._sessions.storage(name, call.watch)
            file = await self._files.receive(name.internal, sandbox, intake, upload.content, query.name, media)
        return call.view_answer(FileView(file.name, file.note.media_type, file.size))

    async def named(self, call: OperationCall, session: SessionName, names: tuple[str, ...]) -> PromptFiles:
        """Return the files of *session* that a prompt names; raise `UsageError` for one that is not there."""
        if not names:
            return NO_FILES
        most = PROMPT_FILES
        if len(names) > most:
            raise UsageError("bad-body", call.row.name, "its `files`", f"are {len(names)}, and {most} are the most")
        try:
            sandbox = await self._sessions.storage(session, call.watch)
        except UnknownSession:
            if session.user != call.who.user or call.session:
                raise
            raise UsageError(
                "unknown-file", cut(names[0])
            ) from None  # there is no session yet: the prompt will open it
        except FilesNotTaken:
            raise UsageError("unknown-file", cut(names[0])) from None
        return PromptFiles(sandbox, await self._files.find(session.internal, sandbox, names))
