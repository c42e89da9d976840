"""`JsonLines`: a log of which each line is a JSON object."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import cast

from agentrail.host.http11.access_log import FACTS


class JsonLines(logging.Formatter):
    """Writes a record as one line: time, level, logger, message, and by name what the message says of a request."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of *record*."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        facts: object = getattr(record, FACTS, None)
        if isinstance(facts, dict):
            line |= cast("dict[str, object]", facts)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
