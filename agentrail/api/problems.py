"""Problem documents (RFC 9457): `ROWS` has status and advice of each error; `error_of` makes the error again.

A document contains no paths, addresses or exceptions of the host. Its text is for clients over HTTP, so most rows have
their own advice: that of the error itself is for programs in Python. For remote handles, a document also has the class
of the error, and those of its facts that the text shows.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from functools import cache
from string import Formatter
from types import MappingProxyType
from typing import Final, TypeAlias, cast, get_type_hints

import msgspec

from agentrail import errors
from agentrail.api.bodies import GREATEST
from agentrail.api.public_ids import without_tenant
from agentrail.errors import (
    AgentrailError,
    HostFailed,
    MethodRefused,
    ModelError,
    NotAuthenticated,
    TurnAborted,
)
from agentrail.errors.agentrail_error import BRANCHES, coded_of, filled, kind_of, names_of_facts, slug, template_of
from agentrail.values.json import Json, JsonObject
from agentrail.values.value import Value, learned


class Row(Value, gc=True):
    """What clients are told of one class of errors."""

    status: int
    """Status of the response."""
    to_do: str = ""
    """What the client can do; if empty, the wording of the error after its first semicolon says it."""
    finding: str | None = None
    """What was found, as a template; `None` if the wording of the error, before its first semicolon, says it."""
    retry_after: int | None = None
    """Seconds to wait before another attempt, unless the error says; `None` if waiting does not help."""
    told_as: type[AgentrailError] | None = None
    """The class whose name and title the document has; `None` if its own."""
    facts: tuple[int, ...] = ()
    """Positions of facts that are told although no words of the document name them."""


Kind: TypeAlias = type[AgentrailError] | str
"""A class of errors, or the code of errors that have no class of their own."""

OPERATOR: Final = "tell the operator of the host; its log says more"
"""The advice of the rows that nobody but the operator can do something about."""

_AGAIN: Final = "try again later; send the same `Idempotency-Key`, and nothing is carried out twice"
_SEE: Final = "see `GET /v1/sessions/{id}` for what the session does"
_BODY: Final = "correct the body; `/openapi.json` has its schema"

_NO_SESSION: Final = Row(
    404,
    "`GET /v1/sessions` lists your sessions, and `POST /v1/sessions` opens one",
    "there is no such session",
    told_as=errors.UnknownSession,
)
"""One row, word for word, for what is not there, what is no id, and what belongs to others."""

_TAKEN: Final = Row(409, "use another name, or prompt the session that is there", "the name is taken", facts=(0,))

_HOSTS_CODE: Final = Row(500, OPERATOR, "the code of the host is not as it has to be")
"""Errors of usage that no client can cause: the program around the host made them."""

_FAILED: Final = Row(502, OPERATOR)
_SANDBOX: Final = Row(403, "ask for something that the session's sandbox allows")

_SAME_KEY: Final = (
    "send it again later with the same `Idempotency-Key`, and it is carried out once; if it had none, see first what "
    "the session has done"
)

_WRITTEN: Final[Mapping[Kind, Row]] = {
    AgentrailError: _HOSTS_CODE,
    errors.UsageError: Row(400, _BODY),
    # What was sent
    errors.BadText: Row(400, "send JSON as RFC 8259 has it: UTF-8, finite numbers, each key once"),
    errors.NotJson: Row(400, "send text, finite numbers, booleans, null, lists and objects"),
    "bad-query": Row(400),
    errors.BodyTooLarge: Row(413),
    "wrong-media": Row(415),
    "bad-body": Row(422),
    errors.BadFrame: Row(422),
    errors.BadData: Row(422, _BODY),
    errors.BadValue: Row(422, _BODY),
    "bad-message": Row(422, "send text, or a list of `Text`, `Image`, `File` and `Data`"),
    errors.WrongType: Row(422, _BODY, facts=(2,)),
    errors.UnknownField: Row(422, _BODY, facts=(2,)),
    errors.UnknownArgument: Row(422, _BODY, facts=(2,)),
    errors.BadChoice: Row(422),
    errors.BadName: Row(422, "give another name"),
    errors.BadId: Row(422, "give another name"),
    "bad-arguments": Row(422, "give arguments that fit the schema of the tool"),
    errors.BadResult: Row(422, "give a result that fits the schema of the tool", facts=(1, 2)),
    errors.BadReturns: Row(422, "give a JSON Schema of an object"),
    errors.BadOptions: Row(422, "correct the options"),
    errors.BadEdit: Row(422, "give a text that occurs there once"),
    errors.BadPattern: Row(422, "correct the pattern"),
    errors.PartRefused: Row(422),
    "not-registered": Row(
        422,
        "name what is registered, or have the operator register it in the profile of the session",
        "no {kind} is registered as {name!r}, but {2}",
    ),
    "unknown-file": Row(422),
    "bad-document-name": Row(422),
    "bad-store-name": Row(422),
    "document-unreadable": Row(422),
    "document-too-large": Row(413),
    "too-many-documents": Row(409),
    "other-embedder": Row(
        409,
        "have the operator give the host that embedder, or make the store anew by `agentrail knowledge rebuild`",
        "the store was made with {present}, and the host has {other}",
    ),
    "wrong-content": Row(422),
    errors.UnknownModel: Row(422, "name a model that the host knows", "the host knows no such model", facts=(0,)),
    "history-too-long": Row(422),
    "too-many-labels": Row(422, "remove some in the same call"),
    # What is not there
    "unknown-route": Row(404),
    errors.MethodRefused: Row(405),
    "upgrade-wanted": Row(426),
    errors.UnknownSession: _NO_SESSION,
    errors.UnknownAgent: Row(404),
    "unknown-document": Row(404),
    "unknown-passage": Row(404),
    "unknown-command": Row(404),
    "no-changed-file": Row(404, "give paths of `GET /v1/sessions/{id}/rewind`"),
    "no-written-file": Row(404, "give a path of `GET /v1/sessions/{id}/files`"),
    errors.UnknownApproval: Row(404, "`GET /v1/approvals` lists what waits for a decision; another may have decided"),
    errors.UnknownTool: Row(404, "`GET /v1/sessions/{id}` lists the tools of the session"),
    errors.UnknownPlugin: Row(404, "`GET /v1/sessions/{id}` lists the plugins of the session"),
    errors.UnknownPrompt: Row(404, _SEE),
    "unknown-turn": Row(404, _SEE),
    "no-turn": Row(404, "prompt the session first"),
    errors.UnknownTask: Row(404, _SEE),
    errors.UnknownChild: Row(404, "`GET /v1/tree` shows what there is"),
    errors.UnknownRecord: Row(404, "give the number of a record that the session has; they begin with 1"),
    errors.UnknownRequest: Row(404, "its events `request_start` have the ids of those that there are"),
    errors.UnknownCursor: Row(409, "give a cursor of this session, or `since=0` for all its events"),
    # Conflicts with the state of a session
    errors.ResultNotWanted: Row(409, "`GET /v1/approvals` lists what waits for a result"),
    errors.WrongDecision: Row(
        409,
        "use the call that fits: approve and reject for calls, respond for questions, result for results",
        facts=(3,),
    ),
    errors.NotAsShown: Row(409, "`GET /v1/approvals` shows what is held now"),
    "no-family": Row(409),
    errors.Busy: Row(409),
    errors.FilesEdited: Row(409),
    "snapshot-gone": Row(409, "give a later point: older snapshots are no longer kept"),
    "no-snapshots": Row(409, "have the operator give its profile a sandbox with snapshots"),
    "task-done": Row(409),
    errors.IllegalInput: Row(409, _SEE),
    errors.CommandConflict: Row(409, "use a new `Idempotency-Key` for each command"),
    errors.SessionExists: _TAKEN,
    errors.SessionStored: _TAKEN,
    errors.SessionNotAlive: Row(409, "open another session by `POST /v1/sessions`"),
    errors.JournalReadOnly: Row(
        409, "start its agents with `agentrail serve` for that", "the journal is only looked at"
    ),
    errors.SessionBeingDeleted: Row(409, "wait until that is done", "the session is being deleted"),
    errors.SessionStillRuns: Row(
        409, "abort it, and try again", "the session, or a sub-agent of it, runs", facts=(0, 1)
    ),
    "session-unfinished": Row(409, "abort it and try again, or delete it", "a turn of the session is not over"),
    errors.SessionAsleep: Row(409, "try again, which wakes it", "the session sleeps"),
    errors.SessionParked: Row(409, "prompt it, which brings it back", "the session is stored, and does not run"),
    "spec-missing": Row(409, "have the operator bring its profile back", "the host has no profile for it any more"),
    errors.PluginMismatch: Row(409, OPERATOR, "the code of a plugin does not fit the records of the session"),
    errors.ToolExists: Row(409, "detach it first, or replace it"),
    "source-exists": Row(409, "detach it first, or replace it"),
    "source-alone": Row(409, "attach each by a request of its own"),
    "plugin-exists": Row(409, "detach it first"),
    "model-exists": Row(409, "have the operator name the new one differently"),
    "child-exists": Row(409, "use another name"),
    errors.SupervisorClosed: Row(409, _AGAIN, "the host is stopping"),
    # Errors of the program around the host
    errors.CannotListen: _HOSTS_CODE,
    errors.BadTool: _HOSTS_CODE,
    "argument-raised": _HOSTS_CODE,
    "bad-mcp-server": _HOSTS_CODE,
    "bad-web-access": _HOSTS_CODE,
    errors.BadSpec: _HOSTS_CODE,
    "bad-deps": _HOSTS_CODE,
    "bad-case": _HOSTS_CODE,
    "bad-case-file": _HOSTS_CODE,
    "bad-at-once": _HOSTS_CODE,
    "bad-beyond": _HOSTS_CODE,
    "bad-candidate": Row(422, "correct the options"),
    "bad-evaluation": _HOSTS_CODE,
    "no-candidate": Row(422, "send `options`, or a `candidate` that `GET /v1/candidates` lists"),
    "no-knowledge": Row(404, "have the operator give the host a folder for knowledge"),
    "unknown-store": Row(404),
    "unknown-candidate": Row(404, "`GET /v1/candidates` lists those there are"),
    "no-processes": _HOSTS_CODE,
    "no-sessions": _HOSTS_CODE,
    errors.BadPlugin: _HOSTS_CODE,
    "bad-supervisor": _HOSTS_CODE,
    errors.NotReady: _HOSTS_CODE,
    "ended-too-often": _HOSTS_CODE,
    errors.ExtraMissing: _HOSTS_CODE,
    errors.NotEntered: _HOSTS_CODE,
    errors.AlreadyLeft: _HOSTS_CODE,
    errors.AlreadyRead: _HOSTS_CODE,
    "no-trio-run": _HOSTS_CODE,
    "no-host-loop": _HOSTS_CODE,
    "loop-gone": _HOSTS_CODE,
    "would-deadlock": _HOSTS_CODE,
    errors.BridgeClosed: _HOSTS_CODE,
    errors.BridgeForked: _HOSTS_CODE,
    "app-not-opened": _HOSTS_CODE,
    errors.NotOpened: _HOSTS_CODE,
    "not-in-its-run": _HOSTS_CODE,
    "asks-itself": _HOSTS_CODE,
    "turn-goes-on": _HOSTS_CODE,
    "async-wanted": _HOSTS_CODE,
    errors.BadKeys: _HOSTS_CODE,
    "unknown-key": _HOSTS_CODE,
    errors.BadProfile: _HOSTS_CODE,
    errors.BadConnection: _HOSTS_CODE,
    "line-left": _HOSTS_CODE,
    errors.NotAtHost: _HOSTS_CODE,
    # What is not allowed, or not now
    errors.RefusedError: Row(403, OPERATOR),
    errors.NotAuthenticated: Row(401),
    errors.ScopeMissing: Row(403),
    "agent-not-allowed": Row(403),
    "own-decision": Row(403),
    "four-eyes-wanted": Row(403),
    errors.OriginRefused: Row(
        403,
        "have the operator of the host allow it: the origin of a page by `--origin` or `origins=`, a name by `--name` "
        "or `hosts=`",
    ),
    errors.PluginRefused: Row(403, "change what the plugin refuses"),
    errors.SessionRefused: Row(403, "ask for another agent", "{by} refuses the start of the session: {reason}"),
    errors.PromptWasRejected: Row(403, "say it differently"),
    errors.PathRefused: _SANDBOX,
    errors.CommandRefused: _SANDBOX,
    errors.SandboxMissing: Row(403, OPERATOR, "the program that confines commands is missing, so none was run"),
    errors.WebRefused: _SANDBOX,
    errors.PromptWasDropped: Row(409, "send it again if it is still wanted"),
    errors.TurnAborted: Row(409, "send the prompt again if it is still wanted"),
    errors.AnswerUnfit: Row(409, "ask again, or for a simpler form"),
    errors.NoAnswer: Row(409, "decide what `GET /v1/approvals` lists, and send the same `Idempotency-Key` again"),
    "tool-changed": Row(409, "reject it"),
    "file-too-large": Row(409),
    "files-too-large": Row(409),
    "too-many-files": Row(409),
    "store-full": Row(409),
    "too-many-stores": Row(409),
    errors.FilesNotTaken: Row(409),
    errors.QueueFull: Row(429, "wait for a turn to end", retry_after=5),
    errors.SteeringQueueFull: Row(429, "wait for the model's next request", retry_after=2),
    errors.MailboxFull: Row(429, "send it again when some of that is handled", retry_after=2),
    errors.TooManyRequests: Row(429, retry_after=1),
    "too-many-sessions": Row(429, retry_after=60),
    "too-many-streams": Row(429, retry_after=5),
    errors.ConnectionsInUse: Row(429, retry_after=5),
    # What failed outside of the host
    errors.OutsideError: _FAILED,
    errors.AuthenticatorFailed: Row(503, retry_after=5),
    errors.ClusterFault: Row(503, OPERATOR, "two hosts of the cluster do not trust each other", 5),
    "bad-embedding": Row(503, OPERATOR, "the embedder of the store does not do what it should", 60),
    "knowledge-failed": Row(503, "try again later", "the store could not be read or written", 5),
    "knowledge-unusable": Row(503, OPERATOR, "the store cannot be used", 60),
    "plugin-failed": Row(503, "try again later", "a plugin of the host could not be asked", 5),
    errors.ToolError: Row(502, "read what the tool says"),
    "not-readable": _FAILED,
    errors.DiskFull: Row(
        507,
        "try again later, or tell the operator of the host",
        "the disk of the session's sandbox is full; nothing was kept",
        30,
    ),
    "command-failed": _FAILED,
    "container-failed": _FAILED,
    "container-gone": _FAILED,
    "snapshot-damaged": Row(502, OPERATOR),
    "snapshot-not-kept": Row(507, OPERATOR, "a snapshot of the files cannot be kept", 30),
    "snapshot-too-large": Row(502, OPERATOR, "its folder has too many files, bytes or rules for snapshots"),
    errors.SearchTooSlow: Row(502, "use a simpler pattern or a smaller folder"),
    "backtest-ended": _FAILED,
    "experiment-failed": _FAILED,
    "mcp-failed": _FAILED,
    errors.SourceFailed: Row(502, "try again: nothing was attached"),
    errors.SessionCrashed: Row(502, OPERATOR, "the session crashed; what it has written stays readable"),
    errors.SupervisorFailed: Row(502, OPERATOR, "the sessions of the host have crashed too often"),
    errors.SupervisorStuck: Row(502, OPERATOR, "some work of the host does not end"),
    errors.StartTooSlow: Row(503, "try again later", "a service of the host was not ready in time", 5),
    errors.SubscriberTooSlow: Row(
        503, "connect again with `Last-Event-ID`", "the stream was not read fast enough", 1, facts=(0, 1)
    ),
    errors.ModelError: Row(
        502, "have the operator correct the model's settings, or switch to another model", facts=(1,)
    ),
    errors.TransientModelError: Row(503, _AGAIN, retry_after=5, facts=(1,)),
    errors.ContextTooLong: Row(502, "compact the session, fork it at an earlier record, or open another", facts=(1,)),
    errors.LimitReached: Row(502, "have the operator raise the limit, or go on in another session", facts=(1,)),
    # The journal, and hosts on it
    errors.InfrastructureError: Row(503, _AGAIN, "the journal of the host cannot be used now; nothing was accepted", 5),
    errors.HostClosing: Row(503, _AGAIN, retry_after=1),
    errors.JournalFull: Row(507, _AGAIN, "the journal of the host has no space; nothing was accepted", 30),
    errors.WaitsForJournal: Row(
        503,
        f"this may still be carried out when it works again: {_SAME_KEY}",
        "the journal of the host cannot be used now",
        5,
        told_as=errors.JournalUnavailable,
    ),
    errors.WaitsForSpace: Row(
        507,
        f"this may still be carried out when there is space: {_SAME_KEY}",
        "the journal of the host has no space",
        30,
        told_as=errors.JournalFull,
    ),
    errors.NotWrittenYet: Row(503, _AGAIN, "what ran has stopped, and the journal has not written it yet", 5),
    errors.SessionHeld: Row(503, "try again when it has let it go", "another process runs the session", 30),
    errors.Fenced: Row(503, "try again there", "another process has taken the session over", 5),
    errors.CommitUnknown: Row(503, _AGAIN, "it is not known whether this was written", 5),
    errors.BadRecord: Row(503, OPERATOR, "a record of the session is damaged or missing", 60),
    errors.BadArchive: Row(503, OPERATOR, "a file is no complete export of a session", 60),
    errors.BrokenContractError: Row(
        500, OPERATOR, "the code of agentrail, of a plugin or of an adapter breaks its contract"
    ),
}
"""The rows of those that differ from their base class, and of codes."""


def _row_of(cls: type[AgentrailError]) -> Row:
    """Return the row of *cls*, or else that of its nearest base class."""
    return next(_WRITTEN[base] for base in cls.__mro__ if base in _WRITTEN)


ROWS: Final[Mapping[Kind, Row]] = MappingProxyType(
    {
        **_WRITTEN,
        **{
            cls: _row_of(cls)
            for cls in vars(errors).values()
            if isinstance(cls, type) and issubclass(cls, AgentrailError)
        },
    }
)
"""The row of each class and code of errors. A class of a program's own has that of its nearest base class."""


