"""`OtherHosts`: asks all hosts of the cluster, for what each knows of its own sessions alone.

What stands in the journal needs none of this: lists of sessions, conversations, and what waits for a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, cast

import msgspec
import trio
from attrs import evolve

from agentrail.host.authentication.identity import ForwardedIdentity
from agentrail.host.cluster.forwarding import MAX_HOPS, Forwarding
from agentrail.host.cluster.holder_connection import HolderGoneError
from agentrail.host.operations.call_request import CallFunction, CallRequest, LaterAnswer
from agentrail.host.requests.http_messages import HttpResponse
from agentrail.values.json import Json
from agentrail.values.value import learned

WITHIN: Final = 2.0
"""Seconds in which another host has to answer; one that does not is left out."""

_decode: Final = cast("msgspec.json.Decoder[dict[str, Json]]", msgspec.json.Decoder(learned(dict[str, Json]))).decode


class OtherHosts:
    """Adds to the answers of this host what the *others* know, whose addresses that function returns."""

    def __init__(self, forwarding: Forwarding, others: Callable[[], frozenset[str]]) -> None:
        self._forwarding = forwarding
        self._others = others

    def adding(self, functions: Mapping[str, CallFunction]) -> Mapping[str, CallFunction]:
        """Return the functions of calls, of which those that show sessions that run show those of all hosts."""
        return {
            **functions,
            "show_session": partial(self._show, functions["show_session"]),
            "tree": partial(self._tree, functions["tree"]),
        }

    async def _show(self, function: CallFunction, request: CallRequest) -> HttpResponse:
        """Show a session with what it does, on whatever host that is."""
        answer = await function(request)
        view = _view(answer)
        if view["status"] is None and not view["ended"]:
            for other in await self._views(request):
                if other.get("status") is not None:
                    return request.json_answer(msgspec.json.encode(other))
        return answer

    async def _tree(self, function: CallFunction, request: CallRequest) -> HttpResponse:
        """Show the sessions that run on all hosts, as if one supervisor had them."""
        answer = await function(request)
        others = await self._views(request)
        if not others:
            return answer
        view = _view(answer)
        children = [child for tree in (view, *others) for child in cast("list[Json]", tree["children"])]
        return request.json_answer(msgspec.json.encode({**view, "children": children}))

    async def _views(self, request: CallRequest) -> list[dict[str, Json]]:
        """Return what the other hosts answer to *request*; none if it comes from one of them."""
        views: list[dict[str, Json]] = []
        if isinstance(request.who, ForwardedIdentity):
            return views
        who = request.who
        other_request = evolve(request, who=ForwardedIdentity(who.tenant, who.user, who.scopes, hops=MAX_HOPS - 1))

        async def ask(address: str) -> None:
            with trio.move_on_after(WITHIN):
                try:
                    connection = await self._forwarding.forward(address, other_request)
                    try:
                        if connection.status == request.call.status:
                            views.append(_decode(await connection.content()))
                    finally:
                        await connection.close()  # noqa: ASYNC102 - it waits for nothing
                except HolderGoneError:
                    return

        async with trio.open_nursery() as nursery:  # noqa: TID251 - each task ends with its time
            for address in sorted(self._others()):
                nursery.start_soon(ask, address)
        return views


def _view(answer: HttpResponse) -> dict[str, Json]:
    content = answer.make() if isinstance(answer, LaterAnswer) else cast("bytes", answer.content)
    return _decode(content)
