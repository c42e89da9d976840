"""What a value promises."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import sys
from importlib import import_module
from types import FrameType, MethodWrapperType

import pytest
from msgspec.structs import force_setattr

from agentrail import Context
from agentrail.errors import UnknownField
from agentrail.events import (
    AgentEnd,
    AgentStart,
    Envelope,
    MessageStart,
    PromptReceived,
    RequestStart,
    ResponseComplete,
    ThinkingDelta,
    ToolCalls,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolExecutionStart,
)
from agentrail.journals import Record
from agentrail.models import (
    AssistantMessage,
    ModelRequest,
    Response,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from agentrail.plugins import (
    AfterResponse,
    AfterTool,
    AfterToolBatch,
    AfterTurn,
    BeforeFinish,
    BeforePrompt,
    BeforeRequest,
    BeforeTool,
)
from agentrail.sandboxes import Entry
from agentrail.tools import Ok
from agentrail.values.value import Authored, Value, quick
from tests.each_case import each_case


class Labelled(Value, kw_only=True):
    """Something with a name."""

    label: str = ""
    """Its name."""


class Point(Labelled):
    """A point."""

    x: int
    """Along."""
    y: int = 2
    """Across."""


class Point3(Point):
    """A subclass, whose own fields come after the positional ones of its base."""

    z: int = 3
    """Up."""


class Plain(Point):
    """A subclass without fields of its own."""


class Converted(Value):
    """A value that works on what it is given."""

    text: str
    """Without blanks."""

    def __post_init__(self) -> None:
        force_setattr(self, "text", self.text.strip())


def test_fields_are_given_by_place_or_by_name() -> None:
    assert Point(1) == Point(x=1, y=2, label="")
    assert Point(1, 5, label="here") == Point(label="here", y=5, x=1)
    assert repr(Point(1, label="here")) == "Point(x=1, label='here')"


@pytest.mark.parametrize("when", ["first", "later"])
def test_what_does_not_fit_is_a_type_error(when: str) -> None:
    class Fresh(Value):
        x: int

    if when == "later":
        Fresh(1)
    with pytest.raises(TypeError, match="Missing required argument 'x'"):
        Fresh()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="Unexpected keyword argument 'z'"):
        Fresh(1, z=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("point", [Point(1), Point(1).but(y=4), Point3(1), Plain(1), Plain(1).but(y=4)])
def test_values_are_frozen(point: Point) -> None:
    with pytest.raises(AttributeError):
        point.x = 2  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError):
        del point.x  # pyright: ignore[reportAttributeAccessIssue]
    assert point.x == 1


def test_a_value_is_of_its_own_class() -> None:
    assert [type(point) for point in (Point(1), Point3(1), Plain(1))] == [Point, Point3, Plain]
    assert [type(point.but(y=4)) for point in (Point(1), Point3(1), Plain(1))] == [Point, Point3, Plain]
    assert (Point3(1).z, Point3(1, 2, 4).z, Plain(1, 5).y) == (3, 4, 5)


def test_a_copy_leaves_the_first_as_it_was() -> None:
    first = Point(1)
    assert (first.but(y=7, label="there"), first) == (Point(1, 7, label="there"), Point(1, 2))
    with pytest.raises(TypeError, match="`Point` has no field 'z'"):
        first.but(z=1)


@pytest.mark.parametrize("point", [Point(1, label="here"), Point3(1, 2, 4), Plain(1)])
def test_copies_and_pickles_are_equal(point: Point) -> None:
    assert copy.copy(point) == point
    assert copy.deepcopy(point) == point
    assert pickle.loads(pickle.dumps(point)) == point  # noqa: S301 - our own


def test_fields_that_are_worked_on_are_worked_on() -> None:
    assert Converted(" a ").text == "a"


def test_a_signature_is_shown_before_and_after_the_first_value() -> None:
    class Fresh(Value):
        x: int
        y: int = 2

    before = list(inspect.signature(Fresh).parameters)
    Fresh(1)
    assert before == list(inspect.signature(Fresh).parameters) == ["x", "y"]


class Written(Authored):
    """A value that users write."""

    state: int
    """A number."""
    text: str = ""
    """A text."""


def test_a_misspelt_field_names_the_nearest_and_a_missing_one_is_a_type_error() -> None:
    with pytest.raises(UnknownField, match="`Written` has no field `stat`; did you mean `state`"):
        Written(stat=1)  # type: ignore[call-arg]  # on purpose
    with pytest.raises(TypeError, match="takes 2 values by place, and not 3"):
        Written(1, "a", "b")  # type: ignore[call-arg]  # on purpose
    with pytest.raises(TypeError, match="Missing required argument 'state'"):
        Written()  # type: ignore[call-arg]  # on purpose


def test_made_quickly_a_value_is_the_same_and_no_function_of_ours_runs() -> None:
    made = quick(Written)
    assert made(1, text="a") == Written(1, text="a")
    assert type(made(1)) is Written
    assert quick(Point) is Point  # a class that is quick by itself
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        made(2, text="b")
    finally:
        sys.setprofile(before)
    assert called == []


QUICK = {
    "agentrail.adapters.sandboxes.files": (Entry,),
    "agentrail.adapters.sandboxes.memory": (Entry,),
    "agentrail.core.machine.draft": (Context, Envelope),
    "agentrail.core.machine.endings": (AfterTurn, AgentEnd),
    "agentrail.core.machine.prompts": (BeforePrompt, PromptReceived, AgentStart, UserMessage),
    "agentrail.core.machine.requests": (BeforeRequest, ModelRequest, RequestStart),
    "agentrail.core.machine.responses": (
        AfterResponse,
        BeforeFinish,
        ToolCall,
        ResponseComplete,
        AssistantMessage,
        ToolCalls,
    ),
    "agentrail.core.machine.tool_checks": (BeforeTool,),
    "agentrail.core.machine.tool_results": (ToolMessage,),
    "agentrail.core.machine.tool_runs": (
        AfterTool,
        AfterToolBatch,
        ToolExecutionStart,
        ToolExecutionEnd,
        ToolExecutionMetrics,
    ),
    "agentrail.runtime.actor.journal_log": (Record,),
    "agentrail.runtime.events.replay": (Envelope,),
    "agentrail.runtime.work.model_stream": (ThinkingDelta, MessageStart),
    "agentrail.values.content": (Text,),
    "agentrail.values.untrusted_content": (
        Ok,
        Response,
        UserMessage,
        AssistantMessage,
    ),
    "agentrail.values.tools": (Ok,),
}
"""What the package makes for each chunk, event, hook, call, record and file, and where."""


@each_case(QUICK)
def test_what_is_made_often_is_made_quickly(module: str) -> None:
    found = [one.__self__ for one in vars(import_module(module)).values() if isinstance(one, MethodWrapperType)]
    assert found == list(QUICK[module])
    for cls in QUICK[module]:
        written = inspect.getsource(import_module(module))
        assert not re.search(rf"(?<!case )\b{cls.__name__}\((?!.*:$)", written, re.MULTILINE), cls