MEDIA_TYPE: Final = "application/problem+json"

TYPES: Final = "urn:agentrail:problem:"
"""Beginning of the `type` of each document; what follows is `Problem.type`."""

MAX_FOUND: Final = 2_000
"""The most characters of a document that tell what was found."""

PROVIDER_ERROR: Final = "provider_error"
"""The kind of the end of a turn whose model failed: its client has nothing to correct."""

MODEL_FAILED: Final = "the turn was aborted, because its model did not answer; its events say why"

RETRY_AFTER: Final = "retry-after"
"""Header that says after how many seconds another attempt may go well."""

_encode: Final = msgspec.json.Encoder().encode


class Problem(Value, gc=True):
    """One error in terms of HTTP."""

    status: int
    """Status of the response."""
    type: str
    """Short name of the kind of error, such as `queue-full`; it never changes for a kind."""
    title: str
    """The kind of error in words."""
    attempted: str
    """What the request was to do."""
    finding: str
    """What stood in the way."""
    to_do: str
    """What the client can do about it."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of the response, beside its type and length: `retry-after`, `allow`, `www-authenticate`."""
    error: str = HostFailed.__name__
    """Name of the class of the error in Python; of an error with a code alone, the code written as such a name."""
    facts: tuple[Json, ...] = ()
    """Facts of the error, in order; `None` at the place of each that is not told."""

    @property
    def detail(self) -> str:
        """What was attempted, what was found, and what to do, as one sentence."""
        return f"cannot {self.attempted}: {self.finding}; {self.to_do}"

    @property
    def document(self) -> dict[str, Json]:
        """The document. It has `retry_after`, in seconds, beside the header: a WebSocket has no headers."""
        wait = dict(self.headers).get(RETRY_AFTER)
        return {
            "type": f"{TYPES}{self.type}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "attempted": self.attempted,
            "found": self.finding,
            "to_do": self.to_do,
            "error": self.error,
            "facts": self.facts,
            **({} if wait is None else {"retry_after": int(wait)}),
        }

    @property
    def content(self) -> bytes:
        """The document, as JSON."""
        return _encode(self.document)


