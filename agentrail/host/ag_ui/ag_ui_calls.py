"""`AgUiCalls`: carries out the calls of AG-UI. A run is sent by the calls `prompt`, `approve`, `reject` and `respond`.

What a client may do, and how often, is decided where those are carried out.

Reads the input of a run: the new message of the user, and the answers to interrupts. Nothing else of it is used.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Final, NamedTuple, cast

from agentrail.api.bodies import ChatBody, FollowQuery, ResumeEntry, RunBody, RunMessage, RunQuery
from agentrail.api.body_parsing import body_of
from agentrail.api.operation_table import CALLS
from agentrail.api.public_ids import visible
from agentrail.api.session_values import HeldCall
from agentrail.api.views import to_json, to_plain
from agentrail.errors import SessionAsleep, UnknownApproval, UnknownCursor, UnknownSession, UsageError
from agentrail.host.ag_ui.run_frames import RunFrames, interrupt_id, shown_call_id
from agentrail.host.ag_ui.run_stream import FrameId, RunStream, read_frame_id, start_at
from agentrail.host.ag_ui.shown_messages import AgentFrames, result_of
from agentrail.host.hosted_sessions import HostedSessions, check_scope
from agentrail.host.hosted_turns import number_of
from agentrail.host.operations.call import Answer, CallFunction, OperationCall, Streamed, handled_answer
from agentrail.host.operations.event_frames import ClientStreams, EventFrames
from agentrail.host.operations.talk_calls import TalkCalls, TalkRequest
from agentrail.host.plugins.plugin_values import HandledResponse
from agentrail.host.requests.http_messages import Send
from agentrail.runtime.handle import SessionHandle
from agentrail.values.content import File, Image, Part, Text
from agentrail.values.json import EMPTY, Json, JsonObject, thaw
from agentrail.values.tools import Err, Ok

OURS: Final = re.compile(r"[hm][0-9]+(?:\.[0-9r]+)*|r\..*", re.ASCII)
"""Ids of messages that this host has made, so that such a message is not new."""

KINDS: Final[Mapping[str, type[Image | File]]] = {"image": Image, "document": File}

NO_TOOLS: Final = "is the result of no call that waits for one: the host runs all tools itself that are not `elsewhere`"
OWN_ID: Final = "is an id that a host gives its own messages; give a new one another id, such as a UUID"
NO_TEXT: Final = "has no content; send a text, or parts"
NO_PART: Final = "is no part that agents take; send `text`, `image` and `document`, with a `source` of `data` or `url`"
NOT_DECIDED: Final = (
    'does not say whether the call may run; send `{"approved": true}` or `{"approved": false}`, with a `reason` or '
    "`editedArgs` if need be"
)
NOT_ANSWERED: Final = 'has no answer; send a text, or `{"answer": …}`'

ANSWERED_TWICE: Final = "is answered before in the same list; answer each interrupt once"

NO_DECISION: Final = "the person has not decided"
"""Why a call is rejected if its interrupt was cancelled."""

NO_ANSWER: Final = "the person gave no answer"
"""What a tool gets that has asked a question, if its interrupt was cancelled."""


class InterruptAnswer(NamedTuple):
    """The call of the host by which an interrupt is answered, or a result of the client's own tool is given."""

    call: str
    """Name of the call: `approve`, `reject`, `respond` or `result`."""
    body: JsonObject
    """Its body."""
    interrupt: str
    """Id of the interrupt, or of the message with the result."""


def new_message(body: RunBody) -> RunMessage | None:
    """Return the user's message that the run is for; `None` if there is none, so that the run only follows the session.

    It is the last one. A history that a client sends is its own affair: what it holds was said here, or never.
    """
    if not body.messages:
        return None
    last = body.messages[-1]
    return last if last.role == "user" and not OURS.fullmatch(last.id) else None


