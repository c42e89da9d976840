"""`agentrail evals compare`: whether results are better or worse than others, or nobody can tell."""

from __future__ import annotations

from pathlib import Path

from agentrail.cli.evaluating.report_output import print_report
from agentrail.cli.output.exit_status import DONE, FAILED
from agentrail.evals import Results, compare


def main(baseline: Path, results: Path, fail_if: str | None, junit: Path | None, markdown: Path | None) -> int:
    """Compare the *results* with the *baseline*, both files, and return the exit status."""
    now = Results.read(results)
    comparison = compare(Results.read(baseline), now)
    print_report(now, comparison, junit, markdown)
    return FAILED if fail_if == "worse" and comparison.is_worse else DONE