def problem_of(error: BaseException, attempted: str, tenant: str = "") -> Problem:
    """Return the problem document of *error* for a client of *tenant*; *attempted* says what the request was to do."""
    if isinstance(error, TurnAborted) and error.args[1] == PROVIDER_ERROR:
        ref, kind, _ = error.args
        failed = problem_of(ModelError(MODEL_FAILED), attempted)
        return failed.but(error=TurnAborted.__name__, facts=(ref, kind, None))
    cls = next((cls for cls in type(error).__mro__ if cls in ROWS), None)
    if cls is None or not isinstance(error, AgentrailError):
        return INTERNAL.but(attempted=attempted)
    row = ROWS[error.code if error.is_coded else cls]
    finding, to_do = _finding_and_advice(error, row)
    if tenant:
        finding, to_do = without_tenant(finding, tenant), without_tenant(to_do, tenant)
    told_class, facts = row.told_as or cls, _shown_facts(error, row, tenant)
    # clients must not learn which of several classes an error is that are reported as one
    name = kind_of(error) if error.is_coded else (told_class if issubclass(cls, told_class) else cls).__name__
    kind = error.code if error.is_coded else told_class
    return Problem(
        row.status, code_of(kind), title_of(kind), attempted, finding, to_do, _headers(error, row), name, facts
    )


