"""Files that come back: what the work of an agent lay between, what a rewind would do, and what it has done."""

from __future__ import annotations

from agentrail.values.personal import Kept, Personal
from agentrail.values.value import Authored


class FileSpan(Authored):
    """The ids of the snapshots of files before and after one piece of an agent's work."""

    before: Kept[str]
    """Id of the snapshot that was taken before the work began."""
    after: Kept[str]
    """Id of the snapshot that was taken after the work had ended."""


class LeftOutFile(Authored):
    """A file or folder of which a snapshot has no content, or that a rewind leaves as it is."""

    path: Personal[str]
    """Path relative to the root."""
    why: Personal[str]
    """Why it is left out."""


class RewoundFile(Authored):
    """A file that comes back, or came back."""

    path: Personal[str]
    """Path relative to the root."""
    back: Kept[str]
    """`restored`: it gets its former content; `recreated`: it was deleted; `removed`: it was created."""


class RewindPreview(Authored):
    """What a rewind would do."""

    files: tuple[RewoundFile, ...] = ()
    """Files that come back, in order of path."""
    edited: Personal[tuple[str, ...]] = ()
    """Paths of files that somebody else changed after the agent, sorted: with one of them, nothing comes back."""
    left_out: tuple[LeftOutFile, ...] = ()
    """Files that the agent changed and that cannot come back, in order of path."""


class Rewound(Authored):
    """What a rewind has done."""

    files: tuple[RewoundFile, ...]
    """Files that came back, in order of path."""
    left_out: tuple[LeftOutFile, ...]
    """Files that the agent changed and that did not come back, in order of path."""
    record: int
    """Number of the session's last record before the rewind: `rewind(record)` takes the rewind back."""
