"""Errors of a client that connects to a host."""

from __future__ import annotations

from agentrail.errors.branches import OutsideError, UsageError


class BadConnection(UsageError):
    """The address of a host or the key for it cannot be used. The error repeats neither, as it may hold a secret."""

    wording = "cannot connect to a host: {0}; {1}"

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(problem, advice)


class HostNotReached(OutsideError):
    """No host of agentrail could be reached at an address."""

    wording = "cannot connect to a host at {0}: {1}; {2}"

    def __init__(self, address: str, problem: str, advice: str) -> None:
        super().__init__(address, problem, advice)


class HostLost(OutsideError):
    """The connection to a host was cut, and could not be made again in time."""

    wording = (
        "there has been no connection to the host at {0} for {1} s: {2}; what was sent may have been carried out: send "
        "it again with the same command id, and continue subscriptions with `since=`"
    )

    def __init__(self, address: str, seconds: float, problem: str) -> None:
        super().__init__(address, seconds, problem)


class NotAtHost(UsageError, AttributeError):
    """A local handle or supervisor can do this, and one of a host cannot."""

    wording = "cannot use `{0}` of what a host has: {1}; {2}"

    def __init__(self, name: str, problem: str, advice: str) -> None:
        super().__init__(name, problem, advice)


class LineLeft(UsageError):
    """A connection to a host was used after its `async with` was left."""

    wording = "there is no connection to the host at {0} any more: its `async with` was left; use it inside"

    def __init__(self, address: str) -> None:
        super().__init__(address)