def _finding_and_advice(error: AgentrailError, row: Row) -> tuple[str, str]:
    """Return two texts, what was found and what to do, from *row*, or else from the halves of the error's template."""
    first_half, _, advice = template_of(error).partition("; ")
    finding = filled(first_half if row.finding is None else row.finding, error)
    return _shortened(finding) or title_of(error.code if error.is_coded else type(error)), row.to_do or _shortened(
        filled(advice, error)
    ) or "try another request"


def _shown_facts(error: AgentrailError, row: Row, tenant: str) -> tuple[Json, ...]:
    """Return the facts of *error* for its document; one that the text of the document does not show is `None`.

    Of an error that is reported as another class, no fact is shown: it would tell the two apart.
    """
    facts = error.args[1:] if error.is_coded else error.args
    if row.told_as is not None:
        return (None,) * len(facts)
    shown_indices = _shown_indices(template_of(error), names_of_facts(error), row)
    return tuple([_plain(fact, tenant) if index in shown_indices else None for index, fact in enumerate(facts)])


@cache
def _shown_indices(template: str, fields: tuple[str, ...], row: Row) -> frozenset[int]:
    """Return the indices of the *fields* that the text of a document of this *row* shows.

    That text is the *template* of the error, of which the row may replace the first half, and the advice. It names each
    field by its name or its index. `Row.facts` are shown besides.
    """
    first_half, _, advice = template.partition("; ")
    texts = (first_half if row.finding is None else row.finding, "" if row.to_do else advice)
    named = [name for text in texts for _, name, _, _ in Formatter().parse(text) if name]
    indices = [int(name) if name.isdigit() else fields.index(name) for name in named]
    return frozenset([*indices, *row.facts])


