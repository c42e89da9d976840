"""Brings back files that a session's calls have changed: `preview_rewind` and `rewind` of handles.

The spans of the calls are in the records. The snapshots themselves are with the sandbox.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

import trio

from agentrail.core.vocabulary.commands import FilesRewoundSent
from agentrail.core.vocabulary.inputs import AnyInput, CallsEnded, ToolRaised, ToolReturned, ToolStopped
from agentrail.errors import BadRecord, CommandConflict, UnknownRecord, UsageError
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import Journal
from agentrail.runtime.shared.call_snapshots import CallSnapshots
from agentrail.runtime.shared.past_records import intact, record_before
from agentrail.values.rewinds import FileSpan, RewindPreview, Rewound

MAX_FILES: Final = 1000
"""The most files that the record of a rewind names; the reply to a command id that is sent again names no more."""


class Rewind(NamedTuple):
    """A rewind of the files of a session that was asked for."""

    journal: Journal
    """Journal with the session's records."""
    session_id: str
    """Id of the session."""
    since: int | str
    """Number of the record, or ref of the prompt, after which changes are taken back."""
    paths: tuple[str, ...] | None = None
    """The only files that come back; `None` if all do."""
    over_edits: bool = False
    """Whether files come back that somebody else has changed since."""

    async def preview(self, calls: CallSnapshots | None, head: int) -> RewindPreview:
        """Return what the rewind would do now; *head* is the number of the session's last record."""
        calls = self._snapshots(calls)
        return await calls.snapshots.preview(await self._spans(await self._number(head)), calls.owner)

    async def run(
        self,
        calls: CallSnapshots | None,
        head: Callable[[], int],
        check: Callable[[], None],
        send: Callable[[FilesRewoundSent], Awaitable[None]],
        command: str | None,
    ) -> Rewound:
        """Bring back the files and *send* what has it recorded; *head* returns the number of the last record.

        No call of the session begins meanwhile. If *command* was carried out before, return what it did then. *check*
        raises if nothing can be recorded: then no file changes.
        """
        snapshots = self._snapshots(calls)
        async with snapshots.no_calls():
            last = head()
            number = await self._number(last)
            former = None if command is None else await self._former(command, number)
            if former is not None:
                return former
            spans = await self._spans(number)
            check()
            rewound = Rewound((), (), last)
            # Shielded: what came back has to be in a record, or it would count as the change of somebody else.
            with trio.CancelScope(shield=True):
                restored = await snapshots.snapshots.restore(
                    spans, snapshots.owner, self.paths, over_edits=self.over_edits
                )
                reach("FILES_BACK")
                rewound = Rewound(restored.files, restored.left_out, last)
                if rewound.files or command is not None:
                    await send(self._record(rewound, restored.span, number))
        return rewound

    def _snapshots(self, calls: CallSnapshots | None) -> CallSnapshots:
        """Return *calls*; raise `UsageError` if the session has no snapshots."""
        if calls is None:
            raise UsageError("no-snapshots", self.session_id)
        return calls

    def _record(self, rewound: Rewound, span: FileSpan, number: int) -> FilesRewoundSent:
        """Return the command that has what was done recorded."""
        recorded = rewound.but(files=rewound.files[:MAX_FILES], left_out=rewound.left_out[:MAX_FILES])
        return FilesRewoundSent(number, self.paths, self.over_edits, recorded, len(rewound.files), span)

    async def _former(self, command: str, number: int) -> Rewound | None:
        """Return what *command* did when it was sent before; `None` if it is new. Raise `CommandConflict`."""
        stored = await self.journal.answer(self.session_id, command)
        if stored is None:
            return None
        match stored.input:
            case FilesRewoundSent(since=since, only=only, over_edits=over_edits, rewound=rewound):
                if (since, only, over_edits) == (number, self.paths, self.over_edits):
                    return rewound
            case _:
                pass
        raise CommandConflict(command)

    async def _number(self, head: int) -> int:
        """Return the number of the record after which changes are taken back; raise if the session has none such."""
        if isinstance(self.since, str):
            return await record_before(self.journal, self.session_id, self.since)
        if not 0 <= self.since <= head:
            raise UnknownRecord(self.session_id, self.since)
        return self.since

    async def _spans(self, number: int) -> Sequence[FileSpan]:
        """Return the spans in the records after record *number*, in order."""
        spans: list[FileSpan] = []
        while records := await intact(self.journal, self.session_id, number):
            if isinstance(records, BadRecord):
                raise records
            for record in records:
                spans += _in_input(record.arrival.input)
            number = records[-1].number
            await trio.lowlevel.checkpoint()
        return spans


def _in_input(input_: AnyInput) -> Iterator[FileSpan]:
    """Yield the spans that an input has."""
    match input_:
        case CallsEnded(ended=ended):
            for end in ended:
                yield from _in_input(end)
        case ToolReturned(files=FileSpan() as span) | ToolRaised(files=FileSpan() as span):
            yield span
        case ToolStopped(files=FileSpan() as span) | FilesRewoundSent(files=span):
            yield span
        case _:
            pass
