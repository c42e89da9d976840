"""Errors in requests to a host, refusals of a host, and errors of a client that connects to one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agentrail.errors.branches import InfrastructureError, OutsideError, RefusedError, UsageError, listed, meant

LONGEST_SHOWN: Final = 80
"""The most characters of what a client sent that an error repeats."""


def _cut(found: str) -> str:
    return found if len(found) <= LONGEST_SHOWN else f"{found[: LONGEST_SHOWN - 1]}…"


class BadName(UsageError):
    """A tenant, a user or a session cannot have this name."""

    wording = "cannot use {1!r} as the name of a {0}: {2}"

    def __init__(self, what: str, found: str, problem: str) -> None:
        super().__init__(what, _cut(found), problem)


class UnknownRoute(UsageError):
    """The host has nothing at this path."""

    wording = "there is nothing at {0!r}; `/openapi.json` lists what there is"

    def __init__(self, path: str) -> None:
        super().__init__(_cut(path))


class MethodRefused(UsageError):
    """The host does not take this method at this path."""

    wording = "`{0}` is not taken at {1!r}; use {2}"

    def __init__(self, method: str, path: str, allowed: str) -> None:
        super().__init__(_cut(method), _cut(path), allowed)

    @property
    def allowed(self) -> str:
        """The methods that are taken, for the header `Allow`."""
        return str(self.args[2])


class BodyTooLarge(UsageError):
    """A body has more bytes than it may."""

    wording = "the body has more than {0} bytes; send less at once"

    def __init__(self, limit: int) -> None:
        super().__init__(limit)


class WrongMedia(UsageError):
    """A body is of a media type that the call does not take."""

    wording = "the body is `{0}`; send `{1}`"

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__(_cut(found), wanted)


class BadBody(UsageError):
    """A body is JSON, but not what the call takes."""

    wording = "the body of `{0}` does not fit: {1} {2}; `/openapi.json` has its schema"

    def __init__(self, call: str, at: str, problem: str) -> None:
        super().__init__(call, at, problem)


class BadQuery(UsageError):
    """The query of an address, or a header that says the same, is not what the call takes."""

    wording = "the query of `{0}` does not fit: {1} {2}; `/openapi.json` says what it takes"

    def __init__(self, call: str, at: str, problem: str) -> None:
        super().__init__(call, at, problem)


class UpgradeWanted(UsageError):
    """The address is for WebSockets alone, and the request is no handshake of one."""

    wording = "the request is no handshake of a WebSocket: {0}; send one as RFC 6455, version 13, has it"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class BadFrame(UsageError):
    """A message on a WebSocket is JSON, but none of those that a client may send."""

    wording = "the message does not fit: {0} {1}; send one with `call`, `listen`, `end` or `key`, and what goes with it"

    def __init__(self, at: str, problem: str) -> None:
        super().__init__(at, problem)


class CannotListen(UsageError):
    """A server cannot listen at an address."""

    wording = "cannot listen at {0}: {1}; {2}"

    def __init__(self, address: str, problem: str, to_do: str) -> None:
        super().__init__(address, problem, to_do)


class UnknownAgent(UsageError):
    """The host has no profile of this name."""

    wording = "there is no agent {0!r} here; {1}"

    def __init__(self, agent: str, advice: str) -> None:
        super().__init__(_cut(agent), advice)

    @classmethod
    def among(cls, agent: str, known: Iterable[str]) -> UnknownAgent:
        """Return an error that names the nearest of the *known* agents, or all."""
        return cls(agent, meant(agent, known, "there are"))


class NotRegistered(UsageError):
    """Nothing is registered under a name that stands for code: a tool, a plugin or a model."""

    wording = "no {0} is registered as {1!r}; registered are {2}"

    def __init__(self, kind: str, name: str, known: str) -> None:
        super().__init__(kind, _cut(name), known)

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str]) -> NotRegistered:
        """Return an error that lists the *known* names."""
        return cls(kind, name, listed(sorted(known)))


class BadKeys(UsageError):
    """The keys of a host cannot be read from their file, or from the environment."""

    wording = "cannot take the keys of {0}: {1} {2}"

    def __init__(self, source: str, at: str, problem: str) -> None:
        super().__init__(source, at, problem)


class UnknownKey(UsageError):
    """A file of keys has no key with this id."""

    wording = "there is no key {0!r} in {1}; `agentrail serve keys list` lists them"

    def __init__(self, key: str, path: str) -> None:
        super().__init__(_cut(key), path)


class BadProfile(UsageError):
    """A profile of a host cannot be used."""

    wording = "cannot use the profile {0!r}: {1}"

    def __init__(self, profile: str, problem: str) -> None:
        super().__init__(_cut(profile), problem)


class UnknownFile(UsageError):
    """No file of this name was uploaded to the session."""

    wording = "the session has no uploaded file {0!r}; upload it first, and give the name that comes back"

    def __init__(self, name: str) -> None:
        super().__init__(_cut(name))


class WrongContent(UsageError):
    """An uploaded file is not of the media type that it is sent with."""

    wording = "the content of the file is not `{0}`; send it with the media type that it has, or with none"

    def __init__(self, media_type: str) -> None:
        super().__init__(_cut(media_type))


class UnknownCommand(UsageError):
    """A message looks like a command, and the host has none of this name."""

    wording = "there is no command {0!r} here; {1}; begin with a space to send the message as it is"

    def __init__(self, command: str, advice: str) -> None:
        super().__init__(_cut(command), advice)

    @classmethod
    def among(cls, command: str, known: Iterable[str]) -> UnknownCommand:
        """Return an error that names the nearest of the *known* commands, or all."""
        return cls(command, meant(command, known, "there are"))


class NotAuthenticated(RefusedError):
    """The request does not say by a valid key who sends it."""

    wording = "{0}; send a key of this host in the header `Authorization: Bearer …`"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class ScopeMissing(RefusedError):
    """The key does not allow the call."""

    wording = "the key has no scope `{1}`, which `{0}` needs; ask the operator of the host for a key with it"

    def __init__(self, call: str, scope: str) -> None:
        super().__init__(call, scope)


class OwnDecision(RefusedError):
    """Who asked for something may not decide about it, because the host wants four eyes."""

    wording = "you ask for `{0}` yourself, by words or arguments of yours; another person has to decide"

    def __init__(self, approval: str) -> None:
        super().__init__(approval)


class FourEyesWanted(RefusedError):
    """A change would let one person run calls that nobody else has seen, and the host wants four eyes."""

    wording = "{0} would let calls run that nobody else has seen, and the host wants four eyes; {1}"

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what, advice)


class OriginRefused(RefusedError):
    """A page of this origin, or a request to this host name, may not use the host."""

    wording = (
        "requests of {0!r} are refused; start the host with it: the origin of a page by `--origin`, a name by `--name`"
    )

    def __init__(self, origin: str) -> None:
        super().__init__(_cut(origin))


class TooManyRequests(RefusedError):
    """The tenant sends requests faster than it may."""

    wording = "more than {0} requests a second came from this tenant; wait {1} s"

    def __init__(self, limit: float, retry_after: float) -> None:
        super().__init__(limit, retry_after)

    @property
    def retry_after(self) -> float:
        """Seconds after which the next request is taken."""
        return float(self.args[1])


class TooManySessions(RefusedError):
    """The tenant has as many sessions as it may."""

    wording = "the tenant has {0} sessions, which is all it may have; delete one, or wait until one ends"

    def __init__(self, limit: int) -> None:
        super().__init__(limit)


class TooManyStreams(RefusedError):
    """The tenant has as many streams of events open as it may."""

    wording = "the tenant has {0} streams of events open, which is all it may have; close one"

    def __init__(self, limit: int) -> None:
        super().__init__(limit)


class ConnectionsInUse(RefusedError):
    """The tenant, or its key, uses as many connections as it may."""

    wording = "{0} uses {1} connections, as many as `{2}` lets it; end a stream, a WebSocket or a request, or wait"

    def __init__(self, user: str, limit: int, option: str) -> None:
        super().__init__(user, limit, option)


class FilesTooLarge(RefusedError):
    """The files of a session take as much space as they may."""

    wording = "the files of the session would have more than {0} bytes; go on in another session"

    def __init__(self, limit: int) -> None:
        super().__init__(limit)


class TooManyFiles(RefusedError):
    """A session has as many files as it may."""

    wording = "the session has {0} files, the most that it may have; go on in another session"

    def __init__(self, limit: int) -> None:
        super().__init__(limit)


class FilesNotTaken(RefusedError):
    """The sessions of an agent take no files."""

    wording = "its agent takes no files: {0}; {1}"

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(problem, advice)


class PluginFailed(OutsideError):
    """A critical plugin of the host failed or was too late, so the request was not carried out."""

    wording = "the plugin `{0}` of the host could not be asked; try again later"

    def __init__(self, plugin: str) -> None:
        super().__init__(plugin)


class AuthenticatorFailed(OutsideError):
    """The authenticator of the host failed or was too late, so it is not known who sends the request."""

    wording = "the host could not find out whose key it is; try again later"


class HostFailed(OutsideError):
    """A host that was called has a fault, or answered in a way that this version of agentrail does not know."""

    wording = (
        "the host has failed: {0}; it may have done what was asked, so look before you ask again; its log has the error"
    )

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


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
