"""Tests of what every model must do. Inherit the class, and give it a `stage` fixture that sets up the scenes.

    class TestMine(ModelConformance):
        @pytest.fixture
        def stage(self) -> Stage:
            async def stage(scene: ModelScene) -> Staged | None:
                return Staged(MyModel(), request) if scene is ModelScene.TEXT else None
            return stage

A scene is a behaviour of the model that a test needs, such as a failure. The fixture returns `None` for a scene that it
cannot set up; `TEXT` must be possible. The tests are async functions for pytest-trio.
"""

# ruff: noqa: S101 - these are tests

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final, TypeAlias

import trio

from agentrail.errors import ContextTooLong, PermanentModelError, TransientModelError
from agentrail.ports.model import Model
from agentrail.testing.conformance.expected_errors import raised
from agentrail.values.content import Text, Thinking
from agentrail.values.json import freeze
from agentrail.values.messages import StopReason
from agentrail.values.stream import Chunk, ModelRequest, Response, TextChunk, ThinkingChunk, UsageChunk
from agentrail.values.value import Authored

CANCELLED_WITHIN: Final = 2.0
"""Seconds that a cancelled request may take to end."""


class ModelScene(Enum):
    """A behaviour of the model that a test needs; from its set-up on, the model shows it for every request."""

    TEXT = "text"
    """The model answers with text, in several chunks."""
    THINKING = "thinking"
    """The model thinks, and then answers with text."""
    CALLS = "calls"
    """The model calls two tools of the request."""
    LAST_ROUND = "last_round"
    """The request has tools, and says that the model must not call them (`may_call` is false)."""
    SILENT = "silent"
    """The model never answers."""
    TRANSIENT = "transient"
    """The model fails with a `TransientModelError`: another try may work."""
    PERMANENT = "permanent"
    """The model fails with a `PermanentModelError`: another try would not work."""
    OVERFLOW = "overflow"
    """The conversation is longer than the model can read, and it raises `ContextTooLong`."""


class Staged(Authored, gc=True):
    """A model, with a request that makes it show the behaviour of a scene."""

    model: Model
    """The model under test."""
    request: ModelRequest
    """The request to give the model."""


Stage: TypeAlias = Callable[[ModelScene], Awaitable[Staged | None]]
"""Async function that sets up a scene; returns `None` if the model cannot be made to behave so."""

_FAILURES: Final = (
    (ModelScene.TRANSIENT, TransientModelError),
    (ModelScene.PERMANENT, PermanentModelError),
    (ModelScene.OVERFLOW, ContextTooLong),
)


async def heard(staged: Staged) -> tuple[Response, list[Chunk]]:
    """Make the request of *staged*, and return the response and the chunks."""
    chunks: list[Chunk] = []
    return await staged.model.stream(staged.request, chunks.append), chunks


async def text_staged(stage: Stage) -> Staged:
    """Set up the scene `TEXT` and return it; every model must be able to play it."""
    staged = await stage(ModelScene.TEXT)
    assert staged is not None, "every model can answer with text"
    return staged


