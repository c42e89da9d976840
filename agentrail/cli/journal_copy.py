"""`agentrail journal copy`: copies all sessions of a journal or export file into another one; none is run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
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
from agentrail.cli.exit_status import DONE, FAILED, exit_status, tell
from agentrail.cli.journal_file import check_differ, open_source, open_target, without_password
from agentrail.cli.option_parser import OptionParser
from agentrail.cli.progress_bar import ProgressBar
from agentrail.cli.screen import clean, one_line
from agentrail.runtime.shared.clock import Clock

DESCRIPTION: Final = """\
Copy all sessions of a journal into another one, and compare what was written.
None of them is run.

  copy FROM TO  FROM and TO are each a file with a journal, the URL of one in
                PostgreSQL, or an export file, which has the sessions as lines
                of JSON

FROM is only read. At TO nothing is overwritten: what is there is compared, and
what is missing is added. A copy that was cut is repeated, and goes on."""

EXAMPLES: Final = """\
exit status: 0 if TO has all that FROM has, 1 if not, 2 usage
example: agentrail journal copy ./sessions.db ./backup.jsonl
example: agentrail journal copy ./sessions.db postgresql://host/agentrail"""

USAGE: Final = "agentrail journal copy FROM TO"

AT_ONCE: Final = 16
"""Sessions that are copied at the same time, so that a journal commits their records together."""


def main(argv: Sequence[str]) -> int:
    """Run `agentrail journal` with the arguments *argv*, and return the exit status."""
    return exit_status(lambda: trio.run(_run, argv))


def options_parser() -> OptionParser:
    """Return the parser of the command line."""
    parser = OptionParser("agentrail journal", USAGE, DESCRIPTION, EXAMPLES)
    for name, metavar in (("command", "copy"), ("source", "FROM"), ("target", "TO")):
        parser.add_argument(name, metavar=metavar, help=argparse.SUPPRESS)
    return parser


async def _run(argv: Sequence[str]) -> int:
    parser = options_parser()
    args = parser.parse_args(argv)
    if args.command != "copy":
        parser.error(f"there is no command `{args.command}`")
    check_differ(args.source, args.target)
    return await _copy(args.source, args.target)


async def _copy(source_name: str, target_name: str) -> int:
    async with open_source(source_name) as source:
        holders = await source.holders()
        before = await totals_of(source)
        report = _PrintedReport(before)
        async with open_target(target_name) as target:
            copier = SessionCopier(source, target, Clock().now_ms, report)
            await copier.copy_all(1 if isinstance(target, ArchiveWriter) else AT_ONCE)
        after = await totals_of(source)
        holders = tuple(dict.fromkeys((*holders, *await source.holders())))
    report.end(without_password(target_name))
    for holder in holders:
        who = one_line(clean(holder))
        tell(f"{without_password(source_name)} is in use ({who}): what is written there from now on is not copied")
    if after != before:
        tell(f"{without_password(source_name)} has changed meanwhile")
    if report.whole == before.sessions and after == before and not holders:
        return DONE
    tell("agentrail: not all is copied, see above; mend that, and repeat the command, which goes on with the rest")
    return FAILED


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
        self._bar.show(share, "copy", f": {self.sessions:,} of {_count(self._totals.sessions, 'session')}")

    def end_session(self, copied: CopiedSession) -> None:
        """Count a session, and print its problem."""
        super().end_session(copied)
        if copied.problem:
            self._bar.wipe()
            print(f"{one_line(clean(copied.session_id))}: {one_line(clean(copied.problem))}", flush=True)

    def end(self, target: str) -> None:
        """Say how much is at *target* now."""
        self._bar.wipe()
        whole = f"{self.whole:,} of {_count(self._totals.sessions, 'session')}"
        tell(f"{whole} with {_count(self.records, 'record')} are in {target}: {self.new:,} were written and read back")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
