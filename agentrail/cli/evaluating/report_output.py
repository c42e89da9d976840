"""`print_report`: prints a report of results, and writes it to the files that were asked for."""

from __future__ import annotations

from pathlib import Path

from agentrail.cli.output.screen import clean
from agentrail.evals import Comparison, Results, junit_report, markdown_report, text_report


def print_report(results: Results, comparison: Comparison | None, junit: Path | None, markdown: Path | None) -> None:
    """Print the report on standard output, and write the files."""
    for line in text_report(results, comparison).splitlines():
        print(clean(line))
    if junit is not None:
        junit.write_text(junit_report(results, comparison), "utf-8")
    if markdown is not None:
        markdown.write_text(markdown_report(results, comparison), "utf-8")