def _plain(fact: object, tenant: str) -> Json:
    """Return *fact* as JSON, with session ids as clients of *tenant* see them; `None` if JSON cannot express it."""
    if isinstance(fact, str):
        return _shortened(without_tenant(fact, tenant) if tenant else fact)
    if isinstance(fact, tuple):
        return [_plain(item, tenant) for item in cast("tuple[object, ...]", fact)]
    is_number = isinstance(fact, int | float) and math.isfinite(fact) and abs(fact) <= GREATEST
    return cast("Json", fact) if is_number else None


def _shortened(text: str) -> str:
    sendable = text.encode(errors="replace").decode()  # an unpaired surrogate cannot be encoded as UTF-8
    return sendable if len(sendable) <= MAX_FOUND else f"{sendable[: MAX_FOUND - 1]}…"


def _headers(error: AgentrailError, row: Row) -> tuple[tuple[str, str], ...]:
    if isinstance(error, MethodRefused):
        return (("allow", error.allowed),)
    if error.is_coded and error.code == "upgrade-wanted":
        return (("sec-websocket-version", "13"),)
    if isinstance(error, NotAuthenticated):
        return (("www-authenticate", "Bearer"),)
    seconds: object = getattr(error, "retry_after", None)
    wait = seconds if isinstance(seconds, int | float) and math.isfinite(seconds) and seconds >= 0 else row.retry_after
    return () if wait is None or row.retry_after is None else ((RETRY_AFTER, str(max(1, math.ceil(wait)))),)


