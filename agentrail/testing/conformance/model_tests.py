"""Tests of what every model must do. Inherit the class, and give it a `set_up` fixture that sets up the scenes.

    class TestMine(ModelConformance):
        @pytest.fixture
        def set_up(self) -> SetUp:
            async def set_up(scene: ModelScene) -> ModelSetup | None:
                return ModelSetup(MyModel(), request) if scene is ModelScene.TEXT else None
            return set_up

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


class ModelSetup(Authored, gc=True):
    """A model, with a request that makes it show the behaviour of a scene."""

    model: Model
    """The model under test."""
    request: ModelRequest
    """The request to give the model."""


SetUp: TypeAlias = Callable[[ModelScene], Awaitable[ModelSetup | None]]
"""Async function that sets up a scene; returns `None` if the model cannot be made to behave so."""

_FAILURES: Final = (
    (ModelScene.TRANSIENT, TransientModelError),
    (ModelScene.PERMANENT, PermanentModelError),
    (ModelScene.OVERFLOW, ContextTooLong),
)


async def heard(setup: ModelSetup) -> tuple[Response, list[Chunk]]:
    """Make the request of *setup*, and return the response and the chunks."""
    chunks: list[Chunk] = []
    return await setup.model.stream(setup.request, chunks.append), chunks


async def text_setup(set_up: SetUp) -> ModelSetup:
    """Set up the scene `TEXT` and return it; every model must be able to play it."""
    setup = await set_up(ModelScene.TEXT)
    assert setup is not None, "every model can answer with text"
    return setup


class ModelConformance:
    """Tests of one request: its stream, its response, its cancellation, and the classes of its errors."""

    async def test_the_chunks_add_up_to_the_response(self, set_up: SetUp) -> None:
        """The streamed chunks, joined, equal the text and thinking of the response: none is lost or repeated."""
        for scene in (ModelScene.TEXT, ModelScene.THINKING):
            setup = await set_up(scene)
            if setup is None:
                continue
            response, chunks = await heard(setup)
            text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
            thought = "".join(chunk.text for chunk in chunks if isinstance(chunk, ThinkingChunk))
            assert text == "".join(part.text for part in response.parts if isinstance(part, Text))
            assert thought == "".join(part.text for part in response.parts if isinstance(part, Thinking))
            assert text
            assert response.stop is StopReason.END

    async def test_thoughts_come_before_the_text(self, set_up: SetUp) -> None:
        """Thinking comes before the text, in the chunks and in the response."""
        setup = await set_up(ModelScene.THINKING)
        if setup is None:
            return
        response, chunks = await heard(setup)
        kinds = [type(chunk) for chunk in chunks if isinstance(chunk, TextChunk | ThinkingChunk)]
        assert kinds == sorted(kinds, key=lambda kind: kind is TextChunk)
        assert isinstance(response.parts[0], Thinking)

    async def test_calls_name_tools_of_the_request(self, set_up: SetUp) -> None:
        """Calls have the provider's ids, no two the same, names of tools that were offered, and JSON for arguments."""
        setup = await set_up(ModelScene.CALLS)
        if setup is None:
            return
        response, _ = await heard(setup)
        names = {tool.name for tool in setup.request.tools}
        ids = [call.provider_id for call in response.calls if call.provider_id]
        assert response.stop is StopReason.TOOL_CALLS
        assert response.calls
        assert {call.name for call in response.calls} <= names
        assert len(ids) == len(set(ids))
        assert all(freeze(call.args) == call.args for call in response.calls)

    async def test_a_model_that_must_not_call_speaks(self, set_up: SetUp) -> None:
        """A request whose `may_call` is false gets a response without calls, though it has tools."""
        setup = await set_up(ModelScene.LAST_ROUND)
        if setup is None:
            return
        response, _ = await heard(setup)
        assert not setup.request.may_call
        assert response.calls == ()

    async def test_usage_never_falls(self, set_up: SetUp) -> None:
        """Each `UsageChunk` counts all tokens so far, and the response's usage is at least the last count."""
        for scene in (ModelScene.TEXT, ModelScene.CALLS):
            setup = await set_up(scene)
            if setup is None:
                continue
            response, chunks = await heard(setup)
            counts = [chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk)]
            counts.append(response.usage)
            assert [usage.input_tokens for usage in counts] == sorted(usage.input_tokens for usage in counts)
            assert [usage.output_tokens for usage in counts] == sorted(usage.output_tokens for usage in counts)
            assert response.usage.cached_tokens <= response.usage.input_tokens
            assert response.usage.reasoning_tokens <= response.usage.output_tokens

    async def test_the_name_is_text_and_stays(self, set_up: SetUp) -> None:
        """The model's name is text, not empty, and the same before and after a request."""
        setup = await text_setup(set_up)
        name = setup.model.name
        await heard(setup)
        assert isinstance(name, str)
        assert name
        assert setup.model.name == name

    async def test_a_request_that_is_cancelled_before_it_begins_does_not_begin(self, set_up: SetUp) -> None:
        """`stream` has a checkpoint even if the answer is there at once, so that a cancelled request does not begin."""
        setup = await text_setup(set_up)
        with trio.CancelScope() as scope:
            scope.cancel()
            await heard(setup)
        assert scope.cancelled_caught

    async def test_a_request_can_be_cancelled_at_each_chunk_and_the_next_is_answered(self, set_up: SetUp) -> None:
        """A request that was cancelled at any chunk has no effect on the next one, which gets its whole answer."""
        setup = await text_setup(set_up)
        response, chunks = await heard(setup)
        for most in range(1, len(chunks)):
            await _cut_at(setup, most)
            assert (await heard(setup))[0].but(calls=()) == response.but(calls=())

    async def test_a_silent_request_can_be_cancelled(self, set_up: SetUp) -> None:
        """A request that waits for an answer ends soon when it is cancelled."""
        setup = await set_up(ModelScene.SILENT)
        if setup is None:
            return
        with trio.fail_after(CANCELLED_WITHIN):
            with trio.move_on_after(0.05) as scope:
                await heard(setup)
            assert scope.cancelled_caught

    async def test_requests_side_by_side_do_not_mix(self, set_up: SetUp) -> None:
        """Each of several concurrent requests gets its own answer."""
        setup = await text_setup(set_up)
        response, _ = await heard(setup)
        answers: list[Response] = []

        async def one() -> None:
            answers.append((await heard(setup))[0])

        async with trio.open_nursery() as nursery:  # noqa: TID251 - a test
            for _ in range(4):
                nursery.start_soon(one)
        assert answers == [response] * 4

    async def test_failures_are_told_by_class(self, set_up: SetUp) -> None:
        """A failure raises the class of error that tells whether another try makes sense."""
        for scene, error_class in _FAILURES:
            setup = await set_up(scene)
            if setup is None:
                continue
            assert str(await raised(error_class, heard(setup)))


async def _cut_at(setup: ModelSetup, most: int) -> None:
    """Make the request of *setup* and cancel it after *most* chunks."""
    count = 0
    with trio.CancelScope() as scope:

        def emit(_: Chunk) -> None:
            nonlocal count
            count += 1
            if count == most:
                scope.cancel()

        await setup.model.stream(setup.request, emit)
