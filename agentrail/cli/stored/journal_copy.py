"""`agentrail journal copy`: copies all sessions of a journal or export file into another one; none is run."""

from __future__ import annotations

import sys
from typing import Final

import trio

from agentrail.adapters.journals.archive_writer import ArchiveWriter
from agentrail.adapters.journals.session_copy import (
    CopiedSession,
    CopyReport,
    SessionCopier,
    SessionTotals,
    totals_of,
)
from agentrail.cli.journal_file import check_differ, open_source, open_target, without_password
from agentrail.cli.output.exit_status import DONE, FAILED, tell
from agentrail.cli.output.progress_bar import ProgressBar
from agentrail.cli.output.screen import clean, counted, one_line
from agentrail.cli.stored.unsealed_records import UnsealedRecords, UnsealedTarget
from agentrail.runtime.shared.clock import Clock

AT_ONCE: Final = 16
"""Sessions that are copied at the same time, so that a journal commits their records together."""


async def _copy(source_name: str, target_name: str) -> int:
    """Copy all sessions of a journal or export file into another one, and return the exit status."""
    check_differ(source_name, target_name)
    async with open_source(source_name) as source:
        holders = await source.holders()
        totals = await totals_of(source)
        report = _PrintedReport(totals)
        async with open_target(target_name) as target:
            copier = SessionCopier(UnsealedRecords(source), UnsealedTarget(target), Clock().now_ms, report)
            await copier.copy_all(1 if isinstance(target, ArchiveWriter) else AT_ONCE)
        new_totals = await totals_of(source)
        holders = tuple(dict.fromkeys((*holders, *await source.holders())))
    report.end(without_password(target_name))
    for holder in holders:
        name = one_line(clean(holder))
        tell(f"{without_password(source_name)} is in use ({name}): what is written there from now on is not copied")
    if new_totals != totals:
        tell(f"{without_password(source_name)} has changed meanwhile")
    if report.whole == totals.sessions and new_totals == totals and not holders:
        return DONE
    tell("agentrail: not all is copied, see above; mend that, and repeat the command, which goes on with the rest")
    return FAILED


def copy_journal(source: str, target: str) -> int:
    """Copy all sessions of *source* to *target*, and return the exit status."""
    return trio.run(_copy, source, target)


class _PrintedReport(CopyReport):
    """Shows how far the copy is on standard error, and prints a line for each session with a problem."""

    def __init__(self, totals: SessionTotals) -> None:
        super().__init__()
        self._totals = totals
        self._bar = ProgressBar(sys.stderr)

    def add_records(self, count: int, *, are_new: bool) -> None:
        """Count records, and show how many there are."""
        super().add_records(count, are_new=are_new)
        share = self.records / max(self._totals.records, 1)
        self._bar.show(share, "copy", f": {self.sessions:,} of {counted(self._totals.sessions, 'session')}")

    def end_session(self, copied: CopiedSession) -> None:
        """Count a session, and print its problem."""
        super().end_session(copied)
        if copied.problem:
            self._bar.wipe()
            print(f"{one_line(clean(copied.session_id))}: {one_line(clean(copied.problem))}", flush=True)

    def end(self, target: str) -> None:
        """Say how much is at *target* now."""
        self._bar.wipe()
        count = f"{self.whole:,} of {counted(self._totals.sessions, 'session')}"
        tell(f"{count} with {counted(self.records, 'record')} are in {target}: {self.new:,} were written and read back")
