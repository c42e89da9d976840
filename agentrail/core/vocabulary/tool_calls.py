"""One call to a tool, from the response that asks for it to its one result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import chain
from typing import Final, overload

from agentrail.hooks.ruling import NOTHING_GATHERED, Gathered, Place
from agentrail.values.content import Text, ToolCall
from agentrail.values.json import JsonObject, is_same
from agentrail.values.messages import ToolMessage
from agentrail.values.tools import EffectClass, Err, Ok, ToolSpec
from agentrail.values.value import Value, value


class CallStatus(Enum):
    """Where a call is on its way."""

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


@value
class Hold(Value):
    """Why and how a call waits for a person."""

    approval_id: str
    """What `approve` and `reject` take."""
    hint: str
    """What the person should know."""
    plugin: str
    """Who holds it."""
    args: JsonObject
    """What is asked about: exactly these run."""
    place: Place
    """Where the pipeline goes on."""
    gathered: Gathered
    """What the pipeline has accumulated."""
    requested_at: int
    """Since when."""
    expires_at: int | None
    """Until when; `None`: for ever."""
    family: str | None
    """What "always" would mean."""


@value
class Question(Value):
    """What a call asks the person."""

    ref: str
    """What `respond` takes."""
    question: str
    """The question."""
    options: tuple[str, ...]
    """Answers to choose from."""


@value
class Call(Value):
    """A call of the open batch."""

    call_id: str
    """The session's own id."""
    name: str
    """Which tool."""
    args: JsonObject
    """The arguments, as they would run now."""
    status: CallStatus = CallStatus.NEW
    """Where it is on its way."""
    spec: ToolSpec | None = None
    """Its tool, as it was when the call was ruled on."""
    revision: int = 0
    """Which form of the tool that was."""
    refusal: str | None = None
    """Why it cannot run, known before anybody was asked."""
    attempt: int = 1
    """Which attempt runs, or would."""
    started_at: int = 0
    """When the first attempt started."""
    error: str = ""
    """What the last attempt raised."""
    notes: tuple[str, ...] = ()
    """Lines that the result gets."""
    hold: Hold | None = None
    """Why it waits for a person, if it does."""
    question: Question | None = None
    """What it asks, if it does."""
    approved: JsonObject | None = None
    """The arguments a person approved."""
    holders: frozenset[str] = frozenset()
    """The plugins whose holds were approved."""
    place: Place = Place()
    """Where its pipeline begins, or goes on."""
    gathered: Gathered = NOTHING_GATHERED
    """What its pipeline has accumulated."""
    answer: Ok | Err | None = None
    """What the tool answered."""
    result: ToolMessage | None = None
    """Its one result."""

    @property
    def done(self) -> bool:
        """Whether it has its result."""
        return self.status is CallStatus.DONE


WAITS_FOR_PERSON = frozenset({CallStatus.HELD, CallStatus.ASKING})
TO_START = frozenset({CallStatus.RULING, CallStatus.READY, CallStatus.FAILED})


PAGE: Final = 64
"""Calls of a batch that are copied when one of them changes."""

_NEW: Final = object.__new__

_CODES: Final = {status: code for code, status in enumerate(CallStatus)}
"""The byte that stands for each status."""

_RUNNING, _SETTLING = _CODES[CallStatus.RUNNING], _CODES[CallStatus.SETTLING]
_HELD, _ASKING = _CODES[CallStatus.HELD], _CODES[CallStatus.ASKING]


