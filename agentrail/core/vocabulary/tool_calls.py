"""Tool calls of a response: their state, from the model's request to the result of each, and their sub-agents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from hashlib import sha256
from itertools import compress
from operator import is_not
from typing import Final, overload

from agentrail.hooks.ruling import NO_DECISIONS, Decisions, Position
from agentrail.values.content import Text, ToolCall
from agentrail.values.json import JsonObject, canonical, canonical_once, is_same
from agentrail.values.messages import ToolMessage
from agentrail.values.personal import Kept, Personal, ToolName
from agentrail.values.tools import EffectClass, Err, HandOver, Ok, PersonAnswer, ToolSpec
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import TAG, Value


def marked(name: str, incarnation: str) -> str:
    """Return *name*, a numbered id of a session, with the *incarnation* in which it was made, if there is one."""
    return f"{name}-{incarnation}" if incarnation else name


class CallStatus(Enum):
    """Where a call is between the response that makes it and its result."""

    NEW = "new"
    RULING = "ruling"
    HELD = "held"
    READY = "ready"
    SETTLING = "settling"
    RUNNING = "running"
    FAILED = "failed"
    ASKING = "asking"
    RETURNED = "returned"
    DONE = "done"

    __hash__ = object.__hash__


NEW, RULING, HELD, READY, SETTLING, RUNNING, FAILED, ASKING, RETURNED, DONE = CallStatus
"""The members by name, for what each call does: CPython 3.11 looks up a member of an enum in 900 instructions."""


class Hold(Value):
    """A call that waits for a person's approval: what the person sees, and how the call goes on."""

    approval_id: Kept[str]
    """Id to pass to `approve` and `reject`."""
    hint: Personal[str]
    """What the person should know before deciding."""
    plugin: Kept[str]
    """Key of the plugin that holds the call."""
    args: Personal[JsonObject]
    """Arguments to approve; the call runs with exactly these."""
    position: Position
    """Where the hook run continues after approval."""
    decisions: Decisions
    """What the plugins before the holder decided."""
    requested_at: int
    """When approval was requested, in milliseconds since 1970."""
    expires_at: int | None
    """When the hold expires, in milliseconds since 1970; `None`: never."""
    family: Personal[str | None]
    """Command family that `approve(always=True)` lets pass; `None` if it cannot be approved for always."""


DIGEST_CHARS: Final = 32
"""Characters of a digest of what a person is shown."""


def digest_of(hold: Hold, tool: str) -> str:
    """Return the digest of what a person is shown about a held call of *tool*, which a decision may carry."""
    content = canonical((hold.approval_id, tool, hold.family)) + canonical_once(hold.args)
    return sha256(content.encode(errors="surrogatepass")).hexdigest()[:DIGEST_CHARS]


class Question(Value):
    """What a call waits for: the answer of a person to its question, or its result, which is made elsewhere."""

    ref: Kept[str]
    """Id to pass to `respond`, or to `result`."""
    question: Personal[str]
    """Text of the question; empty for a result."""
    options: Personal[tuple[str, ...]]
    """Answers to choose from; empty if the answer is free text."""
    asked_at: int = 0
    """When it was asked, in milliseconds since 1970."""
    resume: Personal[JsonObject | None] = None
    """State with which the tool runs again once there is an answer; `None` if the answer is the call's result."""
    expires_at: int | None = None
    """Until when a result from elsewhere is taken, in milliseconds since 1970; `None` if a person is asked."""

    @property
    def is_for_result(self) -> bool:
        """Whether the call waits for its result, and not for the answer of a person."""
        return self.expires_at is not None


