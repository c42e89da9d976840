"""`HostOperations`: admits the calls of all faces of a host, and carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import CALLS, HostCall
from agentrail.errors import HostClosing
from agentrail.host.authentication.identity import Identity
from agentrail.host.authentication.request_rates import Rates
from agentrail.host.host_drain import HostDrain
from agentrail.host.hosted_sessions import check_scope
from agentrail.host.operations.answers import Answer
from agentrail.host.operations.call import CallFunction, OperationCall


def functions_of(*groups: object) -> Mapping[str, CallFunction]:
    """Return those methods of *groups* that have the name of an operation, by this name."""
    return {
        name: cast("CallFunction", getattr(group, name)) for group in groups for name in CALLS if hasattr(group, name)
    }


class HostOperations:
    """The operations of a host. A face admits a call, reads what the call takes, and has it carried out."""

    def __init__(self, functions: Mapping[str, CallFunction], drain: HostDrain, limits: HostLimits) -> None:
        self.functions = functions
        """The function of each operation, by its name."""
        self.drain = drain
        self.limits = limits
        self._rates = Rates(limits)

    def check_open(self) -> None:
        """Raise `HostClosing` if the host takes no more calls, before anything is looked up for one."""
        if self.drain.has_begun:
            raise HostClosing

    def count(self, who: Identity) -> None:
        """Count a call of *who*, or a handshake; raise `TooManyRequests` if their tenant makes too many."""
        self._rates.take(who.tenant)

    def admit(self, row: HostCall, who: Identity, *, is_counted: bool = False) -> None:
        """Count a call of *row* that *who* makes, unless it *is_counted*; raise an error if *who* may not make it."""
        if not is_counted:
            self.count(who)
        check_scope(row, who)

    async def carry_out(self, call: OperationCall) -> Answer:
        """Return the answer to *call*; raise an error if the journal cannot write for its session."""
        return await call.answered(self.functions[call.row.name])
