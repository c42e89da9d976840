"""`OtherHosts`: asks all hosts of the cluster, for what each knows of its own sessions alone.

What stands in the journal needs none of this: lists of sessions, and conversations.
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
from agentrail.host.operations.session_calls import SEPARATOR, page_limit
from agentrail.host.requests.http_messages import HttpResponse
from agentrail.values.json import Json, JsonObject
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
            "approvals": partial(self._approvals, functions["approvals"]),
            "show_session": partial(self._show, functions["show_session"]),
            "tasks": partial(self._tasks, functions["tasks"]),
            "tree": partial(self._tree, functions["tree"]),
        }

    async def _approvals(self, function: CallFunction, request: CallRequest) -> HttpResponse:
        """List what waits in the sessions of all hosts: what their sub-agents ask, only the host that runs them knows.

        A host that has more than a page may have more up to the end of its page alone: there this page ends too.
        """
        answer = await function(request)
        others = await self._views(request)
        if not others:
            return answer
        views = [_view(answer), *others]
        by_place = {_place_of(call): call for view in views for call in cast("list[JsonObject]", view["items"])}
        places = sorted(by_place)[: page_limit(request)]
        more = [_place_of(cast("list[JsonObject]", view["items"])[-1]) for view in views if view["next"] is not None]
        if len(places) < len(by_place):
            more.append(places[-1])
        end = min(more, default=None)
        items = [by_place[place] for place in places if end is None or place <= end]
        following = None if end is None else SEPARATOR.join(map(str, end))
        return request.json_answer(msgspec.json.encode({"items": items, "next": following}))

    async def _show(self, function: CallFunction, request: CallRequest) -> HttpResponse:
        """Show a session with what it does, on whatever host that is."""
        answer = await function(request)
        view = _view(answer)
        if view["status"] is None and not view["ended"]:
            for other in await self._views(request):
                if other.get("status") is not None:
                    return request.json_answer(msgspec.json.encode(other))
        return answer

    async def _tasks(self, function: CallFunction, request: CallRequest) -> HttpResponse:
        """List the sub-agents of a session, also those that work on another host: the journal has only the others."""
        answer = await function(request)
        views = [_view(answer), *await self._views(request)]
        return request.json_answer(
            msgspec.json.encode(max(views, key=lambda view: len(cast("list[Json]", view["items"]))))
        )

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
        who = request.who
        if isinstance(who, ForwardedIdentity) and who.hops:
            return views
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


def _place_of(call: JsonObject) -> tuple[int, str]:
    """Return by what a call that waits is sorted."""
    return cast("int", call["since"]), cast("str", call["id"])


def _view(answer: HttpResponse) -> dict[str, Json]:
    content = answer.make() if isinstance(answer, LaterAnswer) else cast("bytes", answer.content)
    return _decode(content)
