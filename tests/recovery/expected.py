"""Tables of what a crash at each failpoint leaves: in a resumed session, and in the file of a journal."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.kit import Failpoint


class Told(NamedTuple):
    """For a tool of each effect class: how often it ran in the end, and which result the model got.

    `worked`: the tool's own result. `found`: the result that its probe found. `unknown`: an error that says that the
    effect is unknown. `stopped`: an error after an abort. `-`: there was no call. `None`: a tool of this class does not
    reach the failpoint. ` or `: it depends on which of two tasks Trio runs first.
    """

    point: Failpoint
    story: str
    times: int
    repeatable: str | None
    checkable: str | None
    unsafe: str | None


class Stored(NamedTuple):
    """The content of the file: epoch and number of records of its session, and whether there is a snapshot."""

    point: Failpoint
    times: int
    epoch: int
    records: int
    snapshot: bool


TOLD: Final = (
    Told(Failpoint.MESSAGE_TAKEN, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.MESSAGE_TAKEN, "talk", 2, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.MESSAGE_TAKEN, "talk", 3, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.MESSAGE_TAKEN, "talk", 4, "2 worked", "1 found", "1 unknown"),
    Told(Failpoint.MESSAGE_TAKEN, "talk", 5, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.APPEND, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.APPEND, "talk", 2, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.APPEND, "talk", 3, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.APPEND, "talk", 4, "2 worked", "1 found", "1 unknown"),
    Told(Failpoint.APPEND, "talk", 5, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.APPEND, "come back", 1, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.APPEND, "come back", 2, "2 worked", "1 worked", "0 unknown"),
    Told(Failpoint.APPEND, "come back", 3, "1 worked", "1 found", None),
    Told(Failpoint.APPEND, "come back", 4, None, "1 worked", None),
    Told(Failpoint.APPENDED, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.APPENDED, "talk", 2, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.APPENDED, "talk", 3, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.APPENDED, "talk", 4, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.APPENDED, "talk", 5, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.APPENDED, "come back", 1, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.APPENDED, "come back", 2, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.APPENDED, "come back", 3, "1 worked", "1 worked", None),
    Told(Failpoint.APPENDED, "come back", 4, None, "1 worked", None),
    Told(Failpoint.NO_ROOM, "full", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.PUBLISH, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.PUBLISH, "talk", 2, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.PUBLISH, "talk", 3, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.PUBLISH, "talk", 4, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.PUBLISH, "talk", 5, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.PUBLISHED, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.PUBLISHED, "talk", 2, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.PUBLISHED, "talk", 3, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.PUBLISHED, "talk", 4, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.PUBLISHED, "talk", 5, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.ANSWER, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.ANSWERED, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.ANSWER_LOOKED_UP, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.STOPPED_AT_ONCE, "abort words", 1, "0 -", "0 -", "0 -"),
    Told(Failpoint.STOPPED_AT_ONCE, "abort work", 1, "2 stopped", "1 unknown", "1 unknown"),
    Told(Failpoint.REQUEST_SPAWNED, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.REQUEST_SENT, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.FIRST_CHUNK, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.STREAM_OPENED, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.RESPONSE, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.REQUEST_CUT, "abort words", 1, "0 -", "0 -", "0 -"),
    Told(Failpoint.REQUEST_CUT, "abort words", 2, "0 -", "0 -", "0 -"),
    Told(Failpoint.REQUEST_CUT, "abort words", 3, "0 -", "0 -", "0 -"),
    Told(Failpoint.CALL_SPAWNED, "talk", 1, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.TOOL, "talk", 1, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.TOOL_DONE, "talk", 1, "2 worked", "1 found", "1 unknown"),
    Told(Failpoint.PROBE, "come back", 1, None, "1 worked", None),
    Told(Failpoint.PROBED, "come back", 1, None, "1 worked", None),
    Told(Failpoint.CALL_ENDED, "talk", 1, "2 worked", "1 found", "1 unknown"),
    Told(Failpoint.CALL_ENDED, "come back", 1, "2 worked", "1 worked", None),
    Told(Failpoint.CALL_ENDED, "come back", 2, None, "1 found", None),
    Told(Failpoint.CALL_POSTED, "talk", 1, "2 worked", "1 found", "1 unknown"),
    Told(Failpoint.TIMER_SET, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.TIMER_CLEARED, "talk", 1, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.TIMER_FIRED, "retry", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.ASK_SPAWNED, "ask", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.ASK_SETTLED, "ask", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.COMPACTION, "compact", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.COMPACTED, "compact", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.NEW_CLAIMED, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.STARTED, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.OPENING_READ, "come back", 1, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.CLAIMED, "come back", 1, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.SNAPSHOT_READ, "come back", 1, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.RECORDS_FOLDED, "come back", 1, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.REBUILT, "come back", 1, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.CODE_FOUND, "come back", 1, "1 worked", "1 worked", "0 unknown"),
    Told(Failpoint.RETURNED, "come back", 1, "1 worked or 2 worked", "1 worked", "0 unknown"),
    Told(Failpoint.SNAPSHOT_KEPT, "sleep", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.ASLEEP, "sleep", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.AWAKE, "sleep", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.RENEWED, "sleep", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.RELEASED, "talk", 1, "1 worked", "1 worked", "1 worked"),
    Told(Failpoint.LEFT, "talk", 1, "1 worked", "1 worked", "1 worked"),
)
"""A call runs twice only if its effect class allows it, and is unknown only if nothing can tell whether it ran."""

STORED: Final = (
    Stored(Failpoint.FILE_OPENED, 1, 0, 0, snapshot=False),
    Stored(Failpoint.FILE_OWNED, 1, 0, 0, snapshot=False),
    Stored(Failpoint.BEGUN, 1, 0, 0, snapshot=False),
    Stored(Failpoint.BEGUN, 2, 1, 0, snapshot=False),
    Stored(Failpoint.BEGUN, 3, 1, 1, snapshot=False),
    Stored(Failpoint.BEGUN, 4, 1, 2, snapshot=False),
    Stored(Failpoint.BEGUN, 5, 1, 2, snapshot=True),
    Stored(Failpoint.EPOCH_RAISED, 1, 0, 0, snapshot=False),
    Stored(Failpoint.BLOB_WRITTEN, 1, 1, 1, snapshot=False),
    Stored(Failpoint.SNAPSHOT_WRITTEN, 1, 1, 2, snapshot=False),
    Stored(Failpoint.COMMIT, 1, 0, 0, snapshot=False),
    Stored(Failpoint.COMMIT, 2, 1, 0, snapshot=False),
    Stored(Failpoint.COMMIT, 3, 1, 1, snapshot=False),
    Stored(Failpoint.COMMIT, 4, 1, 2, snapshot=False),
    Stored(Failpoint.COMMIT, 5, 1, 2, snapshot=True),
    Stored(Failpoint.COMMITTED, 1, 1, 0, snapshot=False),
    Stored(Failpoint.COMMITTED, 2, 1, 1, snapshot=False),
    Stored(Failpoint.COMMITTED, 3, 1, 2, snapshot=False),
    Stored(Failpoint.COMMITTED, 4, 1, 2, snapshot=True),
    Stored(Failpoint.COMMITTED, 5, 1, 3, snapshot=True),
    Stored(Failpoint.JOBS_ANSWERED, 1, 1, 0, snapshot=False),
    Stored(Failpoint.JOBS_ANSWERED, 2, 1, 1, snapshot=False),
    Stored(Failpoint.JOBS_ANSWERED, 3, 1, 2, snapshot=False),
    Stored(Failpoint.JOBS_ANSWERED, 4, 1, 2, snapshot=True),
    Stored(Failpoint.JOBS_ANSWERED, 5, 1, 3, snapshot=True),
    # the log of an earlier process is looked after behind the first commit
    Stored(Failpoint.LOG_MOVED, 1, 1, 0, snapshot=False),
    Stored(Failpoint.LOG_MOVED, 2, 1, 3, snapshot=True),
)
"""Data to be committed next is not in the file; committed data is, even if nobody was told of it."""
