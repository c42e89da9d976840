"""Reports: what stands in them, and that others can read them."""

from xml.etree import ElementTree as ET

import pytest

from agentrail.evals import Results, Score, ScoredRun, compare, junit_report, markdown_report, text_report
from tests.evals.drawn import drawn


def results() -> Results:
    runs = (
        ScoredRun("a", 1, "", scores={"exact": Score(1.0)}, usd=0.25, seconds=2),
        ScoredRun("a", 2, "", scores={"exact": Score(0.0)}, usd=0.25, seconds=1),
        ScoredRun("b", 1, "", error="it <crashed> |\x1b[31m", usd=0),
        ScoredRun("b", 2, "", error="again", usd=0),
        ScoredRun("c", 1, "", errors={"exact": "KeyError: 'x'"}, usd=0),
    )
    return Results("try", ("a", "b", "c", "d"), ("exact",), 2, runs, "interrupted")


def test_a_table_says_what_there_is_and_what_there_is_not() -> None:
    assert text_report(results()) == (
        "case  exact\n"
        "a      0.50\n"
        "b         –\n"
        "c         –\n"
        "d         –\n"
        "all    0.50\n"
        "\n"
        "5 runs for 0.5000 USD, 2 failed\n"
        "3 runs are missing: interrupted\n"
        "b #1: failed: it <crashed> |\x1b[31m\n"
        "b #2: failed: again\n"
        "c #1: no score of `exact`: KeyError: 'x'\n"
    )


def test_a_comparison_is_told_case_by_case() -> None:
    before, after = drawn([1.0] * 8, 1), drawn([0.0] * 8, 2)
    text = text_report(after, compare(before, after))
    assert "scorer-0: worse: 1.00 → 0.00 in 8 cases" in text
    assert "  case-3: 1.00 → 0.00\n" in text


def test_markdown_shows_texts_as_they_are() -> None:
    text = markdown_report(results())
    assert "| a | 0.50 |" in text
    assert r"- b \#1: failed: it \<crashed\> \|" in text


def test_junit_is_read_by_others() -> None:
    (suite,) = ET.fromstring(junit_report(results()))  # noqa: S314 - our own text
    assert suite.attrib == {"name": "exact", "tests": "4", "failures": "0", "errors": "2", "skipped": "1"}
    assert [(test.get("name"), [child.tag for child in test]) for test in suite] == [
        ("a", []),
        ("b", ["error"]),
        ("c", ["error"]),
        ("d", ["skipped"]),
    ]
    before, after = drawn([1.0] * 8, 1), drawn([0.0] * 8, 2)
    (suite,) = ET.fromstring(junit_report(after, compare(before, after)))  # noqa: S314 - as above
    assert suite.get("failures") == "8"


def test_names_of_others_end_no_row_and_no_document() -> None:
    name = "a\x00\x1b[31m\nall  1.00"
    run = ScoredRun(name, 1, "", scores={name: Score(1.0)})
    others = Results(name, (name,), (name,), 1, (run,))
    assert [line[:4] for line in text_report(others).splitlines()] == ["case", "a\x00\x1b[", "all ", "", "1 ru"]
    (suite,) = ET.fromstring(junit_report(others))  # noqa: S314 - our own text
    assert suite.get("name") == "a  [31m all  1.00"


@pytest.mark.long
def test_junit_is_read_by_a_parser_of_junit() -> None:
    junitparser = pytest.importorskip("junitparser")
    suites = junitparser.JUnitXml.fromstring(junit_report(results()).encode())
    assert [(suite.name, suite.tests, suite.errors, suite.skipped) for suite in suites] == [("exact", 4, 2, 1)]