def result_answers(
    call: str, body: RunBody, held_calls: Sequence[HeldCall], has_result: Callable[[str], bool]
) -> list[InterruptAnswer]:
    """Return what is to be sent for the results of the client's own tools, which are its last messages.

    One of a call that has its result was sent before. Raise `UsageError` if there is no such call.
    """
    waiting = {shown_call_id(held_call): held_call for held_call in held_calls if held_call.kind == "result"}
    answers: list[InterruptAnswer] = []
    for index in range(len(body.messages) - 1, -1, -1):
        message = body.messages[index]
        if message.role != "tool" or OURS.fullmatch(message.id):
            break
        call_id = message.tool_call_id or ""
        held_call = waiting.pop(call_id, None)
        if held_call is None and has_result(call_id):
            continue
        if held_call is None:
            raise UsageError("bad-body", call, f"$.messages[{index}]", NO_TOOLS)
        result = _result(call, message, index)
        answers.insert(0, InterruptAnswer("result", {"call": visible(held_call.id), "result": result}, message.id))
    return answers


def _result(call: str, message: RunMessage, index: int) -> Json:
    """Return the result in *message*, the one at *index*, as a body has it."""
    parts = (Text(message.error),) if message.error is not None else parts_of(call, message, index)
    return to_plain(Ok(parts) if message.error is None else Err(parts))


def refuse_own_id(call: str, body: RunBody) -> None:
    """Raise `UsageError` if the last message is a user's, and has an id as the host's own have it."""
    index = len(body.messages) - 1
    if body.messages and body.messages[index].role == "user" and OURS.fullmatch(body.messages[index].id):
        raise UsageError("bad-body", call, f"$.messages[{index}].id", OWN_ID)


def parts_of(call: str, message: RunMessage, index: int) -> tuple[Part, ...]:
    """Return the content of a message, the one at *index*; raise `UsageError` for what agents do not take."""
    path, content = f"$.messages[{index}].content", message.content
    if isinstance(content, str) and content:
        return (Text(content),)
    if not isinstance(content, tuple | list) or not content:
        raise UsageError("bad-body", call, path, NO_TEXT)
    return tuple(
        [_part(call, f"{path}[{number}]", part) for number, part in enumerate(cast("Sequence[Json]", content))]
    )


def _part(call: str, path: str, part: Json) -> Part:
    if isinstance(part, Mapping):
        kind, text, source = part.get("type"), part.get("text"), part.get("source")
        if kind == "text" and isinstance(text, str) and text:
            return Text(text)
        if isinstance(kind, str) and kind in KINDS and isinstance(source, Mapping):
            media, value = source.get("mimeType", ""), source.get("value")
            if isinstance(media, str) and isinstance(value, str):
                if source.get("type") == "data":
                    return KINDS[kind](media, value)
                if source.get("type") == "url":
                    return File(media or ("image/png" if kind == "image" else "application/pdf"), reference=value)
    raise UsageError("bad-body", call, path, NO_PART)


# Answers to interrupts


def interrupt_answers(
    call: str, entries: Sequence[ResumeEntry], held_calls: Sequence[HeldCall]
) -> list[InterruptAnswer]:
    """Return what is to be sent for the answers *entries*; raise an error if one is about no call that waits."""
    waiting = {interrupt_id(held_call): held_call for held_call in held_calls if held_call.kind != "result"}
    answers: list[InterruptAnswer] = []
    ids = [entry.interrupt_id for entry in entries]
    for number, entry in enumerate(entries):
        held_call = waiting.get(entry.interrupt_id)
        if held_call is None:
            raise UnknownApproval.among(entry.interrupt_id, waiting)
        if entry.interrupt_id in ids[:number]:
            raise UsageError("bad-body", call, f"$.resume[{number}].interruptId", ANSWERED_TWICE)
        path = f"$.resume[{number}].payload"
        answer = _answer(call, path, entry) if held_call.kind == "question" else _decision(call, path, entry)
        name, body, field = answer
        answers.append(InterruptAnswer(name, {field: visible(held_call.id), **body}, entry.interrupt_id))
    return answers


