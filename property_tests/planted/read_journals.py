"""What a reader has broken of journals: leases, deletions, redactions, lists, retention, older formats."""

from __future__ import annotations

from typing import Final

from agentrail.adapters.journals.sql import row_removal
from agentrail.adapters.journals.sql.writer import SqlWriter
from agentrail.codec import versions
from agentrail.runtime.supervision import session_deletion
from property_tests.planted.change import Change

# ruff: noqa: SLF001 - private parts are what is broken here

RETAINED: Final = """session_filter = SessionFilter(ended=True, label=policy.label, slots=own_slots)
    deleted = failed = 0
    last: StoredSession | None = None
    while page := await patiently(partial(_listed, sessions, session_filter, last)):
        last = page[-1]
        for stored in page:
            if stored.problem or not stored.ended or """
"""The lines of `retention._sweep` that choose what is deleted."""

CHANGES: Final = (
    Change(
        "redaction_leaves_the_blob",
        "long texts of redacted records stay in the file",
        SqlWriter.drop_unnamed_blobs,
        "drop_unnamed_blobs(self._db, row.key)",
        "None",
        "journal",
    ),
    Change(
        "snapshot_outlives_a_redaction",
        "a snapshot with texts that were redacted is kept",
        row_removal.redact_rows,
        'db.run("delete from ~snapshot where session = ?", (session.key,))',
        "None",
        "journal",
    ),
    Change(
        "released_lease_goes_on",
        "a lease that is released keeps others away until it ends",
        SqlWriter.release,
        "self._hold(claims, is_held=False)",
        "None",
        "journal",
    ),
    Change(
        "label_index_not_updated",
        "a session is not found by labels that it gets later",
        SqlWriter._write_about,
        "if labels:",
        "if labels and unlabelled:",
        "journal",
    ),
    Change(
        "records_outlive_their_session",
        "records are not deleted with their session",
        row_removal.delete_rows,
        '("record", keys), ',
        "",
        "journal",
    ),
    Change(
        "epochs_begin_anew_after_a_deletion",
        "a claim of a deleted session is valid for a new one with its id",
        SqlWriter.claim,
        "self._draw_epoch(row.epoch)",
        "row.epoch + 1",
        "journal",
    ),
    Change(
        "retention_deletes_a_live_session",
        "a session that has not ended is deleted when it was not used for long",
        session_deletion._sweep,
        RETAINED,
        RETAINED.replace("ended=True, ", "").replace("not stored.ended or ", ""),
        "retention",
    ),
    Change(
        "upcaster_skipped",
        "what is stored in an older format is not converted to the next one",
        versions.upcast,
        "range(format_, newest)",
        "range(format_ + 1, newest)",
        "formats",
    ),
)
