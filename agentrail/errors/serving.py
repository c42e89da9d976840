"""Errors in requests to a host, refusals of a host, and errors of a client that connects to one."""

from __future__ import annotations

from collections.abc import Iterable

from agentrail.errors.agentrail_error import (
    InfrastructureError,
    OutsideError,
    RefusedError,
    UsageError,
    advice,
    error,
    shortened,
)


@error
class BadName(UsageError):
    """A tenant, a user or a session cannot have this name."""

    wording = "cannot use {found!r} as the name of a {what}: {problem}"

    what: str
    """What was to be named: a tenant, a user or a session."""
    found: str = shortened()
    """The name, shortened."""
    problem: str
    """What is wrong with it, or what to give."""


@error
class MethodRefused(UsageError):
    """The host does not take this method at this path."""

    wording = "`{method}` is not taken at {path!r}; use {allowed}"

    method: str = shortened()
    """Method of the request, shortened."""
    path: str = shortened()
    """Path of the request, shortened."""
    allowed: str
    """The methods that are taken, for the header `Allow`."""


@error
class BodyTooLarge(UsageError):
    """A body has more bytes than it may."""

    wording = "the body has more than {limit} bytes; send less at once"

    limit: int
    """The most bytes of a body."""


@error
class BadFrame(UsageError):
    """A message on a WebSocket is JSON, but none of those that a client may send."""

    wording = (
        "the message does not fit: {at} {problem}; send one with `call`, `listen`, `end` or `key`, and what goes with "
        "it"
    )

    at: str
    """Place in the message, as a JSONPath."""
    problem: str
    """What is wrong."""


@error
class CannotListen(UsageError):
    """A server cannot listen at an address."""

    wording = "cannot listen at {address}: {problem}; {to_do}"

    address: str
    """The address."""
    problem: str
    """Why it cannot listen there."""
    to_do: str
    """What to do about it."""


@error
class UnknownAgent(UsageError):
    """The host has no profile of this name."""

    wording = "there is no agent {agent!r} here; {advice}"

    agent: str = shortened()
    """The name that was asked for, shortened."""
    advice: str
    """The nearest name, or all names."""

    @classmethod
    def among(cls, agent: str, known: Iterable[str]) -> UnknownAgent:
        """Return an error that names the nearest of the *known* agents, or all."""
        return cls(agent, advice(agent, known, "there are"))


@error
class BadKeys(UsageError):
    """The keys of a host cannot be read from their file, or from the environment."""

    wording = "cannot take the keys of {source}: {at} {problem}"

    source: str
    """The file, or the environment."""
    at: str
    """Place in the file."""
    problem: str
    """What is wrong."""


@error
class BadProfile(UsageError):
    """A profile of a host cannot be used."""

    wording = "cannot use the profile {profile!r}: {problem}"

    profile: str = shortened()
    """Name of the profile, shortened."""
    problem: str
    """Why it cannot be used."""


@error
class NotAuthenticated(RefusedError):
    """The request does not say by a valid key who sends it."""

    wording = "{problem}; send a key of this host in the header `Authorization: Bearer …`"

    problem: str
    """What is wrong with the key, or that there is none."""


class KeyWithdrawn(NotAuthenticated):
    """The host that runs the session does not, or no longer, take the key, although the host that was asked does."""


@error
class ScopeMissing(RefusedError):
    """The key does not allow the call."""

    wording = "the key has no scope `{scope}`, which `{call}` needs; ask the operator of the host for a key with it"

    call: str
    """Name of the call."""
    scope: str
    """The scope that is missing."""


@error
class OriginRefused(RefusedError):
    """A page of this origin, or a request to this host name, may not use the host."""

    wording = (
        "requests of {origin!r} are refused; start the host with it: the origin of a page by `--origin` or `origins=`, "
        "a name by `--name` or `hosts=`"
    )

    origin: str = shortened()
    """The origin of the page, or the name of the host, shortened."""


@error
class TooManyRequests(RefusedError):
    """The tenant sends requests faster than it may."""

    wording = "more than {limit} requests a second came from this tenant; wait {retry_after} s"

    limit: float
    """The most requests in a second."""
    retry_after: float
    """Seconds after which the next request is taken."""


@error
class ConnectionsInUse(RefusedError):
    """The tenant, or its key, uses as many connections as it may."""

    wording = (
        "{user} uses {limit} connections, as many as `{option}` lets it; end a stream, a WebSocket or a request, or "
        "wait"
    )

    user: str
    """Who uses them: the tenant or its key."""
    limit: int
    """The most connections that it may use."""
    option: str
    """Name of the option that sets the limit."""


@error
class FilesNotTaken(RefusedError):
    """The sessions of an agent take no files."""

    wording = "its agent takes no files: {problem}; {advice}"

    problem: str
    """Why it takes none."""
    advice: str
    """What to do about it."""


class AuthenticatorFailed(OutsideError):
    """The authenticator of the host failed or was too late, so it is not known who sends the request."""

    wording = "the host could not find out whose key it is; try again later"


@error
class ClusterFault(OutsideError):
    """A host of the cluster does not take what another one signs, or answers as no host does."""

    wording = (
        "the hosts of the cluster do not work together: {problem}; give all of them the same key and the same version, "
        "and let their clocks agree"
    )

    problem: str
    """What was found."""


@error
class HostFailed(OutsideError):
    """A host that was called has a fault, or answered in a way that this version of agentrail does not know."""

    wording = (
        "the host has failed: {problem}; it may have done what was asked, so look before you ask again; its log has "
        "the error"
    )

    problem: str
    """What went wrong."""


class HostClosing(InfrastructureError):
    """The host is about to stop, and takes no new work."""

    wording = "the host is stopping; try again later"


class WaitsForJournal(InfrastructureError):
    """The journal cannot write what a request waits for; the command may still be carried out."""

    wording = (
        "the journal cannot write what the request waits for; it may still be carried out when it can: send it again "
        "later with the same `Idempotency-Key`, and it is carried out once"
    )


class WaitsForSpace(InfrastructureError):
    """The journal has no space for what a request waits for; the command may still be carried out."""

    wording = (
        "the journal has no space for what the request waits for; it may still be carried out when there is space: "
        "free some, and send it again with the same `Idempotency-Key`, and it is carried out once"
    )


@error
class BadConnection(UsageError):
    """The address of a host or the key for it cannot be used. The error repeats neither, as it may hold a secret."""

    wording = "cannot connect to a host: {problem}; {advice}"

    problem: str
    """Why they cannot be used."""
    advice: str
    """What to do about it."""


@error
class HostNotReached(OutsideError):
    """No host of agentrail could be reached at an address."""

    wording = "cannot connect to a host at {address}: {problem}; {advice}"

    address: str
    """Address of the host."""
    problem: str
    """Why it could not be reached."""
    advice: str
    """What to do about it."""


@error
class HostLost(OutsideError):
    """The connection to a host was cut, and could not be made again in time."""

    wording = (
        "there has been no connection to the host at {address} for {seconds} s: {problem}; what was sent may have "
        "been carried out: send it again with the same command id, and continue subscriptions with `since=`"
    )

    address: str
    """Address of the host."""
    seconds: float
    """The seconds without a connection."""
    problem: str
    """Why the connection could not be made again."""


class NotAtHost(UsageError, AttributeError):
    """A local handle or supervisor can do this, and one of a host cannot."""

    wording = "cannot use `{0}` of what a host has: {1}; {2}"

    def __init__(self, name: str, problem: str, advice: str) -> None:
        super().__init__(name, problem, advice)
