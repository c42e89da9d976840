"""One request to a model: its task publishes the deltas and counts the usage.

Usage of an incomplete response is what the provider reported so far, and an estimate where it has not.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from math import inf
from typing import Final

import trio

from agentrail.core.answers import with_answer_tool, without_answer_tool
from agentrail.core.inline_tags import TagFilter, Tagged
from agentrail.core.vocabulary.effects import StartRequest
from agentrail.core.vocabulary.inputs import AnyInput, StreamCut, StreamEnded, StreamStalled
from agentrail.errors import ModelError
from agentrail.ports.failpoints import reach
from agentrail.ports.model import Model, PriceBook, forms_answers, times_beginning
from agentrail.runtime.events.log import EventLog
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.provider_limits import SendRequest
from agentrail.runtime.shared.task_pool import Work
from agentrail.runtime.shared.untrusted_calls import tell
from agentrail.runtime.work.screening import HeldText, Screens
from agentrail.values.events.envelope import Event
from agentrail.values.events.response import MessageStart, StatusUpdate, ThinkingDelta, ThinkingStart
from agentrail.values.stream import (
    CallChunk,
    Chunk,
    Failure,
    FailureKind,
    ModelRequest,
    Partial,
    PingChunk,
    Response,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
    tokens,
    with_read,
)
from agentrail.values.untrusted_content import MAX_TEXT, fit_chunk, fit_failure
from agentrail.values.untrusted_values import described, type_name
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import quick

_thought = quick(ThinkingDelta)
_start_event = quick(MessageStart)

MANY_CALLS: Final = 100
"""Calls in one response above which other tasks run between their check and the session's step."""


class UsageMeter:
    """Counts the usage of one request while its chunks arrive."""

    __slots__ = ("_answered", "_counted", "_request", "_usage", "said")

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._usage: Usage | None = None
        self._answered = False
        self._counted = 0  # characters whose tokens the provider has reported
        self.said = 0  # characters received

    def hear(self, chunk: Chunk) -> None:
        """Check and count a chunk of a model; raise `BadResponse` if it is invalid."""
        self.take(fit_chunk(chunk, MAX_TEXT - self.said))

    def take(self, chunk: Chunk) -> None:
        """Count a checked chunk; a caller may add the characters of a text to `said` itself instead."""
        if isinstance(chunk, UsageChunk):
            self._usage = chunk.usage
            if chunk.usage.output_tokens:  # some providers report only input tokens until the end
                self._counted = self.said
        elif isinstance(chunk, PingChunk):
            self._answered = True
        else:
            self.said += len(chunk.text)

    def used(self, *, cut: bool) -> Usage:
        """Return the usage so far, estimated where the provider has not reported it.

        If the request is *cut*, its input counts as soon as the provider has sent anything, even a ping. If it failed
        by itself before its first word, nothing counts that the provider has not reported.
        """
        output_tokens = tokens(self.said - self._counted)
        if self._usage is None and not output_tokens and not (cut and self._answered):
            return NOTHING_USED
        used = with_read(self._usage or NOTHING_USED, self._request)
        return used.but(output_tokens=used.output_tokens + output_tokens, estimated=True) if output_tokens else used


Post = Callable[[AnyInput], None]

log = logging.getLogger("agentrail.model")

CANCELLED = Failure(FailureKind.TRANSIENT, "Cancelled", "the request was cancelled")


