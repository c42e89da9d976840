"""`PluginCalls`: carries out calls of the host for its plugins, in the name of the user whose request they handle."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import CALLS, JSON
from agentrail.api.problems import Problem
from agentrail.api.views import to_json, to_plain
from agentrail.errors import AgentrailError
from agentrail.host.hosted_sessions import check_scope
from agentrail.host.operations.answers import Answer, Shown
from agentrail.host.operations.call_request import CallFunction, CallRequest
from agentrail.host.plugins.plugin_values import HandledResponse, Request
from agentrail.host.requests.http_messages import Body, HttpRequest, problem_answer
from agentrail.values.json import JsonObject, thaw

TALKS: Final = frozenset({"chat", "stream", "prompt", "steer"})
"""Calls that go through the plugins themselves, so that one of them would wait for itself."""

COMMAND: Final = "idempotency-key"


class GivenBody(Body):
    """A request body whose bytes are in memory."""

    __slots__ = ("_content", "_rest")

    def __init__(self, content: bytes) -> None:
        self._content = self._rest = content

    @property
    def length(self) -> int:
        """The number of bytes."""
        return len(self._content)

    @property
    def limit(self) -> int:
        """The number of bytes: all of them may be read."""
        return len(self._content)

    async def chunk(self) -> bytes:
        """Return all bytes, and none when it is called again."""
        content, self._rest = self._rest, b""
        return content


class PluginCalls:
    """Carries out calls of the host for its plugins."""

    def __init__(self, functions: Mapping[str, CallFunction], limits: HostLimits) -> None:
        self._functions = functions
        self._limits = limits

    async def carry_out(self, name: str, plugin_request: Request, body: JsonObject) -> HandledResponse | None:
        """Carry out the call *name* about the session of *request*; `None` if plugins cannot make it."""
        call, function = CALLS.get(name), self._functions.get(name)
        if call is None or function is None or name in TALKS or call.scope is None or call.media != JSON:
            return None
        http_request = HttpRequest("POST", "/", "", _headers(plugin_request, name), "", GivenBody(to_json(thaw(body))))
        request = CallRequest(
            http_request, call, plugin_request.identity, plugin_request.context.session_id, self._limits
        )
        try:
            check_scope(call, plugin_request.identity)
            answer = await request.answered(function)
        except AgentrailError as error:
            answer = request.problem(error)
        return _handled_response(answer)


def _handled_response(answer: Answer) -> HandledResponse | None:
    """Return *answer* as plugins get it; `None` if it is a stream."""
    if isinstance(answer, Problem):
        problem = problem_answer(answer)
        return HandledResponse(answer.status, to_plain(answer.document), dict(problem.headers))
    if not isinstance(answer, Shown):
        return None
    return HandledResponse(answer.status, answer.plain, dict(answer.all_headers))


def _headers(plugin_request: Request, name: str) -> tuple[tuple[str, str], ...]:
    """Return the headers of the call: if the request has a command id, one derived from it and from *name*."""
    key = plugin_request.header(COMMAND)
    headers = (("content-type", JSON),)
    return headers if key is None else (*headers, (COMMAND, sha256(f"{name} {key}".encode()).hexdigest()))
