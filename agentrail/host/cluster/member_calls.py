"""Calls that hosts of a cluster make among themselves, and none of the API: signed requests at paths of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from agentrail.host.cluster.signed_requests import signed_only
from agentrail.host.requests.http_messages import Handler, HttpRequest, HttpResponse

MemberCalls: TypeAlias = Mapping[tuple[str, str], Handler]
"""What answers, by method and path."""


def with_member_calls(handler: Handler, calls: MemberCalls) -> Handler:
    """Return *handler*, which also carries out *calls*, for whoever has the key of the cluster."""
    signed_calls = {route: signed_only(call) for route, call in calls.items()}

    async def answer(request: HttpRequest) -> HttpResponse:
        return await signed_calls.get((request.method, request.path), handler)(request)

    return answer