class ModelConformance:
    """Tests of one request: its stream, its response, its cancellation, and the classes of its errors."""

    async def test_the_chunks_add_up_to_the_response(self, stage: Stage) -> None:
        """The streamed chunks, joined, equal the text and thinking of the response: none is lost or repeated."""
        for scene in (ModelScene.TEXT, ModelScene.THINKING):
            staged = await stage(scene)
            if staged is None:
                continue
            response, chunks = await heard(staged)
            text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
            thought = "".join(chunk.text for chunk in chunks if isinstance(chunk, ThinkingChunk))
            assert text == "".join(part.text for part in response.parts if isinstance(part, Text))
            assert thought == "".join(part.text for part in response.parts if isinstance(part, Thinking))
            assert text
            assert response.stop is StopReason.END

    async def test_thoughts_come_before_the_text(self, stage: Stage) -> None:
        """Thinking comes before the text, in the chunks and in the response."""
        staged = await stage(ModelScene.THINKING)
        if staged is None:
            return
        response, chunks = await heard(staged)
        kinds = [type(chunk) for chunk in chunks if isinstance(chunk, TextChunk | ThinkingChunk)]
        assert kinds == sorted(kinds, key=lambda kind: kind is TextChunk)
        assert isinstance(response.parts[0], Thinking)

    async def test_calls_name_tools_of_the_request(self, stage: Stage) -> None:
        """Calls have the provider's ids, no two the same, names of tools that were offered, and JSON for arguments."""
        staged = await stage(ModelScene.CALLS)
        if staged is None:
            return
        response, _ = await heard(staged)
        names = {tool.name for tool in staged.request.tools}
        ids = [call.provider_id for call in response.calls if call.provider_id]
        assert response.stop is StopReason.TOOL_CALLS
        assert response.calls
        assert {call.name for call in response.calls} <= names
        assert len(ids) == len(set(ids))
        assert all(freeze(call.args) == call.args for call in response.calls)

    async def test_a_model_that_must_not_call_speaks(self, stage: Stage) -> None:
        """A request whose `may_call` is false gets a response without calls, though it has tools."""
        staged = await stage(ModelScene.LAST_ROUND)
        if staged is None:
            return
        response, _ = await heard(staged)
        assert not staged.request.may_call
        assert response.calls == ()

    async def test_usage_never_falls(self, stage: Stage) -> None:
        """Each `UsageChunk` counts all tokens so far, and the response's usage is at least the last count."""
        for scene in (ModelScene.TEXT, ModelScene.CALLS):
            staged = await stage(scene)
            if staged is None:
                continue
            response, chunks = await heard(staged)
            counts = [chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk)]
            counts.append(response.usage)
            assert [usage.input_tokens for usage in counts] == sorted(usage.input_tokens for usage in counts)
            assert [usage.output_tokens for usage in counts] == sorted(usage.output_tokens for usage in counts)
            assert response.usage.cached_tokens <= response.usage.input_tokens
            assert response.usage.reasoning_tokens <= response.usage.output_tokens

    async def test_the_name_is_text_and_stays(self, stage: Stage) -> None:
        """The model's name is text, not empty, and the same before and after a request."""
        staged = await text_staged(stage)
        name = staged.model.name
        await heard(staged)
        assert isinstance(name, str)
        assert name
        assert staged.model.name == name

    async def test_a_request_that_is_cancelled_before_it_begins_does_not_begin(self, stage: Stage) -> None:
        """`stream` has a checkpoint even if the answer is there at once, so that a cancelled request does not begin."""
        staged = await text_staged(stage)
        with trio.CancelScope() as scope:
            scope.cancel()
            await heard(staged)
        assert scope.cancelled_caught

    async def test_a_request_can_be_cancelled_at_each_chunk_and_the_next_is_answered(self, stage: Stage) -> None:
        """A request that was cancelled at any chunk has no effect on the next one, which gets its whole answer."""
        staged = await text_staged(stage)
        whole, chunks = await heard(staged)
        for most in range(1, len(chunks)):
            await _cut_at(staged, most)
            assert (await heard(staged))[0].but(calls=()) == whole.but(calls=())

    async def test_a_silent_request_can_be_cancelled(self, stage: Stage) -> None:
        """A request that waits for an answer ends soon when it is cancelled."""
        staged = await stage(ModelScene.SILENT)
        if staged is None:
            return
        with trio.fail_after(CANCELLED_WITHIN):
            with trio.move_on_after(0.05) as scope:
                await heard(staged)
            assert scope.cancelled_caught

    async def test_requests_side_by_side_do_not_mix(self, stage: Stage) -> None:
        """Each of several concurrent requests gets its own answer."""
        staged = await text_staged(stage)
        whole, _ = await heard(staged)
        answers: list[Response] = []

        async def one() -> None:
            answers.append((await heard(staged))[0])

        async with trio.open_nursery() as nursery:  # noqa: TID251 - a test
            for _ in range(4):
                nursery.start_soon(one)
        assert answers == [whole] * 4

    async def test_failures_are_told_by_class(self, stage: Stage) -> None:
        """A failure raises the class of error that tells whether another try makes sense."""
        for scene, error_class in _FAILURES:
            staged = await stage(scene)
            if staged is None:
                continue
            assert str(await raised(error_class, heard(staged)))


async def _cut_at(staged: Staged, most: int) -> None:
    """Make the request of *staged* and cancel it after *most* chunks."""
    count = 0
    with trio.CancelScope() as scope:

        def emit(_: Chunk) -> None:
            nonlocal count
            count += 1
            if count == most:
                scope.cancel()

        await staged.model.stream(staged.request, emit)
