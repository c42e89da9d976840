"""What a response has used while it is not complete: as its provider counts, and estimated where that has not."""

from __future__ import annotations

from agentrail.runtime.shared.sanitize import fit_chunk
from agentrail.values.estimates import tokens, with_read
from agentrail.values.fitting import MAX_TEXT
from agentrail.values.stream import Chunk, ModelRequest, PingChunk, UsageChunk
from agentrail.values.usage import NOTHING_USED, Usage


class UsageMeter:
    """Counts what comes of one request."""

    __slots__ = ("_answered", "_counted", "_request", "_usage", "said")

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._usage: Usage | None = None
        self._answered = False
        self._counted = 0  # characters of what was said that the provider has counted
        self.said = 0  # characters that have come

    def hear(self, chunk: Chunk) -> None:
        """Count a chunk of a model, whatever it is; raise `BadResponse` for one that is none."""
        self.take(fit_chunk(chunk, MAX_TEXT - self.said))

    def take(self, chunk: Chunk) -> None:
        """Count a chunk that is fit; a caller may instead add the characters of a text to `said` itself."""
        if isinstance(chunk, UsageChunk):
            self._usage = chunk.usage
            if chunk.usage.output_tokens:  # some count only what was read until the end
                self._counted = self.said
        elif isinstance(chunk, PingChunk):
            self._answered = True
        else:
            self.said += len(chunk.text)

    def used(self, *, cut: bool) -> Usage:
        """Return what was used so far.

        A request that is *cut* has been read once anything has come, be it no word; one that has failed by itself
        before its first word has cost nothing, as far as anybody knows.
        """
        written = tokens(self.said - self._counted)
        if self._usage is None and not written and not (cut and self._answered):
            return NOTHING_USED
        used = with_read(self._usage or NOTHING_USED, self._request)
        return used.but(output_tokens=used.output_tokens + written, estimated=True) if written else used
