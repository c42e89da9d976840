"""`A2aFace`: a host whose agents are called by the protocol A2A, 1.0 and 0.3, by JSON-RPC and server-sent events."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from agentrail.a2a.a2a_errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    NO_EXTENDED_CARD,
    NO_METHOD,
    NO_PUSH,
    NO_VERSION,
    PARSE,
    UNSUPPORTED,
    A2aError,
    a2a_error_of,
)
from agentrail.a2a.agent_card import WELL_KNOWN, address_of, agent_card
from agentrail.a2a.client_pushes import BeginPush, ClientPushes, PushTable, ReservePush
from agentrail.a2a.older_shapes import frame_03, task_03
from agentrail.a2a.sent_message import MAX_ID, SentMessage, objects_in, read_message, text_in
from agentrail.a2a.shapes import Shape, TaskName
from agentrail.a2a.task_calls import TaskCalls, is_over
from agentrail.a2a.task_listing import MOST_OF_CONTEXT, list_tasks, whole_number
from agentrail.a2a.task_stream import SendFrame, TaskStream
from agentrail.errors import AgentrailError, BadChoice, BadText, HostClosing, MethodRefused, UnknownAgent
from agentrail.events import Cursor
from agentrail.host import Face, FaceRequest, FaceResponse, Webhooks
from agentrail.models import JsonObject

PATH: Final = "/v1/a2a"
STREAM: Final = "text/event-stream"
HEARTBEAT: Final = b":\n\n"

METHODS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "message/send": "SendMessage",
        "message/stream": "SendStreamingMessage",
        "tasks/get": "GetTask",
        "tasks/list": "ListTasks",
        "tasks/cancel": "CancelTask",
        "tasks/resubscribe": "SubscribeToTask",
        "tasks/pushNotificationConfig/set": "CreateTaskPushNotificationConfig",
        "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfig",
        "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfigs",
        "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
        "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
    }
)
"""The names of methods in protocol 1.0, by those that 0.3 has for them."""

VERSIONS: Final = re.compile(r"(?:0\.3|1|1\.0)(?:\.[0-9]{1,4})?", re.ASCII)
"""What the header `A2A-Version` may be; without it, the name of the method says which protocol it is."""

CURSOR: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,15}))?", re.ASCII)

OLDER_CARD: Final = "/.well-known/agent.json"
"""Where clients before 0.3 look for a card."""

ADDRESS: Final = re.compile(r"(?:https?://[A-Za-z0-9._\[\]:-]{1,255}/?)?", re.ASCII)
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
WRONG: Final = "the request is no object of JSON-RPC 2.0 with a `method`, an `id` and `params`"
NO_PUSHES: Final = "this agent sends no push notifications: subscribe to the task"


class RpcCall(NamedTuple):
    """A request of JSON-RPC."""

    id: str | int
    """Id of the request."""
    method: str
    """The method, by its name in protocol 1.0."""
    params: JsonObject
    """What it is about."""
    is_older: bool
    """Whether it is of protocol 0.3."""


class A2aFace(Face):
    """Serves the agents of a host by A2A at `/v1/a2a`: a task is a turn, and a context is a session.

    Each agent has an address, `/v1/a2a/NAME`, with its card below; that of the first one is `/v1/a2a` too.
    """

    path = PATH
    open_paths = (
        WELL_KNOWN,
        OLDER_CARD,
        f"{PATH}{WELL_KNOWN}",
        f"{PATH}{OLDER_CARD}",
        f"{PATH}/*{WELL_KNOWN}",
        f"{PATH}/*{OLDER_CARD}",
    )

    def __init__(self, *, url: str = "", about: Mapping[str, str] = NOTHING, push: Webhooks | None = None) -> None:
        """Make the face. Cards say that the host is at *url*, by default where the request for the card was sent.

        *about* has what cards say of the agents, by the names of their profiles. Clients are told of their tasks by
        *push*; without it, there are no push notifications.
        """
        if not isinstance(cast("object", url), str) or not ADDRESS.fullmatch(url):
            raise BadChoice("url", url, "an address such as `https://agents.example`, without a path, or an empty text")
        if not _are_texts(about):
            raise BadChoice("about", about, "texts by the names of profiles")
        if push is not None and not isinstance(cast("object", push), Webhooks):
            raise BadChoice("push", push, "`agentrail.host.Webhooks`, or None")
        self._url = url.removesuffix("/")
        self._about = dict(about)
        self._push_table = None if push is None else PushTable(push)
        """The push configurations of its clients; `None` if it sends no notifications."""

    async def answer(self, request: FaceRequest) -> FaceResponse:
        """Return a card, or the answer to a request of JSON-RPC."""
        is_card = request.path.endswith((WELL_KNOWN, OLDER_CARD))
        methods = ("GET", "HEAD") if is_card else ("POST",)
        if request.method not in methods:
            raise MethodRefused(request.method, request.path, ", ".join(methods))
        agent = request.path.removesuffix(WELL_KNOWN).removesuffix(OLDER_CARD).removeprefix(PATH).removeprefix("/")
        if agent and request.agents and agent not in request.agents:
            raise UnknownAgent.among(agent, request.agents)
        if is_card:
            name = agent or next(iter(request.agents), "agentrail")
            about = self._about.get(name) or f"The agent {name}."
            address = address_of(self._url or request.url, PATH, agent)
            return FaceResponse(_encoded(agent_card(name, about, address, pushes=self._push_table is not None)))
        call_id: str | int | None = None
        try:
            body = await _rpc_object(request)
            call_id = _call_id(body)
            call = _rpc_call(body, request.header("a2a-version") or "")
            default = next(iter(request.agents), "")
            tasks = TaskCalls(request.calls, agent or default, self._url or request.url)
            return await self._carry_out(call, request, tasks)
        except A2aError as error:
            return FaceResponse(_failed(call_id, error))
        except HostClosing:
            raise  # the answer of the host says so
        except AgentrailError as error:
            return FaceResponse(_failed(call_id, a2a_error_of(error)))

    async def _carry_out(self, call: RpcCall, request: FaceRequest, tasks: TaskCalls) -> FaceResponse:
        match call.method:
            case "SendStreamingMessage":
                message = read_message(call.params)
                reserve = await self._reservation_for(call, message, request, tasks)
                return _streamed(call, partial(_stream_message, tasks, message, reserve))
            case "SubscribeToTask":
                return await _subscribed(call, request, tasks)
            case "SendMessage":
                message = read_message(call.params)
                reserve = await self._reservation_for(call, message, request, tasks)
                frame = await _send_message(call, tasks, message, reserve)
                result: object = frame_03(frame) if call.is_older else frame
            case "ListTasks":
                page = result = await list_tasks(tasks, call.params)
                if call.is_older:
                    result = {**page, "tasks": [task_03(task) for task in cast("Sequence[Shape]", page["tasks"])]}
            case "GetTask" | "CancelTask":
                shape = await _task(call, tasks)
                result = task_03(shape) if call.is_older else shape
            case "GetExtendedAgentCard":
                raise A2aError(NO_EXTENDED_CARD, "there is no other card than the one that everybody gets")
            case _:
                pushes = self._pushes(request, tasks)
                result = await pushes.carry_out(call.method, call.params, is_older=call.is_older)
        return FaceResponse(_encoded({"jsonrpc": "2.0", "id": call.id, "result": result}))

    def _pushes(self, request: FaceRequest, tasks: TaskCalls) -> ClientPushes:
        """Return the push configurations of a client; raise `A2aError` if the face sends no notifications."""
        if self._push_table is None:
            raise A2aError(NO_PUSH, NO_PUSHES)
        return ClientPushes(self._push_table, tasks, request.identity)

    async def _reservation_for(
        self, call: RpcCall, message: SentMessage, request: FaceRequest, tasks: TaskCalls
    ) -> ReservePush:
        """Return what reserves room for the configuration of *message*, if its client wants to be told of the task."""
        configuration = _configuration(call)
        fields = configuration.get("taskPushNotificationConfig") or configuration.get("pushNotificationConfig")
        if not fields:
            return _reserve_nothing
        pushes = self._pushes(request, tasks)
        return await pushes.reservation_for(objects_in(fields, "configuration"), message.task, is_older=call.is_older)


def _reserve_nothing() -> AbstractContextManager[BeginPush]:
    """No-op: the client wants no push notifications."""
    return nullcontext(lambda _task: None)


def _are_texts(value: object) -> bool:
    texts = cast("Mapping[object, object]", value)
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in texts.items() for text in pair)


# Requests


async def _rpc_object(request: FaceRequest) -> JsonObject:
    """Return the object that a request has; raise `A2aError` if there is none."""
    try:
        body = await request.json()
    except BadText as error:
        raise A2aError(PARSE, str(error)) from None
    if not isinstance(body, Mapping) or body.get("jsonrpc") != "2.0" or not isinstance(body.get("method"), str):
        raise A2aError(INVALID_REQUEST, WRONG)
    return body


def _call_id(body: JsonObject) -> str | int:
    call_id = body.get("id")
    if isinstance(call_id, str) and len(call_id) <= MAX_ID:
        return call_id
    if type(call_id) is int:
        return call_id
    raise A2aError(INVALID_REQUEST, WRONG)


def _rpc_call(body: JsonObject, version: str) -> RpcCall:
    """Return the call in *body*, of a client that speaks *version*; raise `A2aError` if it cannot be carried out."""
    method, params = str(body["method"]), body.get("params")
    if version and not VERSIONS.fullmatch(version):
        raise A2aError(NO_VERSION, f"the versions that there are: 1.0 and 0.3; not {version[:20]!r}")
    if method not in METHODS and method not in METHODS.values():
        raise A2aError(NO_METHOD, f"there is no method {method[:100]!r}")
    if params is not None and not isinstance(params, Mapping):
        raise A2aError(INVALID_PARAMS, "`params` must be an object")
    return RpcCall(_call_id(body), METHODS.get(method, method), params or {}, method in METHODS)


def _configuration(call: RpcCall) -> JsonObject:
    return objects_in(call.params.get("configuration") or {}, "configuration")


def _history_length(fields: JsonObject) -> int | None:
    if fields.get("historyLength") is None:
        return None
    return whole_number(fields, "historyLength", 0, MOST_OF_CONTEXT)


# Answers


async def _send_message(call: RpcCall, tasks: TaskCalls, message: SentMessage, reserve: ReservePush) -> Shape:
    """Send a message, and return its task, as soon as that is over or waits, unless the client will not wait."""
    configuration = _configuration(call)
    returns_at_once = configuration.get("returnImmediately") is True or configuration.get("blocking") is False
    length = _history_length(configuration)
    with reserve() as begin_push:
        task = await tasks.send(await tasks.session_of(message), message)
        if not isinstance(task, TaskName):
            return {"message": task}
        begin_push(task)
    return {"task": await tasks.shape(task, await tasks.outcome(task, wait=not returns_at_once), length)}


async def _task(call: RpcCall, tasks: TaskCalls) -> Shape:
    """Return the task that a call is about, which it may cancel."""
    task = tasks.task(text_in(call.params, "id", "params", may_lack=False))
    length = _history_length(call.params)
    if call.method == "CancelTask":
        return await tasks.cancel(task)
    return await tasks.shape(task, await tasks.outcome(task), length)


async def _stream_message(tasks: TaskCalls, message: SentMessage, reserve: ReservePush, send: SendFrame) -> None:
    with reserve() as begin_push:
        session = await tasks.session_of(message)
        async with tasks.calls.events(session) as events:
            task = await tasks.send(session, message)
            if isinstance(task, TaskName):
                begin_push(task)
                await TaskStream(tasks, task, events, send).follow()
            else:
                await send({"message": task}, None)


async def _subscribed(call: RpcCall, request: FaceRequest, tasks: TaskCalls) -> FaceResponse:
    """Return the stream of a task, from the event on which the client had last."""
    task = tasks.task(text_in(call.params, "id", "params", may_lack=False))
    last = request.header("last-event-id")
    match_ = None if last is None else CURSOR.fullmatch(last)
    if last is not None and match_ is None:
        raise A2aError(INVALID_PARAMS, "the header `Last-Event-ID` is none of an event of this stream, such as 12.0")
    after = None if match_ is None else Cursor(int(match_[1]), int(match_[2] or 0))
    outcome = await tasks.outcome(task)
    if after is None and is_over(outcome):
        raise A2aError(UNSUPPORTED, "the task is over: get it, or send `Last-Event-ID` to have its events again")
    return _streamed(call, partial(_stream_task, tasks, task, after))


async def _stream_task(tasks: TaskCalls, task: TaskName, after: Cursor | None, send: SendFrame) -> None:
    since = after
    if after is not None and after.n:  # what was streamed of the same response says how its next piece goes on
        since = Cursor(max(after.seq - 1, 0))
    async with tasks.calls.events(task.session, since) as events:
        await TaskStream(tasks, task, events, send).follow(after)


def _streamed(call: RpcCall, stream: Callable[[SendFrame], Awaitable[None]]) -> FaceResponse:
    """Return the answer with the frames that *stream* sends."""

    async def write(send: Callable[[bytes], Awaitable[None]]) -> None:
        async def send_frame(shape: Shape, cursor: Cursor | None) -> None:
            result = frame_03(shape) if call.is_older else shape
            head = b"" if cursor is None else f"id: {cursor}\n".encode()
            data = _encoded({"jsonrpc": "2.0", "id": call.id, "result": result})
            await send(b"%bdata: %b\n\n" % (head, data))

        try:
            await stream(send_frame)
        except HostClosing:
            return  # the client goes on with another connection
        except A2aError as error:
            await send(b"data: %b\n\n" % _failed(call.id, error))
        except AgentrailError as error:
            await send(b"data: %b\n\n" % _failed(call.id, a2a_error_of(error)))

    return FaceResponse(write, STREAM, headers={"x-accel-buffering": "no"}, heartbeat=HEARTBEAT)


def _failed(call_id: str | int | None, error: A2aError) -> bytes:
    return _encoded({"jsonrpc": "2.0", "id": call_id, "error": error.document})


def _encoded(value: object) -> bytes:
    return json.dumps(value).encode()
