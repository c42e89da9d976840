"""Logs plugins whose hooks break, for each hook at most one line in `PERIOD` seconds; and the lines of plugins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from agentrail.core.vocabulary.effects import WriteLog
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.declarations import EventLines
from agentrail.runtime.shared.untrusted_calls import tell
from agentrail.values.events.envelope import Envelope
from agentrail.values.newest import Newest

log = logging.getLogger("agentrail.plugin")

PERIOD: Final = 60.0
"""The least seconds between two log lines about one hook of one plugin; failures in between are counted."""
REFUSING: Final = frozenset({"init", "on_options", "upgrade"})
"""Methods that refuse what calls them, such as a spawn, if they raise; also those of a plugin that is not critical."""
MAX_KEPT: Final = 1_000
"""For how many hooks the time of the last line is kept; the oldest is dropped first."""


LOG_LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
)
"""Levels of lines in the log, by the names that plugins say."""


def write_line(session_id: str, effect: WriteLog) -> None:
    """Log a line of a plugin of a session, at the level that the line has."""
    fields = {"session_id": session_id, "fields": dict(effect.fields)}
    log.log(LOG_LEVELS.get(effect.level, logging.INFO), "%s", effect.message, extra=fields)


def write_events(session_id: str, events: Sequence[Envelope], event_lines: Sequence[EventLines]) -> None:
    """Write a line for each of the *events* that *event_lines* name, if the log takes lines of its level."""
    levels = [name for name, number in LOG_LEVELS.items() if log.isEnabledFor(number)]
    for lines in event_lines if levels else ():
        for event in events:
            line = lines.line(event, levels)
            if line is not None:
                write_line(session_id, WriteLog(line.level, line.message, line.fields))


class Complaints:
    """Logs hooks that broke, for all sessions of a supervisor: each the first time, then once in `PERIOD` seconds."""

    __slots__ = ("_last", "_now")

    def __init__(self, now: Callable[[], float]) -> None:
        self._last = Newest[tuple[str, str], tuple[float, int]](MAX_KEPT)
        self._now = now

    def tell(self, attached: AttachedPlugin, hook: str, problem: str, error: BaseException | None) -> None:
        """Log that *hook* of the plugin *attached* broke, unless a line about it was logged within `PERIOD` seconds."""
        now = self._now()
        key = (attached.plugin, hook)
        last, unsaid = self._last.get(key, (now - PERIOD, 0))
        if now - last < PERIOD:
            self._last[key] = (last, unsaid + 1)
            return
        self._last[key] = (now, 0)
        more = f", and {unsaid} times more since the last line about it" if unsaid else ""
        consequence = "the session goes on as if it had no objection"
        if attached.critical:
            consequence = "what it was asked about is blocked"
        if hook in REFUSING:
            consequence = "what was asked of it is refused"
        line = "`%s` of the plugin `%s` broke: %s; %s%s"
        tell(log, error, line, hook, attached.key, problem, consequence, more)