def _decision(call: str, path: str, entry: ResumeEntry) -> tuple[str, JsonObject, str]:
    payload = entry.payload if isinstance(entry.payload, Mapping) else EMPTY
    if entry.status == "cancelled":
        return "reject", {"reason": NO_DECISION, "auto_resume": True}, "approval"
    approved, reason = payload.get("approved"), payload.get("reason")
    digest: JsonObject = {"digest": payload["digest"]} if "digest" in payload else {}
    if not isinstance(approved, bool):
        raise UsageError("bad-body", call, path, NOT_DECIDED)
    if not approved:
        more: JsonObject = {"reason": reason} if isinstance(reason, str) and reason else {}
        return "reject", {"auto_resume": True, **digest, **more}, "approval"
    body: dict[str, Json] = {**digest}
    if "editedArgs" in payload:
        body["args"] = payload["editedArgs"]
    if "always" in payload:
        body["always"] = payload["always"]
    return "approve", body, "approval"


def _answer(call: str, path: str, entry: ResumeEntry) -> tuple[str, JsonObject, str]:
    if entry.status == "cancelled":
        return "respond", {"answer": NO_ANSWER}, "ref"
    payload = entry.payload
    answer = payload.get("answer") if isinstance(payload, Mapping) else payload
    if not isinstance(answer, str) or not answer:
        raise UsageError("bad-body", call, path, NOT_ANSWERED)
    return "respond", {"answer": answer}, "ref"


FIRST_ERROR: Final = 400
"""The first status of an answer that tells of an error."""


class AgUiCalls:
    """Carries out the calls of AG-UI."""

    def __init__(
        self,
        talks: TalkCalls,
        commands: CallFunction,
        check: Callable[[OperationCall], Awaitable[None]],
        sessions: HostedSessions,
        frames: EventFrames,
        streams: ClientStreams,
    ) -> None:
        """Make it of what carries out the other calls: *commands* those that send a command, which *check* judges."""
        self._talks = talks
        self._commands = commands
        self._check = check
        self._sessions = sessions
        self._frames = frames
        self._streams = streams

    async def ag_ui_run(self, call: OperationCall) -> Answer:
        """Answer interrupts, prompt the session with a new message, and stream the run."""
        body = call.body(RunBody)
        agent = call.query(RunQuery).agent
        self._streams.check(call.who)
        since = _frame_id(call, "the header `Last-Event-ID`", call.header("last-event-id"))
        if since is not None:  # readers of event streams connect again with the request that they have made
            return await self._go_on(call, body.thread_id, body.run_id, since)
        message = new_message(body)
        if message is None:
            return await self._decide_all(call, body)
        parts = parts_of(call.row.name, message, len(body.messages) - 1)
        if body.resume:
            await self._decide_all(call, body)
        chat = ChatBody(parts, session=body.thread_id, agent=agent)
        step, handled = partial(self._prompt, body, message), partial(self._handled, call, body)
        return await self._talks.begin_request(call, "stream", chat, step, _command_of(call, message), handled).wait()

    async def ag_ui_follow(self, call: OperationCall) -> Answer:
        """Stream the run of a session from a frame on, or from where it is now."""
        query = call.query(FollowQuery)
        since = _frame_id(call, "the header `Last-Event-ID`", call.header("last-event-id"))
        since = since or _frame_id(call, "its `since`", query.since)
        self._streams.check(call.who)
        return await self._go_on(call, call.session, query.run or "", since)

    async def _go_on(self, call: OperationCall, thread_id: str, run_id: str, since: FrameId | None) -> Answer:
        """Stream a run after the frame *since*, or from where it is now; *thread_id* is as the client calls it."""
        name = self._sessions.name(call.row, call.who, thread_id)
        session = await self._sessions.running(name, call.watch)
        last = session.inspect().last_seq
        if since is not None and since.cursor.seq > last:
            raise UnknownCursor(session.id, since.cursor.seq, last)
        run = _run(session, thread_id, run_id or f"run-{last}", since.ref if since else "")
        return self._streamed(call, RunStream(self._frames, session, run, since=since))

    # What a run sends

    async def _decide_all(self, call: OperationCall, body: RunBody) -> Answer:
        """Answer interrupts, if there are answers, and stream what the session does then."""
        name = self._sessions.name(call.row, call.who, body.thread_id)
        try:
            session = await self._sessions.running(name, call.watch)
        except UnknownSession:
            refuse_own_id(call.row.name, body)
            raise
        state = session.inspect()
        held_calls = session.status().held
        answers = interrupt_answers(call.row.name, body.resume, held_calls)
        answers += result_answers(
            call.row.name, body, held_calls, lambda call_id: result_of(session.inspect(), call_id) is not None
        )
        for answer in answers:
            check_scope(CALLS[answer.call], call.who)
        decisions = [self._decision(call, name.visible, body.run_id, answer) for answer in answers]
        for decision in decisions:  # all are judged before the first is carried out
            await self._check(decision)
        for decision in decisions:
            await decision.watch.answered(partial(self._commands, decision))
        start = start_at(state) if answers else None
        run = _run(session, body.thread_id, body.run_id, state.turn.ref if answers and state.turn else "")
        return self._streamed(call, RunStream(self._frames, session, run, start))

    def _decision(self, call: OperationCall, session: str, run_id: str, answer: InterruptAnswer) -> OperationCall:
        """Return the answer to an interrupt as a call of its own, which is carried out once for the run."""
        key = sha256(f"{run_id}\n{answer.interrupt}".encode()).hexdigest()
        row = CALLS[answer.call]
        return OperationCall(row, call.who, session, call.limits, body_of(row, answer.body), key=key)

    async def _prompt(self, body: RunBody, message: RunMessage, request: TalkRequest) -> None:
        """Prompt the session, answer with the stream, and wait for the end of the turn."""
        session = await self._talks.session_of(request)
        state = session.inspect()
        prompt = await self._talks.send_prompt(session, request)
        ref = prompt.sent.accepted.ref
        # a message that was sent before is part of the conversation already
        content = message.content if number_of(ref) > state.last_id else None
        run = _run(session, body.thread_id, body.run_id, ref)
        stream = RunStream(self._frames, session, run, start_at(state, content))
        request.reply(self._streamed(request.call, stream))
        await self._talks.turn_end(prompt, request)

    def _streamed(self, call: OperationCall, stream: RunStream) -> Answer:
        return self._streams.turn(call, stream.write, stream.problem)

    def _handled(self, call: OperationCall, body: RunBody, answer: HandledResponse) -> Answer:
        """Return the answer of a plugin, such as that to `/status`, as a run in which it is said."""
        if answer.status >= FIRST_ERROR:
            return handled_answer(answer)
        words = answer.body.get("text") if isinstance(answer.body, Mapping) else answer.body
        text = words if isinstance(words, str) else to_json(thaw(answer.body)).decode()
        run = RunFrames(body.thread_id, body.run_id, lambda _: None)
        message_frames = AgentFrames().whole_text(f"m0.{call.note.id}", "assistant", text)
        frames = [*run.opening((), ()), *message_frames, *run.closing((), waits=False)]
        content = b"".join([b"data: %s\n\n" % to_json(frame) for frame in frames])
        return Streamed(partial(_whole, content))


