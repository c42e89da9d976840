"""Asks the hosts of a cluster whether they answer, and what they run, for `agentrail doctor`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

import trio

from agentrail.cli.reports.doctor_diagnosis import BAD, GOOD, NOTE, Diagnosis, differences
from agentrail.errors import AgentrailError, BadConnection, HostNotReached
from agentrail.host.authentication.identity import NOBODY
from agentrail.host.authentication.signing_keys import KEY_CHARS, signing_keys
from agentrail.host.cluster.cluster_options import LOOPBACK, Cluster
from agentrail.host.cluster.members import REPORT, MemberReport, ask_report
from agentrail.host.cluster.signatures import SignedCall, signed_key
from agentrail.remote.transport.host_address import HostAddress, read_address
from agentrail.runtime.shared.clock import Clock

KEY: Final = "AGENTRAIL_CLUSTER_KEY"
"""The variable with the key of the cluster, unless `--key` names another one."""

ASKER: Final = "http://localhost"
"""The address of who asks and is no host."""

ABOUT: Final = "host"
SILENT: Final = "it does not say what it runs"
OTHER_KEY: Final = "its cluster has another key (processes of `serve --cores` have one that is new at each start)"
ON_ITS_MACHINE: Final = (
    "that address is of its machine alone: look there; if it has died, others have its sessions soon"
)
REPLACE: Final = "it depends on the host what an agent can do; replace the older ones"


def member_addresses(addresses: Sequence[str]) -> Mapping[str, HostAddress]:
    """Return where the hosts among the holders of leases at *addresses* listen: other programs have any text."""
    members: dict[str, HostAddress] = {}
    for address in addresses:
        try:
            members[address] = read_address(address)
        except BadConnection:
            continue
    return members


async def check_members(members: Mapping[str, HostAddress], variable: str) -> list[Diagnosis]:
    """Ask the hosts at *members*, by their address; *variable*: of the environment, with the key of their cluster."""
    if not members:
        return []
    cluster = _asker(variable)
    reports: dict[str, MemberReport | AgentrailError | None] = {}

    async def ask(address: str) -> None:
        key = ""
        if cluster is not None:
            call = SignedCall(*REPORT)
            key = signed_key(cluster, NOBODY, address, Clock().now_ms(), call, is_first=True)
        try:
            reports[address] = await ask_report(members[address], address, key)
        except HostNotReached as error:
            reports[address] = error

    async with trio.open_nursery() as nursery:  # noqa: TID251 - each task ends with its time
        for address in members:
            nursery.start_soon(ask, address)
    programs = {
        address: f"`{report.program}` at"
        for address, report in sorted(reports.items())
        if isinstance(report, MemberReport)
    }
    return [
        *(_finding(address, members[address], reports[address], has_key=cluster is not None) for address in members),
        *differences(ABOUT, "hosts run different programs", programs, REPLACE),
        *([] if cluster is not None else [_keyless(variable)]),
    ]


def _asker(variable: str) -> Cluster | None:
    """Return the cluster as who asks sees it; `None` without a key."""
    key = os.environ.get(variable, "")
    return Cluster(ASKER, key) if signing_keys(key) else None


def _keyless(variable: str) -> Diagnosis:
    state = f"{variable} has no key of {KEY_CHARS} characters or more, so hosts do not say what they run"
    return Diagnosis(ABOUT, NOTE, state, "set it to the key of the cluster, or name another variable: `--key VARIABLE`")


def _finding(
    address: str, host_address: HostAddress, report: MemberReport | AgentrailError | None, *, has_key: bool
) -> Diagnosis:
    match report:
        case MemberReport(program=program):
            return Diagnosis(ABOUT, GOOD, f"{address} answers, and runs {program}")
        case HostNotReached(problem=problem, advice=advice):
            to_do = ON_ITS_MACHINE if host_address.host in LOOPBACK else advice
            return Diagnosis(ABOUT, BAD, f"{address} does not answer: {problem}", to_do)
        case _ if has_key:
            return Diagnosis(ABOUT, NOTE, f"{address} answers, but {SILENT}: {OTHER_KEY}, or its agentrail is older")
        case _:
            return Diagnosis(ABOUT, GOOD, f"{address} answers")
