"""A script that is printed is the same script when it is run."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.errors import (
    ContextTooLong,
    ModelError,
    PermanentModelError,
    RateLimited,
    StreamEndedEarly,
    TransientModelError,
)
from agentrail.models import (
    PING,
    CallChunk,
    Chunk,
    Response,
    StopReason,
    Text,
    TextChunk,
    Thinking,
    ThinkingChunk,
    ToolCall,
    Usage,
    UsageChunk,
)
from agentrail.plugins import Answered, Failed, TimedOut
from agentrail.testing import (
    ScriptStep,
    abort,
    approve,
    call,
    compact,
    fail,
    overflow,
    permanent,
    prompt,
    raises,
    reject,
    respond,
    returns,
    say,
    stall,
    steer,
    stop,
    switch_model,
    tell,
    transient,
    wait,
)
from agentrail.testing.as_code import CodeSource
from agentrail.testing.scripted import Failing, Saying, Stalling
from agentrail.testing.turns.script_steps import script_step_code
from agentrail.tools import AskPerson, Effect, err, ok
from tests.kit import freeze_object


class OwnError(Exception):
    """An error of a user, with an argument."""


class OddError(PermanentModelError):
    """An error of a user that takes other arguments than it keeps."""

    def __init__(self, model: str, count: int) -> None:
        super().__init__(f"{model} failed {count} times")


def run(script_step: ScriptStep) -> tuple[str, ScriptStep]:
    """Return the code of *script_step*, and what comes out when it is run."""
    source = CodeSource()
    code = script_step_code(script_step, source)
    names: dict[str, object] = {}
    exec("\n".join((*source.lines(), f"script_step = {code}")), names)  # noqa: S102 - it is what a user does
    name = names["script_step"]
    assert isinstance(name, ScriptStep)
    return code, name


def facts(error: Exception) -> tuple[object, ...]:
    return (type(error), error.args, str(error))


def check_same(script_step: ScriptStep) -> None:
    code, new_value = run(script_step)
    if isinstance(script_step, Failing):  # an error of Python equals no other one
        assert isinstance(new_value, Failing)
        assert facts(new_value.error) == facts(script_step.error), code
        new_value = new_value.but(error=script_step.error)
    assert new_value == script_step, code


TEXTS = st.text(max_size=20) | st.sampled_from(
    ["hello world", " a  b ", "it's", 'say "no"', "word0 word1 ", "\\", "\n"]
)
SECONDS = st.none() | st.sampled_from([0.0, 0.25, 3, math.inf])
COUNTS = st.integers(0, 4)
JSON = st.dictionaries(TEXTS, st.recursive(st.none() | st.booleans() | TEXTS, st.lists, max_leaves=3), max_size=2)
USAGES = st.builds(Usage, COUNTS, COUNTS, cost_usd=st.none() | st.just(0.5))
CHUNKS = st.one_of(
    st.builds(TextChunk, TEXTS),
    st.builds(ThinkingChunk, TEXTS),
    st.builds(CallChunk, TEXTS),
    st.builds(UsageChunk, USAGES),
    st.just(PING),
)
STREAMED: st.SearchStrategy[tuple[Chunk, ...]] = st.lists(CHUNKS, max_size=4).map(tuple)
MODEL_ERRORS = st.sampled_from(
    [ModelError, TransientModelError, PermanentModelError, ContextTooLong, StreamEndedEarly, RateLimited]
)
ERRORS: st.SearchStrategy[Exception] = st.one_of(
    st.builds(lambda cls, text, wait: cls(text, wait), MODEL_ERRORS, TEXTS, SECONDS),
    st.builds(
        lambda cls, facts: cls(*facts), st.sampled_from([OwnError, ValueError, OSError]), st.lists(TEXTS, max_size=2)
    ),
)
CALLS = st.builds(call, TEXTS, st.none() | JSON, id=TEXTS) | st.builds(
    ToolCall, TEXTS, TEXTS, JSON.map(freeze_object), TEXTS, TEXTS
)
STOPS = st.none() | st.sampled_from(StopReason)
PARTS = st.lists(st.builds(Text, TEXTS) | st.builds(Thinking, TEXTS, st.none() | TEXTS), max_size=3).map(tuple)
RESPONSES = st.builds(Response, PARTS, st.lists(CALLS, max_size=2).map(tuple), st.sampled_from(StopReason), USAGES)

FAILURES = st.one_of(
    st.builds(transient, TEXTS, retry_after=SECONDS, after=COUNTS),
    st.builds(permanent, TEXTS, after=COUNTS),
    st.builds(overflow, TEXTS, after=COUNTS),
    st.builds(fail, ERRORS, after=COUNTS, text=TEXTS, delay=SECONDS),
    st.builds(Failing, STREAMED, ERRORS, SECONDS),
)
STALLS = st.builds(stall, after=COUNTS, text=TEXTS, delay=SECONDS) | st.builds(Stalling, STREAMED, SECONDS)
ANSWERS = st.one_of(
    st.builds(
        say,
        TEXTS,
        thinking=TEXTS,
        calls=st.lists(CALLS, max_size=2),
        chunks=st.none() | st.integers(1, 4) | st.lists(TEXTS | CHUNKS, max_size=3),
        delay=SECONDS,
        stop=STOPS,
        usage=USAGES,
    ),
    st.builds(Saying, STREAMED, RESPONSES, SECONDS),
)
RESULTS = TEXTS | st.builds(ok, TEXTS, JSON) | st.builds(err, TEXTS) | st.just(Effect(AskPerson("Which?", ("a", "b"))))
OTHERS = st.one_of(
    st.builds(prompt, TEXTS, at_once=st.booleans()),
    st.builds(steer, TEXTS, st.sampled_from(["gap", "now"])),
    st.builds(abort, st.none() | TEXTS, kill_tools=st.sampled_from(["killable", "all"]), clear_queue=st.booleans()),
    st.builds(approve, st.none() | JSON, always=st.booleans()),
    st.builds(reject, st.none() | TEXTS, auto_resume=st.booleans()),
    st.builds(respond, TEXTS),
    st.builds(returns, RESULTS),
    st.builds(raises, TEXTS),
    st.builds(tell, st.builds(Answered, JSON.map(freeze_object)) | st.builds(Failed, TEXTS) | st.just(TimedOut(3.0))),
    st.builds(wait, st.floats(0, 1e6)),
    st.builds(switch_model, TEXTS),
    st.just(compact()),
    st.builds(stop, TEXTS),
)


@pytest.mark.long
@given(FAILURES)
def test_a_failure(script_step: ScriptStep) -> None:
    check_same(script_step)


@pytest.mark.long
@given(STALLS)
def test_a_stall(script_step: ScriptStep) -> None:
    check_same(script_step)


@pytest.mark.long
@given(ANSWERS)
def test_an_answer(script_step: ScriptStep) -> None:
    check_same(script_step)


@pytest.mark.long
@given(OTHERS)
def test_another_step(script_step: ScriptStep) -> None:
    check_same(script_step)


@pytest.mark.parametrize(
    ("script_step", "code"),
    [
        (
            fail(StreamEndedEarly("cut"), after=2, text="hello world"),
            'fail(StreamEndedEarly("cut"), after=2, text="hello world")',
        ),
        (fail(TransientModelError("busy", 3.0), after=2), 'transient("busy", retry_after=3.0, after=2)'),
        (fail(ContextTooLong("much", 3.0)), 'fail(ContextTooLong("much", 3.0))'),
        (fail(TransientModelError("busy"), delay=None), 'fail(TransientModelError("busy"), delay=None)'),
        (fail(OddError("m", 3)), 'fail(OddError("m failed 3 times"))'),
        (stall(after=1, text="hello world"), 'stall(after=1, text="hello ")'),
        (say("hello", chunks=2, delay=0.5), 'say("hello", chunks=2, delay=0.5)'),
        (say("hello", thinking="so be it", chunks=2), 'say("hello", thinking="so be it", chunks=2)'),
        (say("hello", chunks=["h", "ello"]), 'say("hello", chunks=["h", "ello"])'),
    ],
    ids=repr,
)
def test_how_it_is_written(script_step: ScriptStep, code: str) -> None:
    assert script_step_code(script_step, CodeSource()) == code