async def _whole(content: bytes, _: Send) -> bytes:  # noqa: ASYNC124 - async as `Streaming` wants it
    """Return the *content* of a stream that is known in advance, as its last piece."""
    return content


def _run(session: SessionHandle, thread_id: str, run_id: str, ref: str = "") -> RunFrames:
    """Return the frames of a run of *session*, whose results of calls are looked up in its state."""

    def find_result(call_id: str) -> Sequence[Part] | None:
        try:
            return result_of(session.inspect(), call_id)
        except SessionAsleep:  # its turn is over, and the client gets the results with the conversation
            return None

    return RunFrames(thread_id, run_id, find_result, ref)


def _command_of(call: OperationCall, message: RunMessage) -> str:
    """Return the command id of a prompt: that of the request, or one of its user's that derives from the message."""
    digest = sha256(f"{call.who.user}\n{message.id}".encode(errors="surrogatepass")).hexdigest()
    return call.command or f"m-{digest}"


def _frame_id(call: OperationCall, source: str, text: str | None) -> FrameId | None:
    """Return the id of a frame that stands *source* some place of a request; `None` if none stands there."""
    if not text:
        return None
    frame_id = read_frame_id(text)
    if frame_id is None:
        raise UsageError("bad-query", call.row.name, source, "is no id of a frame, such as `12.0.1`")
    return frame_id
