"""One request to a model: the task that makes it publishes the deltas itself."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from agentrail.core.inputs import AnyInput, StreamBegan, StreamCut, StreamEnded, StreamStalled
from agentrail.errors import ContextOverflow, ModelError, PermanentModelError, TransientModelError
from agentrail.ports.model import Model
from agentrail.runtime.border import CRASHES, described, fit_response, mended
from agentrail.runtime.clock import Clock
from agentrail.values.events.envelope import Event
from agentrail.values.events.response import MessageDelta, MessageStart, ThinkingDelta, ThinkingStart
from agentrail.values.stream import (
    CallChunk,
    Chunk,
    Failure,
    FailureKind,
    ModelRequest,
    Partial,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from agentrail.values.usage import NOTHING_USED, Usage

Whisper = Callable[[Event, int], None]
Post = Callable[[AnyInput], None]

log = logging.getLogger("agentrail.model")

CHARS_PER_TOKEN = 4
"""How many characters a token is taken for where the provider has not counted."""

KINDS: tuple[tuple[type[ModelError], FailureKind], ...] = (
    (ContextOverflow, FailureKind.OVERFLOW),
    (TransientModelError, FailureKind.TRANSIENT),
    (PermanentModelError, FailureKind.PERMANENT),
    (ModelError, FailureKind.PERMANENT),
)
"""What can be done about each error of a model, the first that fits."""


class Stream:
    """A request that is out: what has come of it, and whether anybody may hear it yet."""

    __slots__ = (
        "_began",
        "_clock",
        "_held_back",
        "_open",
        "_post",
        "_text",
        "_thinking",
        "_thought",
        "_unheard",
        "_usage",
        "_whisper",
        "closed",
        "ended",
        "last",
        "request",
        "scope",
    )

    def __init__(self, request: ModelRequest, clock: Clock, whisper: Whisper, post: Post) -> None:
        self._post = post
        self._clock = clock
        self._whisper = whisper
        self.request = request
        self.scope = trio.CancelScope()
        self.closed = False
        self.ended = False
        self.last = clock.now()
        self._began = False
        self._thought = False
        self._open = False
        self._held_back: list[Chunk] = []
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._unheard = 0
        self._usage: Usage | None = None

    def cut(self) -> None:
        """End it at once: nothing more is heard of it."""
        self.closed = True
        self.scope.cancel()

    def heard(self) -> Partial:
        """Return what subscribers have heard so far; what they have not was used all the same."""
        partial = self.partial()
        return partial if self._open else Partial(usage=partial.usage)

    def partial(self) -> Partial:
        """Return what has come so far; what the provider has not counted is estimated."""
        text, thinking = "".join(self._text), "".join(self._thinking)
        usage = self._usage
        if usage is None:
            written = -(-(len(text) + len(thinking) + self._unheard) // CHARS_PER_TOKEN)
            usage = Usage(0, written, estimated=True) if written else NOTHING_USED
        return Partial(text, thinking, usage)

    def emit(self, chunk: Chunk) -> None:
        """Take a chunk: publish it if the stream is open, keep it until then."""
        if self.closed or self.ended:
            return
        self.last = now = self._clock.now()
        if isinstance(chunk, TextChunk):
            if not chunk.text.isascii():
                chunk = TextChunk(mended(chunk.text))
            self._text.append(chunk.text)
        elif isinstance(chunk, ThinkingChunk):
            if not chunk.text.isascii():
                chunk = ThinkingChunk(mended(chunk.text))
            self._thinking.append(chunk.text)
        else:
            self._count(chunk)
            return
        if self._open:
            self._say(chunk, self._clock.ms(now))
            return
        self._held_back.append(chunk)
        if not self._began:
            self._began = True
            self._post(StreamBegan(self.request.request_id))

    def _count(self, chunk: Chunk) -> None:
        """Take what nobody hears: it counts for the usage, and any chunk is a sign of life."""
        if isinstance(chunk, UsageChunk):
            self._usage = chunk.usage
        elif isinstance(chunk, CallChunk):
            self._unheard += len(chunk.text)

    def _say(self, chunk: Chunk, at: int) -> None:
        if isinstance(chunk, TextChunk):
            self._whisper(MessageDelta(chunk.text), at)
        elif isinstance(chunk, ThinkingChunk):
            if not self._thought:
                self._thought = True
                self._whisper(ThinkingStart(), at)
            self._whisper(ThinkingDelta(chunk.text), at)

    def open(self) -> None:
        """Let the deltas out: those that came before, then each as it comes."""
        if self._open or self.closed:
            return
        self._open = True
        at = self._clock.now_ms()
        self._whisper(MessageStart(self.request.request_id), at)
        held_back, self._held_back = self._held_back, []
        for chunk in held_back:
            self._say(chunk, at)

    async def run(self, model: Model) -> None:
        """Make the request; post that it began, and exactly one end."""
        request_id = self.request.request_id
        closing: AnyInput | None = None
        failure = Failure(FailureKind.TRANSIENT, "Cancelled", "the request was cancelled")
        try:
            with self.scope:
                closing = StreamEnded(request_id, fit_response(await model.stream(self.request, self.emit)))
        except ModelError as error:
            kind = next(kind for cls, kind in KINDS if isinstance(error, cls))
            failure = Failure(kind, type(error).__name__, mended(str(error)), error.retry_after)
        except CRASHES as error:
            log.exception("model `%s` raised", self.request.model)
            failure = Failure(FailureKind.PERMANENT, type(error).__name__, described(error))
        finally:
            self.ended = True
            self._post(StreamCut(request_id, self.partial(), failure) if closing is None else closing)

    def stalled(self, now: float) -> StreamStalled:
        """Return the input that says that no chunk has come for a while."""
        return StreamStalled(self.request.request_id, round(now - self.last, 3), self.partial())
