"""`list_tasks`: the tasks of one client, by pages: those of one context, or the newest of each context."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, cast

import trio

from agentrail import Reply, to_json
from agentrail.a2a.a2a_errors import INVALID_PARAMS, NO_TASK, A2aError, a2a_error_of
from agentrail.a2a.sent_message import text_in
from agentrail.a2a.shapes import (
    Shape,
    TaskName,
    answer_artifact,
    history_of,
    state_10,
    task_of_error,
    task_of_reply,
)
from agentrail.a2a.task_calls import TaskCalls
from agentrail.a2a.task_frames import TaskFrames
from agentrail.errors import AgentrailError
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    Envelope,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptWithdrawn,
)
from agentrail.models import JsonObject

PAGE: Final = 20
"""How many tasks a page has if the client does not say."""

MOST: Final = 100
"""The most tasks of a page."""

MOST_OF_CONTEXT: Final = 1000
"""How many tasks of one context are listed: the last ones."""

ENDS: Final = (AgentEnd, AgentAbort, PromptRejected, PromptDropped, PromptWithdrawn)
"""Events that tell of the end of a task."""

TURNS: Final = (PromptQueued, PromptReceived, *ENDS)
"""Events that tell of the begin and the end of tasks."""

PATIENCE: Final = 5.0
"""The most seconds for the events of a context."""


class ListQuery(NamedTuple):
    """Which tasks are wanted."""

    context: str
    """Id of the context; empty: the newest task of each."""
    state: str
    """The state that they have; empty: any."""
    after_ms: int
    """From when on their status is, in milliseconds since 1970."""
    size: int
    """The most tasks of the page."""
    token: str
    """Where the page begins; empty: at the first task."""
    has_artifacts: bool
    """Whether their artifacts are wanted."""
    history_length: int
    """The most messages of each that are wanted."""


def whole_number(params: JsonObject, name: str, default: int, most: int) -> int:
    """Return the whole number *name* in *params*; raise `A2aError` if it is another value, or none from 0 to *most*."""
    value = params.get(name)
    if value is None:
        return default
    if type(value) is not int or not 0 <= value <= most:
        raise A2aError(INVALID_PARAMS, f"`{name}` must be a whole number from 0 to {most}")
    return value


def read_query(params: JsonObject) -> ListQuery:
    """Return what *params* ask for; raise `A2aError` if they do not fit."""
    size = whole_number(params, "pageSize", PAGE, MOST)
    if size == 0:
        raise A2aError(INVALID_PARAMS, f"`pageSize` must be a whole number from 1 to {MOST}")
    since = text_in(params, "statusTimestampAfter", "params")
    try:
        after_ms = int(datetime.fromisoformat(since).timestamp() * 1000) if since else 0
    except ValueError:
        raise A2aError(INVALID_PARAMS, "`statusTimestampAfter` must be a time, such as 2026-01-31T12:00:00Z") from None
    return ListQuery(
        text_in(params, "contextId", "params"),
        state_10(text_in(params, "status", "params")),
        after_ms,
        size,
        text_in(params, "pageToken", "params"),
        params.get("includeArtifacts") is True,
        whole_number(params, "historyLength", 0, MOST_OF_CONTEXT),
    )


async def list_tasks(tasks: TaskCalls, params: JsonObject) -> Shape:
    """Return a page of tasks."""
    query = read_query(params)
    items, token, total = await (_of_context(tasks, query) if query.context else _newest(tasks, query))
    if not query.has_artifacts:
        items = [{name: value for name, value in item.items() if name != "artifacts"} for item in items]
    return {"tasks": items, "nextPageToken": token, "pageSize": query.size, "totalSize": total}


def _is_wanted(query: ListQuery, shape: Shape, at_ms: int) -> bool:
    state = cast("Shape", shape["status"])["state"]
    return at_ms >= query.after_ms and query.state in {"", state}


async def _newest(tasks: TaskCalls, query: ListQuery) -> tuple[list[Shape], str, int]:
    """Return the newest task of each context on a page of contexts, the token of the next page, and their number."""
    after: JsonObject = {"after": query.token} if query.token else {}
    page = await tasks.calls.call("list_sessions", query={"limit": query.size, **after})
    items: list[Shape] = []
    sessions = sorted(cast("Sequence[JsonObject]", page["items"]), key=lambda row: -int(str(row["active"])))
    for session in sessions:
        if session["problem"] or not tasks.is_of_agent(session):
            continue
        shape = await _last(tasks, tasks.calls.own_name(str(session["session"])), query)
        if shape is not None and _is_wanted(query, shape, int(str(session["active"]))):
            items.append(shape)
    return items, str(page["next"] or ""), len(items)


async def _last(tasks: TaskCalls, session: str, query: ListQuery) -> Shape | None:
    """Return the open, the next or the last task of a session; `None` if it has none."""
    try:
        reply = await tasks.calls.call("reply", session=session, query={"wait": False})
    except AgentrailError as error:
        ref: object = getattr(error, "ref", None)
        if isinstance(ref, str):
            return task_of_error(TaskName(session, ref), error)
        if a2a_error_of(error).code == NO_TASK or error.code == "session-not-alive":
            return None
        raise
    return task_of_reply(TaskName(session, str(reply["ref"])), reply, query.history_length)


async def _of_context(tasks: TaskCalls, query: ListQuery) -> tuple[list[Shape], str, int]:
    """Return a page of the tasks of a context, the newest first, the token of the next one, and how many there are."""
    start = int(query.token) if query.token.isascii() and query.token.isdigit() else 0
    turns = await _turns(tasks, query.context)
    session = tasks.calls.own_name(query.context)
    matching: list[Shape] = []
    for ref, envelope in reversed(turns.items()):
        shape = await _shape(tasks, TaskName(session, ref), envelope, query)
        if _is_wanted(query, shape, envelope.at):
            matching.append(shape)
    end = start + query.size
    return matching[start:end], str(end) if end < len(matching) else "", len(matching)


async def _turns(tasks: TaskCalls, session: str) -> OrderedDict[str, Envelope]:
    """Return the last event of each of the last turns of a session, by its prompt."""
    turns = OrderedDict[str, Envelope]()
    try:
        last = await tasks.calls.call("reply", session=session, query={"wait": False})
        last_ref, is_over = str(last["ref"]), last["stop_reason"] not in {"running", "held"}
    except AgentrailError as error:
        if error.code == "no-turn":
            return turns
        last_ref, is_over = str(getattr(error, "ref", "")), True
        if not last_ref:
            raise
    # A prompt about which a plugin has not decided has no event yet: then it is not listed.
    with trio.move_on_after(PATIENCE):
        async with tasks.calls.events(session, "0", TURNS) as events:
            async for envelope in events:
                ref: object = getattr(envelope.event, "ref", None)
                if isinstance(ref, str):
                    turns[ref] = envelope
                    if len(turns) > MOST_OF_CONTEXT:
                        turns.popitem(last=False)
                if ref == last_ref and (not is_over or isinstance(envelope.event, ENDS)):
                    break
    return turns


async def _shape(tasks: TaskCalls, task: TaskName, envelope: Envelope, query: ListQuery) -> Shape:
    """Return the task whose last event is in *envelope*."""
    if not isinstance(envelope.event, ENDS):
        return await tasks.shape(task, await tasks.outcome(task), query.history_length)
    frames = TaskFrames(task, envelope.turn).of(envelope)
    shape: dict[str, object] = {"id": task.id, "contextId": task.session}
    shape["status"] = cast("Mapping[str, Shape]", frames[-1]["statusUpdate"])["status"]
    if isinstance(envelope.event, AgentEnd):
        end = envelope.event
        reply = Reply(end.ref, end.reason, end.messages, fits=end.fits)
        if reply.text:
            shape["artifacts"] = [answer_artifact(reply.text, reply.answer)]
        messages = [cast("JsonObject", json.loads(to_json(message))) for message in end.messages]
        if query.history_length and (history := history_of(task, messages)):
            shape["history"] = history[-query.history_length :]
    return shape
