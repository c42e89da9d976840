"""One request to a model: the task that makes it publishes the deltas itself."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from agentrail.core.inputs import AnyInput, StreamBegan, StreamCut, StreamEnded, StreamStalled
from agentrail.errors import ContextOverflow, ModelError, PermanentModelError, TransientModelError
from agentrail.ports.model import Model
from agentrail.values.events.envelope import Event
from agentrail.values.events.response import MessageDelta, MessageStart, ThinkingDelta, ThinkingStart
from agentrail.values.stream import Chunk, Failure, FailureKind, ModelRequest, Partial, TextChunk, ThinkingChunk
from agentrail.values.usage import NOTHING_USED, Usage

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

    __slots__ = ("_began", "_held_back", "_open", "_text", "_thinking", "_usage", "closed", "last", "request", "scope")

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self.scope = trio.CancelScope()
        self.closed = False
        self.last = trio.current_time()
        self._began = False
        self._open = False
        self._held_back: list[Chunk] = []
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._usage: Usage | None = None

    def cut(self) -> None:
        """End it at once: nothing more is heard of it."""
        self.closed = True
        self.scope.cancel()

    def partial(self) -> Partial:
        """Return what has come so far; what the provider has not counted is estimated."""
        text, thinking = "".join(self._text), "".join(self._thinking)
        usage = self._usage
        if usage is None:
            if not self._began:
                return Partial()
            written = -(-(len(text) + len(thinking)) // CHARS_PER_TOKEN)
            usage = Usage(0, written, estimated=True) if written else NOTHING_USED
        return Partial(text, thinking, usage)

    async def run(self, model: Model, whisper: Callable[[Event], None], post: Callable[[AnyInput], None]) -> None:
        """Make the request; post that it began, and exactly one end."""
        request_id = self.request.request_id

        def emit(chunk: Chunk) -> None:
            if self.closed:
                return
            self.last = trio.current_time()
            if isinstance(chunk, TextChunk):
                self._text.append(chunk.text)
            elif isinstance(chunk, ThinkingChunk):
                if not self._thinking and self._open:
                    whisper(ThinkingStart())
                self._thinking.append(chunk.text)
            else:
                self._usage = chunk.usage
                return
            if self._open:
                whisper(MessageDelta(chunk.text) if type(chunk) is TextChunk else ThinkingDelta(chunk.text))
                return
            self._held_back.append(chunk)
            if not self._began:
                self._began = True
                post(StreamBegan(request_id))

        closing: AnyInput | None = None
        failure = Failure(FailureKind.TRANSIENT, "Cancelled", "the request was cancelled")
        try:
            with self.scope:
                closing = StreamEnded(request_id, await model.stream(self.request, emit))
        except ModelError as error:
            kind = next(kind for cls, kind in KINDS if isinstance(error, cls))
            failure = Failure(kind, type(error).__name__, str(error), error.retry_after)
        except Exception as error:
            log.exception("model `%s` raised", self.request.model)
            failure = Failure(FailureKind.PERMANENT, type(error).__name__, f"{type(error).__name__}: {error}")
        finally:
            post(StreamCut(request_id, self.partial(), failure) if closing is None else closing)

    def open(self, whisper: Callable[[Event], None]) -> None:
        """Let the deltas out: those that came before, then each as it comes."""
        if self._open or self.closed:
            return
        self._open = True
        whisper(MessageStart(self.request.request_id))
        thinking = False
        held_back, self._held_back = self._held_back, []
        for chunk in held_back:
            if type(chunk) is TextChunk:
                whisper(MessageDelta(chunk.text))
            elif type(chunk) is ThinkingChunk:
                if not thinking:
                    thinking = True
                    whisper(ThinkingStart())
                whisper(ThinkingDelta(chunk.text))

    def stalled(self, now: float) -> StreamStalled:
        """Return the input that says that no chunk has come for a while."""
        return StreamStalled(self.request.request_id, round(now - self.last, 3), self.partial())