class Call(Value):
    """A tool call of the current response."""

    call_id: Kept[str]
    """Id of the call, made by the session (the provider's id may not be unique)."""
    name: ToolName
    """Name of the tool."""
    args: Personal[JsonObject]
    """Arguments with which the call would run now (plugins may have replaced them)."""
    status: CallStatus = CallStatus.NEW
    """How far the call has come, from its request to its result."""
    spec: ToolSpec | None = None
    """The tool's description at the time of the ruling; `None` before."""
    revision: int = 0
    """Revision of the tool when plugins ruled on the call."""
    refusal: Personal[str | None] = None
    """Why the call cannot run, if that was known before any plugin was asked."""
    attempt: int = 1
    """Number of the current or next attempt, from 1."""
    not_before: int = 0
    """When the next attempt may start, in milliseconds since 1970; 0: at once. A timer of the call sets it to 0."""
    started_at: int = 0
    """When the first attempt started, in milliseconds since 1970; 0 if none has."""
    error: Personal[str] = ""
    """Exception of the last attempt after which another one was considered, as text; empty if there was none."""
    notes: Personal[tuple[str, ...]] = ()
    """Lines that are added to the call's result, such as warnings about a loop."""
    hold: Hold | None = None
    """The hold, if the call waits for approval."""
    question: Question | None = None
    """The question, if the call waits for an answer."""
    approved: Personal[JsonObject | None] = None
    """Arguments that a person approved."""
    holders: Kept[frozenset[str]] = frozenset()
    """Keys of the plugins whose holds a person approved."""
    position: Position = Position()
    """At which plugin the call's hook run begins or continues."""
    decisions: Decisions = NO_DECISIONS
    """What the plugins asked so far decided about the call."""
    answer: Ok | Err | None = None
    """What the tool returned, before plugins see it."""
    result: ToolMessage | None = None
    """The result of the call for the model; `None` until there is one."""
    handoff: HandOver | None = None
    """What the call hands the session over to when all calls have results; `None` if it is no handoff."""
    incarnation: Kept[str] = ""
    """`State.incarnation` when the first attempt started; empty if none has."""
    person_answer: PersonAnswer | None = None
    """The last answer with which the tool runs again; `None` if it has asked no question of that kind."""

    @property
    def done(self) -> bool:
        """Whether the call has its result."""
        return self.status is DONE


WAITS_FOR_PERSON = frozenset({CallStatus.HELD, CallStatus.ASKING})
TO_START = frozenset({CallStatus.RULING, CallStatus.READY, CallStatus.FAILED})


_NEW: Final = object.__new__

_CODES: Final = {status: code for code, status in enumerate(CallStatus)}
"""The byte that stands for each status."""

_RUNNING, _SETTLING = _CODES[CallStatus.RUNNING], _CODES[CallStatus.SETTLING]
_HELD, _ASKING = _CODES[CallStatus.HELD], _CODES[CallStatus.ASKING]


