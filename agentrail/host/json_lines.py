"""`JsonLines`: formats log records as JSON, one object a line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import cast

from agentrail.host.requests.access_log import FACTS


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, logger, message, and the facts about a request as fields.

    The *number* of a process that is one of several is a field too.
    """

    def __init__(self, number: int | None = None) -> None:
        super().__init__()
        self._more: dict[str, object] = {} if number is None else {"process": number}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of *record*."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._more,
        }
        facts: object = getattr(record, FACTS, None)
        if isinstance(facts, dict):
            line |= cast("dict[str, object]", facts)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
