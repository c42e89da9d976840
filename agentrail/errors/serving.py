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
    listed,
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
class UnknownRoute(UsageError):
    """The host has nothing at this path."""

    wording = "there is nothing at {path!r}; `/openapi.json` lists what there is"

    path: str = shortened()
    """Path of the request, shortened."""


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
class AppNotOpened(UsageError):
    """The ASGI app of a host was used while it was not open."""

    wording = (
        "cannot use the app of the host: it is not open; a mounted app gets no lifespan, so open it in that of the app "
        "around it, by `async with app:`"
    )


@error
class BodyTooLarge(UsageError):
    """A body has more bytes than it may."""

    wording = "the body has more than {limit} bytes; send less at once"

    limit: int
    """The most bytes of a body."""


@error
class WrongMedia(UsageError):
    """A body is of a media type that the call does not take."""

    wording = "the body is `{found}`; send `{wanted}`"

    found: str = shortened()
    """Media type of the body, shortened."""
    wanted: str
    """Media type that the call takes."""


@error
class BadBody(UsageError):
    """A body is JSON, but not what the call takes."""

    wording = "the body of `{call}` does not fit: {at} {problem}; `/openapi.json` has its schema"

    call: str
    """Name of the call."""
    at: str
    """Place in the body, as a JSONPath."""
    problem: str
    """What is wrong."""


@error
class BadQuery(UsageError):
    """The query of an address, or a header that says the same, is not what the call takes."""

    wording = "the query of `{call}` does not fit: {at} {problem}; `/openapi.json` says what it takes"

    call: str
    """Name of the call."""
    at: str
    """Name of the parameter, as a JSONPath."""
    problem: str
    """What is wrong."""


@error
class HistoryTooLong(UsageError):
    """A session has too many records for a call that reads all of them."""

    wording = "the session has {records} records, and the call reads {most} at most; read its records page by page"

    records: int
    """How many records the session has."""
    most: int
    """The most records that such a call reads."""


@error
class UpgradeWanted(UsageError):
    """The address is for WebSockets alone, and the request is no handshake of one."""

    wording = "the request is no handshake of a WebSocket: {problem}; send one as RFC 6455, version 13, has it"

    problem: str
    """What it lacks."""


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
class NotRegistered(UsageError):
    """Nothing is registered under a name that stands for code: a tool, a plugin or a model."""

    wording = "no {kind} is registered as {name!r}; registered are {known}"

    kind: str
    """What it stands for: a tool, a plugin or a model."""
    name: str = shortened()
    """The name, shortened."""
    known: str
    """The registered names, as text."""

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str]) -> NotRegistered:
        """Return an error that lists the *known* names."""
        return cls(kind, name, listed(sorted(known)))


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
class UnknownKey(UsageError):
    """A file of keys has no key with this id."""

    wording = "there is no key {key!r} in {path}; `agentrail serve keys list` lists them"

    key: str = shortened()
    """Id that was asked for, shortened."""
    path: str
    """Path of the file of keys."""


@error
class BadProfile(UsageError):
    """A profile of a host cannot be used."""

    wording = "cannot use the profile {profile!r}: {problem}"

    profile: str = shortened()
    """Name of the profile, shortened."""
    problem: str
    """Why it cannot be used."""


@error
class UnknownFile(UsageError):
    """No file of this name was uploaded to the session."""

    wording = "the session has no uploaded file {name!r}; upload it first, and give the name that comes back"

    name: str = shortened()
    """The name that was asked for, shortened."""


@error
class WrongContent(UsageError):
    """An uploaded file is not of the media type that it is sent with."""

    wording = "the content of the file is not `{media_type}`; send it with the media type that it has, or with none"

    media_type: str = shortened()
    """The media type that it was sent with, shortened."""


@error
class UnknownCommand(UsageError):
    """A message looks like a command, and the host has none of this name."""

    wording = "there is no command {command!r} here; {advice}; begin with a space to send the message as it is"

    command: str = shortened()
    """The name of the command, shortened."""
    advice: str
    """The nearest name, or all names."""

    @classmethod
    def among(cls, command: str, known: Iterable[str]) -> UnknownCommand:
        """Return an error that names the nearest of the *known* commands, or all."""
        return cls(command, advice(command, known, "there are"))


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
class AgentNotAllowed(RefusedError):
    """The user of the command line has neither begun the agent of a session, nor allowed the session to come back."""

    wording = (
        "`{session}` is a session whose agent you have not begun in this journal ({agent}), so nothing of it runs; "
        "`agentrail chat --resume {named}` shows it at a terminal, and asks"
    )

    session: str
    """Name of the session."""
    agent: str
    """What its agent is made of."""
    named: str
    """How `chat` finds the session: its name, and the option with the journal unless it is that of the user."""


@error
class OwnDecision(RefusedError):
    """Who asked for something may not decide about it, because the host wants four eyes."""

    wording = "you ask for `{approval}` yourself, by words or arguments of yours; another person has to decide"

    approval: str
    """Id of what is asked for."""


@error
class FourEyesWanted(RefusedError):
    """A change would let one person run calls that nobody else has seen, and the host wants four eyes."""

    wording = "{what} would let calls run that nobody else has seen, and the host wants four eyes; {advice}"

    what: str
    """The change, in words."""
    advice: str
    """What to do about it."""


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
class TooManySessions(RefusedError):
    """The tenant has as many sessions as it may."""

    wording = "the tenant has {limit} sessions, which is all it may have; delete one, or wait until one ends"

    limit: int
    """The most sessions of the tenant."""


@error
class TooManyStreams(RefusedError):
    """The tenant has as many streams of events open as it may."""

    wording = "the tenant has {limit} streams of events open, which is all it may have; close one"

    limit: int
    """The most streams of the tenant."""


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
class FilesTooLarge(RefusedError):
    """The files of a session take as much space as they may."""

    wording = "the files of the session would have more than {limit} bytes; go on in another session"

    limit: int
    """The most bytes of all files of a session."""


@error
class TooManyFiles(RefusedError):
    """A session has as many files as it may."""

    wording = "the session has {limit} files, the most that it may have; go on in another session"

    limit: int
    """The most files of a session."""


@error
class FilesNotTaken(RefusedError):
    """The sessions of an agent take no files."""

    wording = "its agent takes no files: {problem}; {advice}"

    problem: str
    """Why it takes none."""
    advice: str
    """What to do about it."""


@error
class PluginFailed(OutsideError):
    """A critical plugin of the host failed or was too late, so the request was not carried out."""

    wording = "the plugin `{plugin}` of the host could not be asked; try again later"

    plugin: str
    """Name of the plugin."""


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


@error
class LineLeft(UsageError):
    """A connection to a host was used after its `async with` was left."""

    wording = "there is no connection to the host at {address} any more: its `async with` was left; use it inside"

    address: str
    """Address of the host."""
