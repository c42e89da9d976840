"""Making a context shorter, in a task of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from agentrail.core.vocabulary.effects import StartCompaction
from agentrail.core.vocabulary.inputs import AnyInput, CompactionEnded, CompactionFailed
from agentrail.ports.model import Compactor
from agentrail.runtime.shared.sanitize import Contained, tell
from agentrail.values.foreign import described

log = logging.getLogger("agentrail.session")


class RunningCompaction:
    """A compaction that runs; it posts exactly one closing input."""

    __slots__ = ("_post", "_start", "scope")

    def __init__(self, start: StartCompaction, post: Callable[[AnyInput], None]) -> None:
        self._start = start
        self._post = post
        self.scope = trio.CancelScope()

    async def run(self, compactor: Compactor) -> None:
        """Have it made shorter; whatever goes wrong leaves the context as it is."""
        name = self._start.compaction_id
        closing: AnyInput = CompactionFailed(name, "cancelled")

        def failed(error: BaseException) -> None:
            nonlocal closing
            tell(log, error, "compaction failed")
            closing = CompactionFailed(name, described(error))

        try:
            with Contained(failed), self.scope:
                done = await compactor(self._start.messages, self._start.keep)
                closing = CompactionEnded(name, done.messages, done.removed, done.note)
        finally:
            self._post(closing)
