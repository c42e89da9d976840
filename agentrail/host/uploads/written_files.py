"""`WrittenPaths`: which files the agent of a session wrote, as the records of the session tell it.

A file counts if a call of `write_file` or `edit_file` that went well names it. A fork has what its history names.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import trio

from agentrail.adapters.sandboxes.paths import parts_of, path_of
from agentrail.api.limits import INSIGHT_RECORDS
from agentrail.errors import PathRefused
from agentrail.ports.journal import Journal, Record
from agentrail.tools.builtin.file_changes import WRITERS
from agentrail.values.events.tools import ToolExecutionEnd, ToolExecutionStart
from agentrail.values.json import JsonObject
from agentrail.values.messages import AssistantMessage, Message, ToolMessage
from agentrail.values.newest import Newest

SESSIONS: Final = 256
"""Of how many sessions it is remembered what their records tell; those of others are read again."""

MAX_OPEN: Final = 1_000
"""The most calls of a session that are remembered until they end."""

AT_ONCE: Final = 100
"""How many records are read at once."""


class WrittenPaths:
    """Finds the paths that the agents of sessions wrote, in the records of *journal*; each record is read once.

    Of one session the *most* paths that were written last are known.
    """

    def __init__(self, journal: Journal, most: int) -> None:
        self._journal = journal
        self._most = most
        self._known = Newest[str, _KnownPaths](SESSIONS)

    async def find(self, session: str, head: int) -> tuple[frozenset[str], bool]:
        """Return the paths that the first *head* records of *session* tell, and whether there may be more of them.

        Of a session with more than `INSIGHT_RECORDS` that nobody asked about before, the last ones are read.
        """
        entry = self._known.get(session)
        if entry is None:
            entry = self._known[session] = _KnownPaths(self._most)
        async with entry.lock:
            if not entry.head:
                entry.take(await self._journal.read(session, 0, 1))
                entry.skip_to(head - INSIGHT_RECORDS)
            while entry.head < head and (records := await self._journal.read(session, entry.head, AT_ONCE)):
                entry.take(records)
                await trio.lowlevel.checkpoint()
            return frozenset(entry.paths), entry.is_cut

    def forget(self, session: str) -> None:
        """Forget what the records of *session* told: they are deleted, or their texts are."""
        self._known.pop(session, None)


class _KnownPaths:
    """What some records of a session tell."""

    def __init__(self, most: int) -> None:
        self.head = 0
        """Number of the last record that was read."""
        self.paths = Newest[str, None](most)
        """The paths, the one written last at the end."""
        self.is_cut = False
        """Whether records were skipped, or paths forgotten because there are too many."""
        self.lock = trio.Lock()
        """Held while records are read."""
        self._most = most
        self._open = Newest[str, str](MAX_OPEN)
        """The paths of calls that run, by call id."""

    def skip_to(self, head: int) -> None:
        """Go on after record *head*. No-op if that was read."""
        if head > self.head:
            self.head, self.is_cut = head, True

    def take(self, records: Iterable[Record]) -> None:
        """Read the next records."""
        for record in records:
            if record.opening is not None:
                self._take_history(record.opening.history)
            for envelope in record.events:
                match envelope.event:
                    case ToolExecutionStart() as start:
                        self._begin(start.call_id, start.name, start.args)
                    case ToolExecutionEnd() as end:
                        self._end(end.call_id, is_error=end.is_error)
                    case _:
                        pass
            self.head = record.number

    def _take_history(self, history: Iterable[Message]) -> None:
        """Read the calls of the history with which a fork begins."""
        for message in history:
            if isinstance(message, AssistantMessage):
                for call in message.calls:
                    self._begin(call.call_id, call.name, call.args)
            elif isinstance(message, ToolMessage):
                self._end(message.call_id, is_error=message.is_error)

    def _begin(self, call_id: str, name: str, args: JsonObject) -> None:
        path = _path_in(args) if name in WRITERS else None
        if path is not None:
            self._open[call_id] = path

    def _end(self, call_id: str, *, is_error: bool) -> None:
        path = self._open.pop(call_id, None)
        if path is not None and not is_error:
            self.is_cut = self.is_cut or (len(self.paths) == self._most and path not in self.paths)
            self.paths[path] = None


def _path_in(args: JsonObject) -> str | None:
    """Return the path in the arguments of a file tool, as lists of files have it; `None` if there is none."""
    path = args.get("path")
    if not isinstance(path, str):
        return None
    with suppress(PathRefused):  # the call fails
        return path_of(parts_of(path.lstrip("/")))  # a composite sandbox takes one that begins with `/`
    return None
