"""One call to a tool, from the response that asks for it to its one result."""

from __future__ import annotations

from enum import Enum
from typing import Final

from agentrail.hooks.ruling import NOTHING_GATHERED, Gathered, Place
from agentrail.values.content import ToolCall
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
HAS_ROOM = frozenset({CallStatus.SETTLING, CallStatus.RUNNING})
"""Calls that count towards what may run at once."""
TO_START = frozenset({CallStatus.RULING, CallStatus.READY, CallStatus.FAILED})


@value
class Batch(Value):
    """The calls of one response."""

    calls: tuple[Call, ...]
    """In the order of the response."""
    decisions: tuple[tuple[str, bool], ...] = ()
    """What people decided: the trigger, and whether the model goes on."""
    texts: tuple[tuple[str, str], ...] = ()
    """Interventions for when it is complete: hook and text."""

    def find(self, call_id: str) -> Call | None:
        """Return the call with this id."""
        for call in self.calls:
            if call.call_id == call_id:
                return call
        return None

    def put(self, changed: Call) -> Batch:
        """Return the batch with *changed* in its place."""
        calls = list(self.calls)
        for place, call in enumerate(calls):
            if call.call_id == changed.call_id:
                calls[place] = changed
        return Batch(tuple(calls), self.decisions, self.texts)


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


def first_call(call: ToolCall, refusal: str | None = None) -> Call:
    """Return *call* at the beginning of its way."""
    return Call(call.call_id, call.name, call.args, refusal=refusal)
