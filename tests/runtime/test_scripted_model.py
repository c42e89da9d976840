import math
import subprocess
import sys
from collections.abc import Callable

import pytest
import trio

from agentrail.errors import ContextTooLong, PermanentModelError, TransientModelError, WrongType
from agentrail.models import (
    Chunk,
    ModelRequest,
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
from agentrail.testing import ScriptedModel, ScriptStep, call, fail, overflow, permanent, say, stall, transient


async def ask(model: ScriptedModel, text: str = "") -> tuple[Response, list[Chunk]]:
    chunks: list[Chunk] = []
    return await model.stream(ModelRequest(model.name, (), text), chunks.append), chunks


async def test_a_text_is_streamed_word_by_word() -> None:
    response, chunks = await ask(ScriptedModel(["one two  three\n"]))
    assert response == Response((Text("one two  three\n"),))
    assert chunks == [TextChunk("one "), TextChunk("two  "), TextChunk("three\n")]


async def test_a_response_has_a_thought_a_text_and_calls() -> None:
    usage = Usage(10, 5)
    scripted = say("see", thinking="hm", calls=[call("look", {"at": 1}, id="x")], usage=usage)
    response, chunks = await ask(ScriptedModel([scripted]))
    expected = (ToolCall("", "look", {"at": 1}, "x"),)
    assert response == Response((Thinking("hm"), Text("see")), expected, StopReason.TOOL_CALLS, usage)
    assert chunks == [ThinkingChunk("hm"), TextChunk("see")]


async def test_chunks_can_be_counted_or_given() -> None:
    _, chunks = await ask(ScriptedModel([say("abcdef", chunks=3)]))
    assert chunks == [TextChunk("ab"), TextChunk("cd"), TextChunk("ef")]
    value: list[str | Chunk] = [ThinkingChunk("t"), "a", UsageChunk(Usage(1, 1)), "b"]
    response, chunks = await ask(ScriptedModel([say(chunks=value)]))
    assert response.parts == (Text("ab"),)
    assert chunks == [ThinkingChunk("t"), TextChunk("a"), UsageChunk(Usage(1, 1)), TextChunk("b")]


async def test_chunks_take_virtual_time() -> None:
    start = trio.current_time()
    await ask(ScriptedModel([say("a b c", delay=2.0)]))
    assert trio.current_time() - start == pytest.approx(6.0)


async def test_it_waits_before_each_chunk() -> None:
    start, came = trio.current_time(), list[float]()
    model = ScriptedModel([say("a b c", delay=2.0)])
    await model.stream(ModelRequest(model.name, ()), lambda _: came.append(trio.current_time() - start))
    assert came == pytest.approx([2.0, 4.0, 6.0])


async def test_only_the_last_element_is_repeated() -> None:
    model = ScriptedModel(["one", "two", "three"], repeat_last=True)
    assert [(await ask(model))[0].parts for _ in range(5)] == [
        (Text(text),) for text in ("one", "two", "three", "three", "three")
    ]


async def test_no_piece_of_a_text_is_empty() -> None:
    _, chunks = await ask(ScriptedModel([say("ab", chunks=5)]))
    assert chunks == [TextChunk("a"), TextChunk("b")]


async def test_without_a_delay_all_chunks_come_in_one_pass() -> None:
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            await trio.lowlevel.checkpoint()
            others += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        _, chunks = await ask(ScriptedModel([say("x" * 500, chunks=500, delay=None)]))
        nursery.cancel_scope.cancel()
    assert len(chunks) == 500
    assert others <= 3


@pytest.mark.parametrize(
    ("scripted", "kind"),
    [(transient(), TransientModelError), (permanent(), PermanentModelError), (overflow(), ContextTooLong)],
)
async def test_it_fails_before_the_first_chunk(scripted: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        await ask(ScriptedModel([scripted]))


async def test_it_fails_after_some_chunks() -> None:
    chunks: list[Chunk] = []
    with pytest.raises(TransientModelError) as failed:
        await ScriptedModel([transient("busy", retry_after=3.0, after=2)]).stream(ModelRequest("m", ()), chunks.append)
    assert failed.value.retry_after == 3.0
    assert len(chunks) == 2
    with pytest.raises(ZeroDivisionError):
        await ask(ScriptedModel([fail(ZeroDivisionError(), text="a b", after=1)]))


async def test_a_stall_never_ends() -> None:
    chunks: list[Chunk] = []
    with trio.move_on_after(10_000) as scope:
        await ScriptedModel([stall(after=2, text="a b c")]).stream(ModelRequest("m", ()), chunks.append)
    assert scope.cancelled_caught
    assert chunks == [TextChunk("a "), TextChunk("b ")]


async def test_a_function_of_the_request_answers() -> None:
    model = ScriptedModel([lambda request: f"you said {request.system}", lambda _: lambda _: say("deep")])
    assert (await ask(model, "hi"))[0].parts == (Text("you said hi"),)
    assert (await ask(model))[0].parts == (Text("deep"),)


async def test_it_records_what_was_asked() -> None:
    model = ScriptedModel(["a", transient()], name="other")
    await ask(model, "1")
    with pytest.raises(TransientModelError):
        await ask(model, "2")
    assert [request.system for request in model.requests] == ["1", "2"]
    assert model.name == "other"


async def test_a_script_that_has_run_out_says_so() -> None:
    model = ScriptedModel(["only one"])
    await ask(model)
    with pytest.raises(PermanentModelError, match="has 1 elements and this is request 2"):
        await ask(model)


async def test_the_last_element_can_be_repeated() -> None:
    model = ScriptedModel(["a", "b"], repeat_last=True)
    assert [(await ask(model))[0].parts for _ in range(4)] == [(Text(text),) for text in "abbb"]
    with pytest.raises(PermanentModelError):
        await ask(ScriptedModel([], repeat_last=True))


@pytest.mark.long
def test_the_kit_does_not_import_test_frameworks() -> None:
    code = "import sys, agentrail.testing as t; t.ScriptedModel; print({'pytest', 'hypothesis'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert ran.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: say("x", chunks=0), "cannot take 0 as `chunks`; give a number of chunks, 1 or more"),
        (lambda: say("x", chunks=-1), "cannot take -1 as `chunks`; give a number of chunks, 1 or more"),
        (
            lambda: fail(ValueError(), text="a b", after=-1),
            "cannot take -1 as `after`; give a number of chunks, 0 or more",
        ),
        (lambda: transient(after=-1), "cannot take -1 as `after`; give a number of chunks, 0 or more"),
        (lambda: stall(text="a b", after=-1), "cannot take -1 as `after`; give a number of chunks, 0 or more"),
        (lambda: say("x", delay=-0.5), "cannot take -0.5 as `delay`; give seconds, 0 or more, or `None`"),
        (lambda: transient(retry_after=-1), "cannot take -1 as `retry_after`; give seconds, 0 or more, or `None`"),
        (lambda: fail(ValueError(), delay=math.nan), "cannot take nan as `delay`; give seconds, 0 or more, or `None`"),
        (lambda: stall(delay=-math.inf), "cannot take -inf as `delay`; give seconds, 0 or more, or `None`"),
    ],
    ids=range(9),
)
def test_numbers_that_make_no_sense_are_refused_where_they_are_written(
    make: Callable[[], ScriptStep], message: str
) -> None:
    with pytest.raises(WrongType) as refused:
        make()
    assert str(refused.value) == message


def test_the_least_numbers_are_taken() -> None:
    assert say("ab", chunks=1, delay=0).chunks == (TextChunk("ab"),)
    assert say("x", delay=math.inf).delay == math.inf
    assert stall(text="a b", after=0, delay=None).chunks == ()