def code_of(kind: Kind) -> str:
    """Return the short name of a kind of errors: that of the class `QueueFull` is `queue-full`."""
    return kind if isinstance(kind, str) else slug(kind.__name__)


def title_of(kind: Kind) -> str:
    """Return what happened, as a title: for a class of errors the first sentence of its docstring."""
    about = BRANCHES[kind].coded[kind].about if isinstance(kind, str) else kind.__doc__
    return (about or code_of(kind)).partition("\n")[0].removesuffix(".")


INTERNAL: Final = Problem(
    500,
    "internal-error",
    "The host has a fault",
    "answer the request",
    "an error that is no fault of the request",
    "tell the operator of the host; its log has the error",
    facts=("it has a fault",),
)
"""What a client is told of an exception that is none of agentrail's."""


NOT_TOLD: Final = "not told by the host"
"""Stands for a text among the facts that the host keeps to itself."""

NO_DOCUMENT: Final = "its answer is no problem document"

_CLASSES: Final[Mapping[str, type[AgentrailError]]] = MappingProxyType(
    {cls.__name__: cls for cls in ROWS if isinstance(cls, type)}
)
_STAND_INS: Final[Mapping[object, object]] = {str: NOT_TOLD, int: 0, float: 0.0, tuple[str, ...]: ()}