class CallList(Sequence[Call]):
    """Calls in the order of the response: a frozen sequence that finds a call by its id or status.

    A response may hold thousands of calls, and each changes several times. So the calls lie in pages: a list in which
    one call has changed shares all pages but one with the list before, and no page of a list ever changes. Their
    statuses are bytes, which are searched and copied without a loop.
    """

    __slots__ = ("_pages", "_places", "_statuses")

    def __init__(self, calls: Iterable[Call] = ()) -> None:
        whole = list(calls)
        self._places = {call.call_id: place for place, call in enumerate(whole)}
        starts = range(0, len(whole), PAGE)
        self._pages = [whole] if len(starts) == 1 else [whole[start : start + PAGE] for start in starts]
        self._statuses = bytearray([_CODES[call.status] for call in whole])

    def find(self, call_id: str) -> Call | None:
        """Return the call with this id."""
        place = self._places.get(call_id)
        return None if place is None else self._pages[place // PAGE][place % PAGE]

    def put(self, changed: Call) -> CallList:
        """Return the list with *changed* in its place."""
        made = _NEW(CallList)
        made._places = self._places  # noqa: SLF001  # another list of the same calls
        place = self._places[changed.call_id]
        pages = self._pages
        if len(pages) == 1:
            page = pages[0].copy()
            made._pages = [page]  # noqa: SLF001
        else:
            made._pages = pages = pages.copy()  # noqa: SLF001
            pages[place // PAGE] = page = pages[place // PAGE].copy()
        page[place % PAGE] = changed
        made._statuses = statuses = self._statuses.copy()  # noqa: SLF001
        statuses[place] = _CODES[changed.status]
        return made

    def count(self, status: CallStatus) -> int:
        """Return how many calls have this *status*."""
        return self._statuses.count(_CODES[status])

    @property
    def busy(self) -> int:
        """How many calls count towards what may run at once."""
        count = self._statuses.count
        return count(_RUNNING) + count(_SETTLING)

    @property
    def waiting(self) -> int:
        """How many calls wait for a person."""
        count = self._statuses.count
        return count(_HELD) + count(_ASKING)

    def among(self, status: CallStatus) -> Iterator[Call]:
        """Return the calls that have this *status*, in order."""
        code, statuses, pages = _CODES[status], self._statuses, self._pages
        place = statuses.find(code)
        while place >= 0:
            yield pages[place // PAGE][place % PAGE]
            place = statuses.find(code, place + 1)

    def __len__(self) -> int:
        return len(self._statuses)

    @overload
    def __getitem__(self, index: int) -> Call: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Call, ...]: ...
    def __getitem__(self, index: int | slice) -> Call | tuple[Call, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        place = range(len(self))[index]
        return self._pages[place // PAGE][place % PAGE]

    def __iter__(self) -> Iterator[Call]:
        return chain.from_iterable(self._pages)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, CallList) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._places))

    def __repr__(self) -> str:
        return f"CallList({list(self)!r})"


@value
class Batch(Value):
    """The calls of one response."""

    calls: CallList
    """In the order of the response."""
    decisions: tuple[tuple[str, bool], ...] = ()
    """What people decided: the trigger, and whether the model goes on."""
    texts: tuple[tuple[str, str], ...] = ()
    """Interventions for when it is complete: hook and text."""


ANY_TOOL: Final = ""
"""What stands for the name of a tool in a doubt about calls of many tools."""


@value
class Doubt(Value):
    """A call that may have taken effect, though it was stopped; or one that stands for many such calls."""

    call_id: str
    """Which call; of many, the first."""
    name: str
    """Which tool; `ANY_TOOL` if it stands for calls of many."""
    args: JsonObject | None
    """With which arguments; `None` if it stands for calls with any."""

    def covers(self, name: str, args: JsonObject) -> bool:
        """Whether a call of tool *name* with *args* may be it."""
        if self.args is None:
            return self.name in (name, ANY_TOOL)
        return self.name == name and is_same(self.args, args)


@value
class Stray(Value):
    """Work that has left its turn and still runs."""

    call_id: str
    """Which call."""
    name: str
    """Which tool."""
    since: int
    """Since when, in milliseconds since 1970."""
    started_at: int = 0
    """When it started."""
    writes: bool = False
    """Whether it touches files or a shell."""
    reported: bool = False
    """Whether it was reported as abandoned."""
    doubt: Doubt | None = None
    """Of a call that goes on: what is in doubt if it is stopped."""


def touches_files(spec: ToolSpec | None) -> bool:
    """Whether a tool works on files or a shell."""
    return spec is not None and not spec.requires.isdisjoint(("files", "shell"))


def can_be_probed(spec: ToolSpec | None) -> bool:
    """Whether a tool can say what has become of a call: those that start sub-agents, whose records tell, can too."""
    return spec is not None and (spec.effect is EffectClass.CHECKABLE or "agents" in spec.requires)


TOO_MANY = "it did not run: a response may make at most {limit} calls, and this one makes {found}; make fewer at once"
"""What the result of a call says that is one too many."""


def first_calls(calls: Sequence[ToolCall], limit: int) -> CallList:
    """Return *calls* at the beginning of their way; those over *limit* are at its end, with a result that says so."""
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
    """Return *call* at the beginning of its way."""
    return Call(call.call_id, call.name, call.args)