class CallList(Sequence[Call]):
    """Calls in the order of the response: a frozen sequence that finds a call by its id or status.

    A response may hold thousands of calls, and each changes several times. So nothing here goes through them in a loop
    of Python: a changed list is a copied dict, and their statuses are bytes, which are searched and counted.
    """

    __slots__ = ("_calls", "_indices", "_statuses")

    def __init__(self, calls: Iterable[Call] = ()) -> None:
        self._calls = {call.call_id: call for call in calls}
        self._indices = {call_id: index for index, call_id in enumerate(self._calls)}
        self._statuses = bytearray([_CODES[call.status] for call in self._calls.values()])

    def find(self, call_id: str) -> Call | None:
        """Return the call with this id, `None` if there is none."""
        return self._calls.get(call_id)

    def put(self, changed: Call) -> CallList:
        """Return a new list in which *changed* replaces the call of the same id."""
        draft = self.drafted()
        draft.replace(changed)
        return draft

    def drafted(self) -> CallList:
        """Return a copy for one step, which may change it with `replace`."""
        draft = _NEW(CallList)
        draft._indices = self._indices  # noqa: SLF001  # another list of the same calls
        draft._calls = self._calls.copy()  # noqa: SLF001
        draft._statuses = self._statuses.copy()  # noqa: SLF001
        return draft

    def replace(self, changed: Call) -> None:
        """Replace the call of the same id by *changed*, in place: allowed only in a list that no state holds yet."""
        self._statuses[self._indices[changed.call_id]] = _CODES[changed.status]
        self._calls[changed.call_id] = changed

    def changed_since(self, earlier: CallList) -> tuple[tuple[Call, Call], ...] | None:
        """Return pairs of old and new call, for each call that was replaced since the list *earlier*.

        Return `None` if *earlier* lists other calls.
        """
        if self._indices is not earlier._indices:
            return None
        old, new = earlier._calls.values(), self._calls.values()
        return tuple(compress(zip(old, new, strict=True), map(is_not, old, new)))

    def count(self, status: CallStatus) -> int:
        """Return how many calls have this *status*."""
        return self._statuses.count(_CODES[status])

    @property
    def busy(self) -> int:
        """Number of calls that count against `max_parallel_tools`."""
        count = self._statuses.count
        return count(_RUNNING) + count(_SETTLING)

    @property
    def waiting(self) -> int:
        """Number of calls that wait for a person."""
        count = self._statuses.count
        return count(_HELD) + count(_ASKING)

    @property
    def has_loner(self) -> bool:
        """Whether the call that runs or is probed belongs to a tool that must not run in parallel with others.

        Beside such a call no other one starts, and it starts beside no other: if several run, none is one.
        """
        if self.busy != 1:
            return False
        busy = (*self.among(CallStatus.RUNNING), *self.among(CallStatus.SETTLING))
        return any(call.spec is not None and not call.spec.parallel for call in busy)

    def among(self, status: CallStatus) -> Iterator[Call]:
        """Return the calls that have this *status*, in order."""
        return compress(self._calls.values(), map(_CODES[status].__eq__, self._statuses))

    def __len__(self) -> int:
        return len(self._calls)

    @overload
    def __getitem__(self, index: int) -> Call: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Call, ...]: ...
    def __getitem__(self, index: int | slice) -> Call | tuple[Call, ...]:
        return tuple(self._calls.values())[index]

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls.values())

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, CallList) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._indices))

    def __repr__(self) -> str:
        return f"CallList({list(self)!r})"


class Batch(Value, tag_field=TAG):
    """The calls of one response."""

    calls: CallList
    """The calls, in the order of the response."""
    decisions: Kept[tuple[tuple[str, bool], ...]] = ()
    """Decisions of people about calls of the batch: each with its kind, and whether the model is to be asked again."""
    texts: Personal[tuple[tuple[str, str], ...]] = ()
    """Texts of plugins to append when all results are there: pairs of hook and text."""


class Doubt(Value):
    """An interrupted call that may or may not have taken effect."""

    call_id: Kept[str]
    """Id of the call."""
    name: ToolName
    """Name of the tool."""
    args: Personal[JsonObject | None]
    """Arguments of the call; `None`, which stands for any, if they were redacted."""
    turn: int = 0
    """Number of the turn in which it arose."""
    incarnation: Kept[str] = ""
    """`State.incarnation` when it arose."""

    @property
    def name_of_call(self) -> str:
        """Name of the call for the person who ends the doubt with `approve("SESSION:NAME")`."""
        return marked(self.call_id, self.incarnation)

    def covers(self, name: str, args: JsonObject) -> bool:
        """Whether a call of tool *name* with *args* would repeat the doubtful one."""
        return self.name == name and (self.args is None or is_same(self.args, args))


class DetachedCall(Value):
    """A call that still runs although its turn no longer waits for it."""

    call_id: Kept[str]
    """Id of the call."""
    name: ToolName
    """Name of the tool that was called."""
    since: int
    """When the call left its turn, or was cancelled after that, in milliseconds since 1970."""
    started_at: int = 0
    """When the call started, in milliseconds since 1970."""
    writes: bool = False
    """Whether the call's tool requires `files` or `shell`, so that the call may change files."""
    reported: bool = False
    """Whether the call was reported as abandoned (cancelled, but still running after a quarter of a second)."""
    doubt: Doubt | None = None
    """For a call that was left running: the doubt to remember if the call is stopped later."""
    parallel: bool = True
    """Whether other calls may run beside it."""


