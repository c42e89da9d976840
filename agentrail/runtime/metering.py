"""What a response has used while it is not complete: as its provider counts, and estimated where that has not."""

from __future__ import annotations

from agentrail.runtime.border import fit_chunk
from agentrail.values.estimates import tokens, with_read
from agentrail.values.fitting import MAX_TEXT
from agentrail.values.stream import CallChunk, Chunk, ModelRequest, PingChunk, TextChunk, ThinkingChunk, UsageChunk
from agentrail.values.usage import NOTHING_USED, Usage


class Meter:
    """Counts what comes of one request."""

    __slots__ = ("_answered", "_request", "_said", "_usage", "uncounted")

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._usage: Usage | None = None
        self._answered = False
        self._said = 0
        self.uncounted = 0

    def hear(self, chunk: Chunk) -> None:
        """Count a chunk of a model, whatever it is; raise `BadResponse` for one that is none."""
        fit = fit_chunk(chunk, MAX_TEXT - self._said)
        if isinstance(fit, TextChunk | ThinkingChunk | CallChunk):
            self._said += len(fit.text)
        self.take(fit)

    def take(self, chunk: Chunk) -> None:
        """Count a chunk that is fit; the caller counts the characters of texts itself and adds them to `uncounted`."""
        if isinstance(chunk, UsageChunk):
            self._usage = chunk.usage
            if chunk.usage.output_tokens:  # some count only what was read until the end
                self.uncounted = 0
        elif isinstance(chunk, PingChunk):
            self._answered = True
        else:
            self.uncounted += len(chunk.text)

    def used(self, *, cut: bool) -> Usage:
        """Return what was used so far.

        A request that is *cut* has been read once anything has come, be it no word; one that has failed by itself
        before its first word has cost nothing, as far as anybody knows.
        """
        written = tokens(self.uncounted)
        if self._usage is None and not written and not (cut and self._answered):
            return NOTHING_USED
        used = with_read(self._usage or NOTHING_USED, self._request)
        return used.but(output_tokens=used.output_tokens + written, estimated=True) if written else used
