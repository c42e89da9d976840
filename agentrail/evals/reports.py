"""Reports of results: a table for a terminal, Markdown for a pull request, JUnit for what reads tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final
from xml.etree import ElementTree as ET

from agentrail.evals.comparisons import CaseChange, Comparison
from agentrail.evals.results import Results
from agentrail.values.argument_checks import checked

MOST_PROBLEMS: Final = 20
"""The most problems that a report lists; it says how many more there are."""

NO_SCORE: Final = "–"
"""Stands for a mean where there is no score: it is none of 0."""


@checked
def text_report(results: Results, comparison: Comparison | None = None) -> str:
    """Return the means by case and scorer as a table, what went wrong, and what has changed, if that was compared."""
    rows = [[" ".join(cell.split()) for cell in row] for row in _rows(results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return "\n".join([*table, "", *_summary(results), *_changes(comparison, "  ")]) + "\n"


@checked
def markdown_report(results: Results, comparison: Comparison | None = None) -> str:
    """Return the same as `text_report` in Markdown."""
    head, *rows = [[_in_markdown(cell) for cell in row] for row in _rows(results)]
    table = [head, ["---", *("---:" for _ in head[1:])], *rows]
    lines = [f"| {' | '.join(row)} |" for row in table]
    notes = [f"- {_in_markdown(line)}" for line in (*_summary(results), *_changes(comparison, ""))]
    return "\n".join([f"## {_in_markdown(results.name)}", "", *lines, "", *notes]) + "\n"


@checked
def junit_report(results: Results, comparison: Comparison | None = None) -> str:
    """Return the results as a file of JUnit: a suite for each scorer, a test for each case.

    A test has failed if its case has fallen by a scorer that is worse than the baseline. It is an error if all runs of
    the case failed or the scorer raised for all of them, and skipped if the scorer had nothing to say.
    """
    changes = {} if comparison is None else {change.scorer: change for change in comparison.scorers}
    suites = ET.Element("testsuites", name=_in_xml(results.name))
    for scorer in results.scorers:
        values = results.values(scorer)
        suite = ET.SubElement(suites, "testsuite", name=_in_xml(scorer))
        change = changes.get(scorer)
        fallen = {row.case: row for row in change.cases if row.after < row.before} if change else {}
        for case in results.cases:
            group = _in_xml(f"{results.name}.{scorer}")
            test = ET.SubElement(suite, "testcase", classname=group, name=_in_xml(case))
            runs = [run for run in results.runs if run.case == case]
            test.set("time", f"{sum(run.seconds for run in runs):.3f}")
            problems = [problem for run in runs if (problem := run.error or run.errors.get(scorer, ""))]
            if case in values and change is not None and change.verdict == "worse" and case in fallen:
                ET.SubElement(test, "failure", message=_fall(fallen[case])).text = change.sentence
            elif case not in values and problems:
                ET.SubElement(test, "error", message=_in_xml(problems[0]))
            elif case not in values:
                ET.SubElement(test, "skipped", message="there is no score")
        suite.set("tests", str(len(results.cases)))
        for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(attribute, str(len(suite.findall(f"testcase/{kind}"))))
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _rows(results: Results) -> Iterator[Sequence[str]]:
    """Yield the rows of the table: its head, a row for each case, and the means."""
    yield ["case", *results.scorers]
    values = [results.values(scorer) for scorer in results.scorers]
    for case in results.cases:
        yield [case, *(f"{fmean(means[case]):.2f}" if case in means else NO_SCORE for means in values)]
    means = [results.mean(scorer) for scorer in results.scorers]
    yield ["all", *(NO_SCORE if mean is None else f"{mean:.2f}" for mean in means)]


def _summary(results: Results) -> Iterator[str]:
    """Yield how much was run, what it cost, and what went wrong."""
    cost = "at a cost that is unknown" if results.usd is None else f"for {results.usd:.4f} USD"
    yield f"{len(results.runs)} runs {cost}, {results.failed} failed"
    if results.stopped or results.missing:
        yield f"{results.missing} runs are missing: {results.stopped or 'they were not made'}"
    yield from results.notes
    problems = list(results.problems())
    yield from problems[:MOST_PROBLEMS]
    if len(problems) > MOST_PROBLEMS:
        yield f"and {len(problems) - MOST_PROBLEMS} more problems"


def _changes(comparison: Comparison | None, indent: str) -> Iterator[str]:
    """Yield what has changed by each scorer, the cases that got better or worse, and what was not compared."""
    if comparison is None:
        return
    for change in comparison.scorers:
        yield f"{change.scorer}: {change.sentence}"
        for row in change.cases:
            if row.after != row.before:
                yield f"{indent}{row.case}: {_fall(row)}"
    yield from comparison.notes


def _fall(row: CaseChange) -> str:
    return f"{row.before:.2f} → {row.after:.2f}"


def _in_markdown(text: str) -> str:
    """Return *text* as Markdown that shows it as it is, in one line."""
    return " ".join("".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in text).split())


def _in_xml(text: str) -> str:
    """Return *text* without the control characters that XML cannot have."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