class Subagent(Value):
    """A sub-agent (child session) that has not ended."""

    child: Kept[str]
    """Session id of the sub-agent."""
    call_id: Kept[str]
    """Id of the call that started the sub-agent."""
    agent: Kept[str]
    """Name of the sub-agent's kind in the session's list of agents."""
    background: bool = False
    """Whether the call returned at once instead of waiting for the sub-agent."""
    heard: int = 0
    """Sequence number of the sub-agent's last reported event."""
    used: Usage = NOTHING_USED
    """The part of the sub-agent's usage that this session has counted."""
    waits: bool = False
    """Whether the sub-agent can do nothing until a person decides something."""
    left_ms: int | None = None
    """Milliseconds left of the call's time limit while that is stopped; `None` while the limit runs."""
    rests: bool = False
    """Whether the sub-agent does not run after a recovery, until the paused turn goes on."""
    peers: Kept[tuple[str, ...]] = ()
    """Session ids of the sub-agents with which it may exchange messages."""
    description: Personal[str] = ""
    """The sub-agent's task, in a few words."""
    prompt: Personal[str] = ""
    """The sub-agent's prompt; empty once it has reported that it has that."""
    asked_by: Kept[tuple[str, ...]] = ()
    """Who has asked for the sub-agent's turn; empty once it has its prompt."""
    works: bool = True
    """Whether the sub-agent, or one of its own, goes on without a person."""
    began_ms: int | None = None
    """How long the session and others had worked when the sub-agent began."""


MAX_ENDED_TASKS: Final = 32
"""How many sub-agents in the background that have ended a session remembers."""


class EndedTask(Value):
    """A sub-agent in the background that has ended; its answer is in its own records."""

    child: Kept[str]
    """Session id of the sub-agent."""
    call_id: Kept[str]
    """Id of the call that started the sub-agent."""
    agent: Kept[str]
    """Name of the sub-agent's kind in the session's list of agents."""
    description: Personal[str] = ""
    """The sub-agent's task, in a few words."""
    peers: Kept[tuple[str, ...]] = ()
    """Session ids of the sub-agents with which it could exchange messages."""
    failed: bool = False
    """Whether it ended without an answer."""


def touches_files(spec: ToolSpec | None) -> bool:
    """Whether a tool needs files or a shell."""
    return spec is not None and not spec.requires.isdisjoint(("files", "shell"))


def can_be_probed(spec: ToolSpec | None) -> bool:
    """Whether a tool can report the fate of an interrupted call: checkable ones, and those that start sub-agents."""
    return spec is not None and (spec.effect is EffectClass.CHECKABLE or "agents" in spec.requires)


MAX_CALLS_PER_RESPONSE: Final = 64
"""How many calls one response may make. One step decides on all of them, with each plugin, and must not take long.

The model gets an error result for each further call, and can make it in its next response.
"""

TOO_MANY = "it did not run: a response may make at most {limit} calls, and this one makes {found}; make fewer at once"
"""Error result of a call beyond `MAX_CALLS_PER_RESPONSE`."""


def first_calls(calls: Sequence[ToolCall]) -> CallList:
    """Return the initial `CallList` of a response; the calls beyond the limit get an error result at once."""
    limit = MAX_CALLS_PER_RESPONSE
    if len(calls) <= limit:
        return CallList(map(first_call, calls))
    refused = (Text(TOO_MANY.format(limit=limit, found=len(calls))),)
    over = (
        Call(
            call.call_id,
            call.name,
            call.args,
            status=CallStatus.DONE,
            result=ToolMessage(call.call_id, call.name, refused, is_error=True),
        )
        for call in calls[limit:]
    )
    return CallList((*map(first_call, calls[:limit]), *over))


def first_call(call: ToolCall) -> Call:
    """Return *call* as a `Call` that has not been ruled on."""
    return Call(call.call_id, call.name, call.args)