class Parameter(Value, gc=True):
    """A parameter of an error class: one of its facts."""

    name: str
    """Its name."""
    hint: object
    """Its type."""


@cache
def _parameters(name: str) -> tuple[Parameter, ...] | None:
    """Return the parameters of the error class *name*, in order; `None` if it takes any arguments."""
    cls = _CLASSES[name]
    signature, hints = inspect.signature(cls), get_type_hints(cls.__init__)
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in signature.parameters.values()):
        return None
    return tuple([Parameter(name, hints[name]) for name in signature.parameters])


def error_of(document: JsonObject, session: str = "") -> AgentrailError:
    """Rebuild the error that a problem document describes, for a call about *session*.

    Facts that the document does not show are replaced by stand-ins, and the text of the error is that of the document.
    An unreadable document becomes a `HostFailed`.
    """
    detail, name, facts = document.get("detail"), document.get("error"), document.get("facts")
    wording = detail if isinstance(detail, str) else NO_DOCUMENT
    if not isinstance(name, str) or not isinstance(facts, Sequence) or isinstance(facts, str):
        return HostFailed(wording)
    cls = _CLASSES.get(name)
    if cls is None and (coded := coded_of(name, facts)) is not None:
        cls, facts = type(coded), coded.args
    if cls is None:
        return HostFailed(wording)
    parameters = _parameters(cls.__name__)
    if parameters is None:
        error, is_whole = cls(*facts), all(fact is not None for fact in facts)
    else:
        if len(facts) != len(parameters):
            return HostFailed(wording)
        try:
            values = [_fact(parameter, fact, session) for parameter, fact in zip(parameters, facts, strict=True)]
        except msgspec.ValidationError:
            return HostFailed(wording)
        error = cls(*[value for value, _ in values])
        is_whole = all(is_told for _, is_told in values)
    if not is_whole:
        error.told = wording
    return error


def _fact(parameter: Parameter, fact: Json, session: str) -> tuple[object, bool]:
    """Return the value for *parameter*, and whether *fact* shows it; raise `ValidationError` for another type."""
    if fact is not None:
        return cast("object", msgspec.convert(fact, learned(parameter.hint))), True
    if parameter.name == "session" and session:
        return session, True
    stand_in = _STAND_INS.get(parameter.hint)
    return stand_in, stand_in is None
