"""Reports: a host says what it runs to whoever asks with the key of its cluster, as `agentrail doctor` does."""

from __future__ import annotations

from typing import Final, cast

import msgspec
import trio

from agentrail.errors import HostNotReached
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.host.cluster.holder_connection import HolderConnection, HolderGoneError
from agentrail.host.requests.http_messages import Handler, HttpRequest, HttpResponse
from agentrail.remote.transport.host_address import CutError, HostAddress, cut_reason, dial_address
from agentrail.values.value import Value, learned

REPORT: Final = ("GET", "/cluster/member")
HEALTH: Final = ("GET", "/healthz")
"""What is asked of a host without a key."""

OK: Final = 200
WITHIN: Final = 2.0
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


async def ask_report(place: HostAddress, address: str, key: str) -> MemberReport | None:
    """Ask the host *address*, which listens at *place*, for its report; raise `HostNotReached` if it does not answer.

    `None`: it answers, but does not say what it runs, because *key*, a signature, is empty or not one of its cluster.
    """
    problem = f"it did not answer within {WITHIN:g} s"
    with trio.move_on_after(WITHIN):
        try:
            connection = HolderConnection(await dial_address(place, None), address, place)
        except OSError as error:
            raise HostNotReached(address, cut_reason(error), ADVICE) from None
        except CutError as error:
            raise HostNotReached(address, error.problem, ADVICE) from None
        try:
            return await _report(connection, place.authority, key)
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
        return cast("MemberReport", msgspec.json.decode(content, type=learned(MemberReport)))
    except msgspec.DecodeError:
        raise HolderGoneError from None
