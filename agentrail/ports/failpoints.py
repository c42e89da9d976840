"""Failpoints: named places in the code at which tests crash the process; without a test, `reach` is a no-op."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import Enum
from typing import Final


class Failpoint(Enum):
    """A place in the code at which a test may end the process."""

    MESSAGE_TAKEN = "a message was taken from a mailbox"
    APPEND = "a record is about to be given to the journal"
    APPENDED = "a record is durable, and nobody has heard of it"
    NO_ROOM = "the journal cannot do what a session needs, which waits"
    PUBLISH = "durable events are about to be published"
    PUBLISHED = "durable events are out"
    ANSWER = "a caller is about to get its answer"
    ANSWERED = "a caller has its answer"
    ANSWER_LOOKED_UP = "the answer to a command id was looked for"
    STOPPED_AT_ONCE = "an abort has stopped what it stops, and nothing of it is written yet"

    REQUEST_SPAWNED = "a request has its task"
    REQUEST_SENT = "a request goes out"
    FIRST_CHUNK = "the first chunk of a response is there"
    STREAM_OPENED = "the chunks of a response are out"
    RESPONSE = "the end of a response is about to be posted"
    REQUEST_CUT = "a request was cut"

    CALL_SPAWNED = "a call has its task"
    TOOL = "a tool is about to run"
    TOOL_DONE = "a tool has returned"
    PROBE = "a tool is about to be asked what has become of a call"
    PROBED = "a tool has said what has become of a call"
    CALL_ENDED = "the end of a call is about to be posted"
    CALL_POSTED = "the end of a call was posted"

    TIMER_SET = "a timer was set"
    TIMER_CLEARED = "a timer was cleared"
    TIMER_FIRED = "a timer has come due"
    ASK_SPAWNED = "a plugin's question has its task"
    ASK_SETTLED = "the answer to a plugin's question is about to be posted"
    COMPACTION = "a context is about to be made shorter"
    COMPACTED = "a shorter context is there, and was not posted"

    NEW_CLAIMED = "a new session was claimed, and has no record"
    STARTED = "a new session has started, and its spawner was not told"
    OPENING_READ = "what a stored session was spawned as was read"
    CLAIMED = "a stored session was claimed"
    SNAPSHOT_READ = "the snapshot of a session was looked for"
    RECORDS_FOLDED = "some records of a session were folded"
    REBUILT = "a stored session has its state"
    CODE_FOUND = "a stored session has its code"
    RETURNED = "a stored session is back, and its caller was not told"
    SNAPSHOT_KEPT = "a snapshot is durable"
    ASLEEP = "a session has fallen asleep, and lets go of its memory"
    AWAKE = "a session that slept has its state and its code again"
    RENEWED = "the leases of all sessions were renewed"
    RELEASED = "leases were released"
    LEFT = "a session was let go of: as it is, or ended"

    FILE_OPENED = "the file of a journal was opened"
    TABLE_UPGRADED = "one of the statements was run that bring older tables up to date, and none is committed"
    FILE_OWNED = "the right to write a journal is durable"
    BEGUN = "a transaction was begun"
    EPOCH_RAISED = "the epoch of a session was raised, and that is not committed"
    BLOB_WRITTEN = "a large text was written, and not the record that names it"
    SNAPSHOT_WRITTEN = "a snapshot was written, and not committed"
    DELETION_MARKED = "sessions were marked for deletion, and that is not committed"
    ROWS_ERASED = "some rows of a deleted session were erased, and that is not committed"
    TEXTS_REPLACED = "texts of some records were replaced by a mark, and that is not committed"
    GAPS_ZEROED = "copies of deleted rows were overwritten in the file"
    COMMIT = "a transaction is about to be committed"
    COMMITTED = "a transaction was committed, and nobody was told"
    JOBS_ANSWERED = "those who waited for a commit were told"
    LOG_MOVED = "the log of a journal was moved into its file"

    FILES_KEPT = "the contents of all files are kept, and no snapshot names them"
    SNAPSHOT_TAKEN = "a snapshot of files was taken"
    FILE_STAGED = "what a file is to be was written, and no file was changed"
    FILE_BACK = "one of several files came back"
    FILES_BACK = "all files came back, and no record says so"


_WATCHERS: Final[list[Callable[[Failpoint], None]]] = []


def reach(name: str) -> None:
    """Call the watchers, because the code has reached the failpoint *name*; a watcher may end the process.

    No-op if no test watches. The failpoint is given by name, because CPython 3.11 needs 900 instructions to look up a
    member of an enum, and a turn reaches 20 failpoints.
    """
    if _WATCHERS:
        _tell(Failpoint[name])


def _tell(point: Failpoint) -> None:
    """Call each watcher with *point*."""
    for watcher in _WATCHERS:
        watcher(point)


@contextmanager
def watching(watcher: Callable[[Failpoint], None]) -> Generator[None]:
    """Call *watcher* with each failpoint that is reached within this block, in the thread that reaches it."""
    _WATCHERS.append(watcher)
    try:
        yield
    finally:
        _WATCHERS.remove(watcher)
