"""`Snapshots`: states of the files below one folder, from which what an agent changed comes back.

A *span* is what one piece of an agent's work lay between: the snapshots before and after it. What changed in a span is
the agent's; what changed between two spans is somebody else's, such as a person's, and never comes back by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from agentrail.ports.protocol_members import has_members
from agentrail.values.rewinds import FileSpan, LeftOutFile, RewindPreview, RewoundFile
from agentrail.values.value import Authored


class FilesSnapshot(Authored):
    """A snapshot that was taken."""

    id: str
    """Id of the snapshot: equal files have equal ids."""
    left_out: tuple[LeftOutFile, ...] = ()
    """Files and folders that are not in it, apart from ignored and hidden ones; the first hundred."""


class RestoredFiles(Authored):
    """What a rewind has done."""

    files: tuple[RewoundFile, ...]
    """Files that came back, in order of path."""
    left_out: tuple[LeftOutFile, ...]
    """Files that the agent changed and that did not come back, in order of path."""
    span: FileSpan
    """The snapshots before and after the rewind: as any work in a span, it can be taken back."""


class Snapshots(Protocol):
    """Takes snapshots of the files below one folder, and brings back what changed in spans."""

    async def take(self, owner: str) -> FilesSnapshot:
        """Take a snapshot of all files now; *owner* is for whom it is taken: see `snapshot_owner`."""
        ...

    async def preview(self, spans: Sequence[FileSpan], owner: str) -> RewindPreview:
        """Return what `restore` would do now."""
        ...

    async def restore(
        self, spans: Sequence[FileSpan], owner: str, paths: Iterable[str] | None = None, *, over_edits: bool = False
    ) -> RestoredFiles:
        """Give each file that changed in *spans*, which are in order, the content it had before the first change.

        With *paths*, only to these files: raise `UsageError` (`no-changed-file`) if none of the spans changed one of
        them. Raise `FilesEdited` if somebody else has changed one of them after its first change in a span, unless
        *over_edits*. Either is raised before anything changes.
        """
        ...


def snapshot_owner(session_id: str, incarnation: str) -> str:
    """Return for whom a session takes a snapshot in this *incarnation* of it (`State.incarnation`).

    So its snapshots go with it alone: a session of the same id in another journal, or after it was deleted, has others.
    """
    return f"{session_id}/{incarnation}"  # no id has a slash


@runtime_checkable
class HasSnapshots(Protocol):
    """Interface: a sandbox that takes snapshots of its files."""

    @property
    def snapshots(self) -> Snapshots | None:
        """Its snapshots; `None` if it was made without."""
        ...


def snapshots_of(sandbox: object) -> Snapshots | None:
    """Return the snapshots of *sandbox*; `None` if it takes none."""
    return sandbox.snapshots if has_members(sandbox, HasSnapshots) else None
