"""The canary of a simulation: a word that everybody says in some runs, and that a plugin of every session screens out.

It must be in no record, snapshot, event, delta or log line.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from agentrail.testing.probe_plugins import CANARY
from agentrail.testing.simulator.rules import RunVerdict
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.plugins import Gap
from agentrail.values.events.response import MessageDelta, ThinkingDelta
from agentrail.values.events.tools import ToolExecutionUpdate

RULE: Final = "screened"
LOGGER: Final = logging.getLogger("agentrail")


class _LogHandler(logging.Handler):
    """Handler that checks each log line, with its traceback, for the canary."""

    def __init__(self, verdict: RunVerdict) -> None:
        super().__init__(logging.DEBUG)
        self._verdict = verdict

    def emit(self, record: logging.LogRecord) -> None:
        """Check the line for the canary."""
        line = self.format(record)
        self._verdict.demand(CANARY not in line, RULE, "`{}` logs {!r}", record.name, line[-200:])


@contextmanager
def logs_read(verdict: RunVerdict) -> Generator[None]:
    """Within this block, check all log lines for the canary; they go to no other handler."""
    reader, level, passes_on = _LogHandler(verdict), LOGGER.level, LOGGER.propagate
    others = LOGGER.handlers[:]
    LOGGER.handlers[:] = [reader]
    LOGGER.propagate = False
    LOGGER.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        LOGGER.handlers[:] = others
        LOGGER.propagate = passes_on
        LOGGER.setLevel(level)


class CanaryEar:
    """Searches for the canary in the events of one subscriber, and in the joined texts of its deltas."""

    def __init__(self) -> None:
        self._told: dict[object, str] = {}

    def hears(self, envelope: Envelope) -> bool:
        """Return whether the canary is in an event, or in the text that its delta completes."""
        event = envelope.event
        match event:
            case MessageDelta(delta=piece) | ThinkingDelta(delta=piece):
                return self._adds(type(event), piece)
            case ToolExecutionUpdate(call_id=call_id, update=piece):
                return self._adds(call_id, piece)
            case Gap():
                self._told.clear()
                return False
            case _:
                if envelope.n == 0:  # a durable event
                    self._told.clear()
                return CANARY in repr(event)

    def _adds(self, to: object, piece: str) -> bool:
        text = self._told.get(to, "") + piece
        self._told[to] = text[-len(CANARY) :]
        return CANARY in text