class Stream(Work):
    """A running request, and the response so far."""

    __slots__ = (
        "_began",
        "_clock",
        "_closing",
        "_events",
        "_failure",
        "_first_chunk_ms",
        "_held",
        "_meter",
        "_ms",
        "_next_ms_at",
        "_note_begin",
        "_now",
        "_plain",
        "_post",
        "_prices",
        "_screens",
        "_sent_at",
        "_tags",
        "_text",
        "_thinking",
        "_thinks",
        "_timed",
        "closed",
        "ended",
        "last",
        "reported",
        "request",
        "stall_timeout",
        "waiting",
    )

    def __init__(
        self,
        started: StartRequest,
        clock: Clock,
        events: EventLog,
        post: Post,
        note_begin: Callable[[str], None],
        prices: PriceBook,
    ) -> None:
        super().__init__()
        self._post = post
        self._note_begin = note_begin
        self._prices = prices
        self._tags = TagFilter() if started.inline_tags else None
        self._plain = self._tags is None  # whether chunks are taken as they are
        self._clock = clock
        self._now = clock.now
        self._ms = 0  # time of the last text, in milliseconds since 1970
        self._next_ms_at = -inf  # until when a text has the same
        self._events = events
        self.request = started.request
        self.stall_timeout = started.stall_timeout
        self._closing: StreamEnded | None = None
        self.closed = False
        self.ended = False
        self.waiting = False
        self._timed = False
        self.last = self.reported = self._sent_at = clock.now()
        self._first_chunk_ms: int | None = None  # from the sending of the request
        self._began = False  # whether subscribers see it
        self._screens: Screens | None = None
        self._held: HeldText | None = None
        self._thinks = False  # whether the text held back for screening is of thoughts
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._meter = UsageMeter(started.request)
        self._failure = CANCELLED

    def screen_by(self, screens: Screens | None) -> None:
        """Tell the response only as *screens* give it, if there are any; called before the request starts."""
        if screens is not None:
            self._screens, self._held = screens, HeldText(screens.text, screens.reach)

    def cut(self) -> None:
        """Cancel the request; nothing more of it is published."""
        self.closed = True
        self._plain = False
        self._note_begin = not_told  # breaks a reference cycle
        self.cancel()
        reach("REQUEST_CUT")

    def text_so_far(self) -> Partial:
        """Return the text that subscribers have seen, with the usage of everything received."""
        partial = self.partial(cut=True)
        return partial if self._began else Partial(usage=partial.usage)

    def used(self) -> Usage:
        """Return the usage of everything received, as it counts now that the request is cut or has failed."""
        return self._priced(self._meter.used(cut=self.closed))

    def partial(self, *, cut: bool = False) -> Partial:
        """Return the response received so far, with usage estimated where the provider has not counted."""
        usage = self._priced(self._meter.used(cut=cut))
        return Partial("".join(self._text), "".join(self._thinking), usage)

    def _priced(self, used: Usage) -> Usage:
        """Return *used* with its cost."""
        return self._prices.priced(self.request.model, self.request.options, used)

    def emit(self, chunk: Chunk) -> None:
        """Take a chunk from the model: publish it; raise `BadResponse` if it is invalid."""
        if self._plain and type(chunk) is TextChunk and type(text := chunk.text) is str and text.isascii():
            meter = self._meter
            chars = meter.said + len(text)
            if chars <= MAX_TEXT:  # shortcut for the usual case, in which no text has to be repaired
                meter.said = chars
                self.last = now = self._now()
                self.waiting = False
                if self._held is not None:
                    self._hold(self._held, text, thinks=False)
                    return
                self._text.append(text)
                if not self._began:
                    self._begin()
                if now >= self._next_ms_at:  # those of a burst come within one millisecond
                    self._ms = self._clock.ms(now)
                    self._next_ms_at = self._clock.until(self._ms)
                self._events.publish_ephemeral(text, self._ms)
                return
        if not self.closed and not self.ended:
            self._emit_fit(fit_chunk(chunk, MAX_TEXT - self._meter.said))

    def _emit_fit(self, chunk: Chunk) -> None:
        """Handle a checked chunk of any kind."""
        self.last = self._clock.now()
        self._meter.take(chunk)
        if isinstance(chunk, TextChunk):
            self.waiting = False
            self._write((chunk.text,) if self._tags is None else self._tags.feed(chunk.text))
        elif isinstance(chunk, ThinkingChunk):
            self.waiting = False
            if self._held is not None:
                self._hold(self._held, chunk.text, thinks=True)
                return
            if not self._thinking:
                self._say(ThinkingStart())
            self._thinking.append(chunk.text)
            self._say(_thought(chunk.text))
        elif isinstance(chunk, CallChunk):  # a ping alone does not mean that the response has begun
            self.waiting = False
            self._note_first()

    def _write(self, pieces: Iterable[str | Tagged]) -> None:
        """Publish pieces of text and status; a title is reported by the machine instead."""
        for piece in pieces:
            if not isinstance(piece, str):
                if piece.tag == "status":
                    self._say(StatusUpdate(piece.text if self._screens is None else self._screens.text(piece.text)))
            elif self._held is not None:
                self._hold(self._held, piece, thinks=False)
            else:
                self._text.append(piece)
                self._say(piece)

    def _hold(self, held_text: HeldText, piece: str, *, thinks: bool) -> None:
        """Add a piece of text that must be screened, and publish as much as is certain by now."""
        if thinks is not self._thinks:
            self._let_go(*held_text.end())
            self._thinks = thinks
            if thinks and not self._thinking:
                self._say(ThinkingStart())
        self._begin()
        received, shown_text = held_text.feed(piece)
        if received:
            self._let_go(received, shown_text)

    def _let_go(self, received: str, shown_text: str) -> None:
        """Add *received*, a screened piece, to the partial response, and publish it as *shown_text*."""
        if received:
            (self._thinking if self._thinks else self._text).append(received)
        if shown_text:
            self._say(_thought(shown_text) if self._thinks else shown_text)

    def _begin(self) -> None:
        """Tell the session and its subscribers that the response has begun. No-op after the first time.

        The session makes no step for it, and journals nothing: if the process dies now, the request is made again.
        """
        if self._began:
            return
        self._began = True
        self._note_first()
        reach("FIRST_CHUNK")
        self._note_begin(self.request.request_id)
        self._events.publish_ephemeral(_start_event(self.request.request_id), self._clock.ms(self.last))
        reach("STREAM_OPENED")

    def _note_first(self) -> None:
        """Note how long the first chunk took, which has just come. No-op after the first time."""
        if self._first_chunk_ms is None:
            self._first_chunk_ms = round(max(0.0, self.last - self._sent_at) * 1000)

    def _say(self, event: Event | str) -> None:
        """Publish an event or a piece of text; the response begins with the first one."""
        self._begin()
        self._events.publish_ephemeral(event, self._clock.ms(self.last))

    def note_sent(self) -> None:
        """Note that the request is sent now; the wait for rate limits before does not count as a stall."""
        self.waiting = self._timed
        self.last = self._sent_at = self._clock.now()
        reach("REQUEST_SENT")

    async def run(self, model: Model, session_id: str, send: SendRequest) -> None:
        """Make the request; its beginning is posted while it runs, and exactly one end after that."""
        reach("REQUEST_SPAWNED")
        self.waiting = True
        self._timed = times_beginning(model)
        stream = partial(send, session_id, model, emit=self.emit, sent=self.note_sent)
        response = await formed(model, self.request, stream)
        if len(response.calls) > MANY_CALLS:
            # The check of all calls and the session's step would otherwise be one pass of the loop.
            await trio.lowlevel.cancel_shielded_checkpoint()
        if self._tags is not None and not self.closed:
            self._write(self._tags.end())
        if self._held is not None and not self.closed:
            self._let_go(*self._held.end())
        usage = self._priced(response.usage)
        ended = response if usage is response.usage else response.but(usage=usage)
        self._closing = StreamEnded(self.request.request_id, ended, self._first_chunk_ms)

    def over(self) -> None:
        """Post the end of the request."""
        self.ended = True
        self._plain = False
        reach("RESPONSE")
        self._post(self._closing or StreamCut(self.request.request_id, self.partial(), self._failure))

    def raised(self, error: BaseException) -> None:
        """Keep the exception that the model raised."""
        if isinstance(error, ModelError):
            self._failure = fit_failure(error, self._clock.now() - self.last)
            return
        tell(log, error, "model `%s` raised", self.request.model, words=self._screens is None)
        self._failure = Failure(FailureKind.PERMANENT, type_name(error), described(error))

    @property
    def stalls_at(self) -> float:
        """Time of the next stall: `stall_timeout` after the last chunk or the last report of a stall."""
        return max(self.last, self.reported) + self.stall_timeout

    def stalled(self, now: float) -> StreamStalled:
        """Return the `StreamStalled` input: the seconds since the last chunk, and the response so far.

        Its usage is estimated as if the request were cut now.
        """
        return StreamStalled(self.request.request_id, round(now - self.last, 3), self.partial(cut=True))


def not_told(request_id: str) -> None:
    """No-op, in place of what is told that the response to *request_id* begins: that concerns nobody any more."""


async def formed(
    model: Model, request: ModelRequest, stream: Callable[[ModelRequest], Awaitable[Response]]
) -> Response:
    """Stream a request, and return its response with the answer as text.

    If the answer must fit a schema and *model* cannot demand that itself, the request gets an answer tool.
    """
    if not request.returns or forms_answers(model):
        return await stream(request)
    request, tool = with_answer_tool(request)
    return without_answer_tool(await stream(request), tool)
