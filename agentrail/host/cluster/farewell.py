"""Farewells: a host that has parked its sessions tells the others, which go on with them at once.

One that is lost costs a wait: the others also look by themselves, several times in each lease.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

import trio

from agentrail.errors import BadConnection
from agentrail.host.authentication.identity import NOBODY
from agentrail.host.cluster.cluster_identity import SignedCall, signature
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.host.cluster.holder_connection import HolderGoneError, connect
from agentrail.host.requests.http_messages import Handler, HttpRequest, HttpResponse
from agentrail.runtime.shared.clock import Clock

FAREWELL: Final = ("POST", "/cluster/farewell")
TAKEN: Final = 204

WITHIN: Final = 1.0
"""Seconds in which the others have to hear it: the host that leaves waits for no other."""


async def say_farewell(cluster: Cluster, others: Collection[str]) -> None:
    """Tell the hosts at the addresses *others* that the host of *cluster* has let go of its sessions."""

    async def tell(address: str) -> None:
        with suppress(BadConnection, HolderGoneError):  # other programs may have any text as their address
            connection, authority = await connect(cluster, address)
            try:
                header = signature(cluster, NOBODY, address, Clock().now_ms(), SignedCall(*FAREWELL))
                await connection.ask(authority, *FAREWELL, (header,), b"")
            finally:
                await connection.close()  # noqa: ASYNC102 - it waits for nothing

    with trio.move_on_after(WITHIN):
        async with trio.open_nursery() as nursery:  # noqa: TID251 - each task ends with its time
            for address in others:
                nursery.start_soon(tell, address)


def farewell_call(look: Callable[[], None]) -> Handler:
    """Return what takes the farewells of other hosts, and then calls *look*."""

    async def take(_: HttpRequest) -> HttpResponse:  # noqa: ASYNC124 - async as `Handler` wants it
        look()
        return HttpResponse(TAKEN)

    return take
