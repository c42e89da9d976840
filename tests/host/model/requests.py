"""What a request for each call of a host looks like, for the session that somebody says."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Final
from urllib.parse import quote

from attrs import frozen

from agentrail.api.operation_table import CALLS, JSON, HostRoute
from tests.host.model.in_process import DrawnRequest
from tests.host.model.people import Person

NAMES: Final = ("s1", "s1x", "s", "trip")
"""Names of sessions, some of which begin as others do."""

CHILDREN: Final = ("ann.s1.c1", "s1.c1")
"""Ids that sub-agents might have."""

GONE: Final = "gone-for-good"
"""Name that no session has."""


@frozen
class Making:
    """What a request is made of."""

    draw: Random
    person: Person
    """Who makes it, if the key is theirs."""
    session_text: str
    """The id of the session, as it is said."""
    mark: str
    """A text that is found again wherever it comes to."""
    refs: tuple[str, ...]
    """Ids of held calls and questions."""
    words: tuple[str, ...]
    """What messages say, beside the mark."""

    def text(self) -> str:
        return f"{self.mark} {self.draw.choice(self.words)}"

    def ref(self) -> str:
        return self.draw.choice((*self.refs, "a1"))


Body = dict[str, object]
NO_BODY: Final[Callable[[Making], Body | None]] = lambda _: None  # noqa: E731


def _talk(make: Making) -> Body:
    session: Body = {} if make.session_text == "" else {"session": make.session_text}
    return {"message": make.text(), **session}


def _run(make: Making) -> Body:
    message: Body = {"id": f"{make.draw.random()}", "role": "user", "content": make.text()}
    body: Body = {"threadId": make.session_text or make.draw.choice(NAMES), "runId": make.mark, "messages": [message]}
    if make.draw.random() < 0.3 and make.person.has_scope(CALLS["approve"]):
        payload: Body = {"approved": True, "answer": make.mark}
        body["resume"] = [{"interruptId": make.ref(), "status": "resolved", "payload": payload}]
    return body


def _open(make: Making) -> Body:
    return {"session": make.draw.choice((*NAMES, make.session_text or None)), "title": make.mark, "labels": ["red"]}


def _fork(make: Making) -> Body:
    bodies: tuple[Body, ...] = ({}, {"session": make.draw.choice(NAMES)}, {"at": 1})
    return make.draw.choice(bodies)


def _rewind(make: Making) -> Body:
    return {"since": make.draw.choice((0, 1, make.ref())), "files": [make.mark], "over_edits": make.draw.random() < 0.5}


def _plugins(make: Making) -> Body:
    return {"do": "detach", "plugin": make.draw.choice(("HumanApproval", "other"))}


BODIES: Final[dict[str, Callable[[Making], Body | None]]] = {
    "chat": _talk,
    "stream": _talk,
    "ag_ui_run": _run,
    "open_session": _open,
    "prompt": lambda make: {"message": make.text()},
    "steer": lambda make: {"text": make.text(), "when": make.draw.choice(("gap", "now"))},
    "abort": lambda make: {"reason": make.mark, "clear_queue": make.draw.random() < 0.5},
    "approve": lambda make: {"approval": make.ref(), "args": {"text": make.mark}},
    "reject": lambda make: {"approval": make.ref(), "reason": make.mark},
    "respond": lambda make: {"ref": make.ref(), "answer": make.mark},
    "result": lambda make: {"call": make.ref(), "result": {"$": "Ok", "content": [{"$": "Text", "text": make.mark}]}},
    "switch_model": lambda _: {"model": "demo"},
    "change_tools": lambda make: {"do": "replace", "tools": [make.draw.choice(("ask_user", "other"))]},
    "change_plugins": _plugins,
    "compact": lambda make: {"reason": make.mark},
    "fork": _fork,
    "rewind": _rewind,
    "ask": lambda make: {"message": make.text()},
    "stop": lambda make: {"reason": make.mark},
    "label": lambda make: {"add": ["red"], "title": make.mark},
    "withdraw": lambda make: {"ref": make.ref()},
    "disallow": lambda make: {"tool": "ask_user", "command_family": make.mark},
    "message_task": lambda make: {"child": make.draw.choice(CHILDREN), "text": make.text()},
    **dict.fromkeys(
        (
            "list_sessions", "show_session", "delete_session", "events", "messages", "approvals", "tree", "commands",
            "ag_ui_follow", "health", "ready", "metrics", "page", "console_file", "openapi", "upload", "queued",
            "offered", "tasks", "reply",
            "suspend", "resume", "cancel_task",
            "task_result", "wait_tasks", "agents", "identity", "socket",
            "records", "why", "rows", "trouble", "figures", "evaluations", "evaluation", "candidates", "what_if",
            "state_at", "timeline", "seen", "change", "files", "file", "file_piece", "preview_rewind",
            "stores", "erase_store", "documents", "document", "put_document", "delete_document", "search", "cited",
        ),
        NO_BODY,
    ),
}  # fmt: skip
"""The body of a request, by call; there must be one for each route."""

NOTHING_FOR: Final = frozenset(
    {
        "cancel_task",
        "change",
        "cited",
        "delete_document",
        "document",
        "documents",
        "erase_store",
        "evaluation",
        "evaluations",
        "file",
        "file_piece",
        "message_task",
        "preview_rewind",
        "put_document",
        "rewind",
        "result",
        "search",
        "socket",
        "task_result",
        "wait_tasks",
        "withdraw",
    }
)
"""Calls that are refused to everybody: no session here has sub-agents, has written a file, or knows a ref of what is
held or queued, nobody here operates the host, and the host keeps no knowledge."""

QUERIES: Final[dict[str, tuple[str, ...]]] = {
    "list_sessions": ("", "owner=*", "owner=ann", "limit=2", "owner=*&limit=1", "after=ann.s1", "label=red"),
    "delete_session": ("", "", "redact"),
    "events": ("since=0", "since=0", "", "since=2", "types=PromptReceived,AgentEnd&since=0"),
    "ag_ui_follow": ("", "since=1.0.1", "since=1.0.o1&run=r"),
    "messages": ("", "limit=1", "after=1"),
    "reply": ("", "until=rest", "ref=p1"),
    "approvals": ("", "limit=1"),
    "preview_rewind": ("since=1", "since=p1"),
    "records": ("", "since=1", "limit=1", "record=1"),
    "why": ("", "about=1", "about=c1"),
    "state_at": ("record=1", "record=2&whole=true"),
    "timeline": ("", "since=1&limit=1"),
    "seen": ("", "round=1", "request=r1", "whole=true"),
    "files": ("", "limit=1"),
    "file": ("path=a.txt", "path=..%2Fa.txt"),
    "file_piece": ("path=a.txt", "path=a.txt&offset=1"),
    "change": ("approval=ann.s1:a1",),
    "rows": ("", "limit=1", "search=ann", "held=true"),
    "trouble": ("", "limit=1", "since_ms=0"),
    "figures": ("", "per=session", "per=model&limit=1", "since_ms=0"),
    "evaluation": ("file=main",),
    "cited": ("store=handbook",),
    "search": ("query=milk", "query=milk&limit=1"),
    "what_if": ("", "candidate=closed", "options=%7B%22BudgetGuard%22%3A%7B%22max_rounds%22%3A1%7D%7D"),
    "cancel_task": ("child=ann.s1.c1",),
    "task_result": ("child=ann.s1.c1",),
    "wait_tasks": ("children=ann.s1.c1&milliseconds=10",),
    "upload": ("name=a.txt", "name=..%2Fa.txt"),
}

PRETENDED: Final = (("x-tenant", "acme"), ("x-user", "ann"), ("x-forwarded-user", "ann"), ("cookie", "tenant=acme"))
"""Headers that say who sends a request, which nobody may believe."""


def build_request(route: HostRoute, make: Making, key: str) -> DrawnRequest:
    """Return a request for *route*."""
    call = route.call
    body = BODIES[call.name](make)
    content = b"" if body is None else json.dumps(body).encode()
    takes = call.takes
    if takes != JSON:
        takes, content = "text/plain", make.mark.encode()
    query = make.draw.choice(QUERIES.get(call.name, ("",)))
    headers = [("content-type", takes), *PRETENDED]
    if key:
        headers.append(("authorization", f"Bearer {key}"))
    if call.command and make.draw.random() < 0.3:
        headers.append(("idempotency-key", f"k{make.draw.randrange(4)}"))
    target = route.path.replace("{id}", quote(make.session_text or NAMES[0], safe="")).replace("{file}", "none.js")
    target = target.replace("{store}", "handbook").replace("{name}", "a/start.md")
    return DrawnRequest(route.method, f"{target}?{query}" if query else target, tuple(headers), content)
