"""Reports: a host says what it runs to whoever asks with the key of its cluster, as `agentrail doctor` does.

Calls that hosts of a cluster make among themselves, and none of the API: signed requests at paths of their own.

`server_for_members`: a listener of a host for the other hosts of its cluster alone.

Farewells: a host that has parked its sessions tells the others, which go on with them at once.

One that is lost costs a wait: the others also look by themselves, several times in each lease.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec
import trio

from agentrail.api.limits import HostLimits
from agentrail.codec.values import read_of_host
from agentrail.errors import BadConnection, BadData, HostNotReached
from agentrail.host.authentication.identity import NOBODY
from agentrail.host.cluster.cluster_options import OWN_MACHINE, Cluster
from agentrail.host.cluster.holder_connection import HEALTH, HolderConnection, HolderGoneError, connect
from agentrail.host.cluster.signatures import SignedCall, signature, signed_only
from agentrail.host.http11.http_server import HttpServer
from agentrail.host.requests.http_messages import Handler, HttpRequest, HttpResponse
from agentrail.host.requests.proxies import Proxies
from agentrail.host.requests.site_policy import SitePolicy, screened
from agentrail.remote.transport.host_address import CutError, HostAddress, cut_reason, dial_address
from agentrail.runtime.shared.clock import Clock
from agentrail.values.value import Value

MemberCalls: TypeAlias = Mapping[tuple[str, str], Handler]
"""What answers, by method and path."""


def with_member_calls(handler: Handler, calls: MemberCalls) -> Handler:
    """Return *handler*, which also carries out *calls*, for whoever has the key of the cluster."""
    signed_calls = {route: signed_only(call) for route, call in calls.items()}

    async def answer(request: HttpRequest) -> HttpResponse:
        return await signed_calls.get((request.method, request.path), handler)(request)

    return answer


THIS_MACHINE: Final = Proxies.named(OWN_MACHINE)
"""Members on this machine: each connects for many clients, as a proxy does, and names them."""


def server_for_members(cluster: Cluster, handler: Handler, limits: HostLimits) -> HttpServer:
    """Return a server for the other hosts of *cluster*, which *handler* answers: it refuses what none has signed."""
    policy = SitePolicy(hosts=frozenset([f"[{name}]" if ":" in name else name for name in cluster.names]))
    return HttpServer(screened(policy, handler), Clock().now_ms, limits, THIS_MACHINE)


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


REPORT: Final = ("GET", "/cluster/member")
OK: Final = 200
ANSWER_WITHIN: Final = 2.0
"""Seconds in which a host has to answer."""

LONGEST: Final = 64 * 1024
"""The most bytes of a report."""

NO_HOST: Final = "what listens there is no host of agentrail"
ADVICE: Final = "let this machine and the other hosts reach it; if it has died, they have its sessions soon"


class MemberReport(Value):
    """What a host says of itself."""

    program: str
    """What it runs: see `program_text`."""


def report_call(cluster: Cluster) -> Handler:
    """Return what answers with the report of the host of *cluster*."""

    async def report(_: HttpRequest) -> HttpResponse:  # noqa: ASYNC124 - async as `Handler` wants it
        content = msgspec.json.encode(MemberReport(cluster.program))
        return HttpResponse(OK, (("content-type", "application/json"),), content)

    return report


async def ask_report(endpoint: HostAddress, address: str, key: str) -> MemberReport | None:
    """Ask the host *address*, listening at *endpoint*, for its report; raise `HostNotReached` if it does not answer.

    `None`: it answers, but does not say what it runs, because *key*, a signature, is empty or not one of its cluster.
    """
    problem = f"it did not answer within {ANSWER_WITHIN:g} s"
    with trio.move_on_after(ANSWER_WITHIN):
        try:
            connection = HolderConnection(await dial_address(endpoint, None), address, endpoint)
        except OSError as error:
            raise HostNotReached(address, cut_reason(error), ADVICE) from None
        except CutError as error:
            raise HostNotReached(address, error.problem, ADVICE) from None
        try:
            return await _report(connection, endpoint.authority, key)
        except HolderGoneError:
            problem = NO_HOST
        finally:
            await connection.close()  # noqa: ASYNC102 - it waits for nothing
    raise HostNotReached(address, problem, ADVICE)


async def _report(connection: HolderConnection, authority: str, key: str) -> MemberReport | None:
    headers = (("authorization", f"Bearer {key}"),) if key else ()
    await connection.ask(authority, *(REPORT if key else HEALTH), headers, b"")
    content = bytearray()
    while len(content) <= LONGEST and (piece := await connection.piece()):
        content += piece
    if connection.status != OK or not key:
        return None
    try:
        return read_of_host(MemberReport, bytes(content))
    except BadData:
        raise HolderGoneError from None
